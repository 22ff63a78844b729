"""Run cells of Python given as JSON on standard input; print what each prints and draws."""

import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt


def main() -> None:
    plt.rcParams.update({"figure.dpi": 110, "font.size": 12, "figure.constrained_layout.use": True})
    plt.show = lambda *args, **options: None
    scope: dict[str, Any] = {"__name__": "__main__"}
    found = []
    for number, text in enumerate(json.load(sys.stdin)):
        printed, drawn = io.StringIO(), io.BytesIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, f"cell {number}", "exec"), scope)
        if plt.get_fignums():
            plt.gcf().savefig(drawn, format="png")
            plt.close("all")
        found.append(
            {"printed": printed.getvalue(), "drawn": base64.b64encode(drawn.getvalue()).decode()}
        )
    print(json.dumps(found))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
