"""`pronk algorithms`: a table of the algorithms; it loads neither scikit-learn nor Numba."""

from __future__ import annotations

from pronk.cli import screen
from pronk.estimators.registry import algorithms


def list_algorithms(*, as_json: bool) -> None:
    """Print every algorithm with its use, tasks, cost and paper."""
    known = list(algorithms().values())
    if as_json:
        names = ("use", "tasks", "bounded", "time", "memory", "paper", "params")
        screen.print_json({one.name: {name: getattr(one, name) for name in names} for one in known})
        return
    papers = list(dict.fromkeys(algorithm.paper for algorithm in known))
    table = screen.plain_table()
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("use it for")
    for title in ("task", "time per row", "bounded", "paper"):
        table.add_column(title, justify="right" if title == "paper" else "left")
    for algorithm in known:
        table.add_row(
            algorithm.name,
            algorithm.use,
            "".join(task[0].upper() for task in algorithm.tasks),
            algorithm.time,
            "yes" if algorithm.bounded else "",
            str(papers.index(algorithm.paper) + 1),
        )
    console = screen.output()
    console.print(table)
    console.print(
        "\nR regression, C classification; bounded: time and memory per row stop growing; "
        "t rows so far, d columns, B the budget, j, m, s, N points, r, L features. "
        "--json adds memory and parameters.\n",
        style="dim",
    )
    for i, paper in enumerate(papers, 1):
        console.print(f"{i:>2} {paper}", style="dim", markup=False)
