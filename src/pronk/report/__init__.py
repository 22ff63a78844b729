"""Reports of comparisons and runs as self-contained HTML files, and figures for papers."""

from pronk.report.charts import write_figures
from pronk.report.comparison_page import html, write_report

__all__ = ["html", "write_figures", "write_report"]
