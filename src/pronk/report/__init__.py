"""Reports of comparisons and runs as self-contained HTML files."""

from pronk.report.comparison_page import html, write_report

__all__ = ["html", "write_report"]
