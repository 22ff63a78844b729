"""Run an example and keep its figure: python run_example.py SCRIPT IMAGE."""

import runpy
import sys

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt


def main(script: str, image: str) -> None:
    plt.show = lambda *args, **options: None
    plt.rcParams.update({"figure.dpi": 110, "font.size": 12, "figure.constrained_layout.use": True})
    runpy.run_path(script, run_name="__main__")
    plt.gcf().savefig(image)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
