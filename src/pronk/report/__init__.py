"""Reports of comparisons and runs: HTML files that need no network, and figures for papers."""

from pronk.report.figures import write_figures
from pronk.report.page import html, write_report

__all__ = ["html", "write_figures", "write_report"]
