"""Reports of comparisons and runs as self-contained HTML files, and figures for papers."""

from pronk.report.comparison_page import html, write_report
from pronk.report.figures import write_figures

__all__ = ["html", "write_figures", "write_report"]
