"""Write one page per algorithm file, from its docstrings, the registry and a small run.

Nothing is written twice: idea, update, cost and reference are the module's docstring, the table and
the guarantee are its ENTRY, with the docstring of the bound, and the example is run by this build.
The picture is of the same run. Formulas of a docstring are those that a terminal can show;
`formulas` has them as a page can.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import warnings
from typing import Any

import matplotlib
import numpy as np
import pages
from docstrings import paragraphs, to_markdown
from formulas import FORMULAS, REFERENCE

import pronk
from pronk import regret
from pronk.estimators.registry import entries

#: The stream of the examples, and how a run on it is shown, by task.
STREAM = {
    "regression": """\
import numpy as np
import pronk

X = np.random.default_rng(7).uniform(-1, 1, (1000, 2))
y = np.sin(2 * X[:, 0]) + X[:, 1]
""",
    "classification": """\
import numpy as np
import pronk

X = np.random.default_rng(7).uniform(-1, 1, (1000, 2))
y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] > 0, "yes", "no")
""",
}
RUN = {
    "regression": """\
learner = pronk.make("{name}", random_state=1)
predictions = learner.predict_then_learn(X, y)
print(f"mean squared error {{np.mean((predictions - y) ** 2):.4f}}, {{learner.size_}} points")
""",
    "classification": """\
learner = pronk.make("{name}", "classification", random_state=1)
predictions = learner.predict_then_learn(X, y)
print(f"error {{np.mean(predictions != y):.3f}}, {{learner.size_}} points")
""",
}
CERTIFICATE = """\
certificate = learner.certificate()
print(f"regret {certificate.regret:.2f}, bound {certificate.bound:.2f}")
"""


def modules() -> dict[str, list[str]]:
    """The files of the learners, with their public classes."""
    return {module: list(entry["classes"]) for module, entry in entries().items()}


def names_of(module: str) -> list[Any]:
    """The registry's algorithms of a file."""
    return [algorithm for algorithm in pronk.algorithms().values() if algorithm.module == module]


def slug(name: str) -> str:
    return name.replace("+", "-plus")


def title_of(documentation: str) -> str:
    return re.split(r":|, and ", documentation.split("\n")[0].rstrip("."))[0]


def run_example(name: str, task: str) -> tuple[str, str, Any]:
    """The code of an example on the stream of its task, what it prints, and its losses."""
    code = RUN[task].format(name=name)
    out, scope = io.StringIO(), {}
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(STREAM[task] + code, scope)
        y, said = scope["y"], scope["predictions"]
        losses = (said - y) ** 2 if task == "regression" else (said != y).astype(float)
        try:
            bound = scope["learner"].certificate().bound
        except ValueError:  # it has none
            return code, out.getvalue(), losses
        more = (
            CERTIFICATE
            if bound is not None
            else CERTIFICATE.replace(", bound {certificate.bound:.2f}", "")
        )
        exec(more, scope)
    return code + more, out.getvalue(), losses


def draw(curves: dict[str, Any], task: str, place: str) -> None:
    """Losses along the examples' stream, means over 100 rows."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    settings = {"svg.hashsalt": "pronk", "font.size": 12, "figure.constrained_layout.use": True}
    with matplotlib.rc_context(settings):
        figure, axes = pyplot.subplots(figsize=(7, 3.4))
        for name, losses in curves.items():
            means = np.convolve(losses, np.full(100, 0.01), "valid")
            axes.plot(np.arange(100, len(losses) + 1), means, label=name)
        if task == "regression":
            axes.set_yscale("log")
        axes.set_xlabel("rows")
        axes.set_ylabel("mean squared error" if task == "regression" else "error")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=11)
        path = pages.GENERATED / place
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def examples(module: str, algorithms: list[Any], picture: bool) -> list[str]:
    out = ["## Examples", "Run when this page was built."]
    task, curves = None, {}
    for algorithm in algorithms:
        if algorithm.tasks[0] != task:
            task = algorithm.tasks[0]
            out.append(f"```python\n{STREAM[task]}```")
        code, printed, curves[algorithm.name] = run_example(algorithm.name, task)
        out += [
            f"(algorithm-{slug(algorithm.name)})=\n### {algorithm.name}",
            f"```python\n{code}```",
            f"```text\n{printed}```",
        ]
    if not picture:
        return out
    draw(curves, str(task), f"algorithms/{module}.svg")
    caption = "The examples along their stream: means over 100 rows, each predicted before learned."
    out.insert(2, f"![{caption}]({module}.svg)\n\n*{caption}*")
    return out


def lead(documentation: str) -> str:
    """The first paragraph without the title it begins with."""
    title = title_of(documentation) + ": "
    first = paragraphs(documentation)[0]
    if not first.startswith(title):
        return first
    return first[len(title)].upper() + first[len(title) + 1 :]


def page(module: str, classes: list[str], picture: bool = False) -> str:
    documentation = importlib.import_module(f"pronk.estimators.algorithms.{module}").__doc__ or ""
    algorithms = names_of(module)
    parts = paragraphs(documentation)
    cost = [part for part in parts if part.startswith("Cost ")]
    references = [part for part in parts if re.match("References?:", part)]
    body = [part for part in parts if part not in cost + references]
    body[0] = lead(documentation)
    out = [f"# {title_of(documentation)}", with_formulas(body, FORMULAS.get(module, []))]
    if cost or algorithms:
        out += ["## Cost", to_markdown("\n\n".join(cost)), table(algorithms, linked=False)]
    out += ["## Guarantee", guarantee(module)]
    if algorithms:
        out += examples(module, algorithms, picture)
    out += ["## Parameters"]
    for name in classes:
        out.append(f"```{{eval-rst}}\n.. autoclass:: pronk.{name}\n```")
    out.append("Methods are those of all learners: [](/api/learners.md).")
    if references:
        text = "\n\n".join(re.sub("^References?: ", "", part) for part in references)
        out += ["## Reference", to_markdown(text)]
    return "\n\n".join(part for part in out if part)


def with_formulas(body: list[str], of_blocks: list[list[str] | None]) -> str:
    """The paragraphs of a docstring, its indented blocks as formulas where there are some."""
    several, found, formulas = iter(of_blocks), [], {}
    for part in body:
        lines = next(several, None) if part.startswith("    ") else None
        if lines is not None:
            mark = f"FORMULA{len(formulas)}HERE"
            formulas[mark] = "\n\n".join(f"$$\n{one}\n$$" for one in lines)
            part = mark
        found.append(part)
    text = to_markdown("\n\n".join(found))
    for mark, formula in formulas.items():
        text = text.replace(mark, formula)
    return text


def guarantee(module: str) -> str:
    entry = entries()[module]
    if "guaranteed_by" in entry:
        return to_markdown(importlib.import_module(entry["guaranteed_by"]).__doc__ or "")
    if "guarantee" in entry:
        return to_markdown(entry["guarantee"])
    out = [
        "The bounds that [`pronk.regret`](/api/regret.md) computes; symbols are explained there."
    ]
    for name in entry.get("bounds", []):
        formulas = REFERENCE.get(f"pronk.regret.{name}", [])
        text = with_formulas(paragraphs(getattr(regret, name).__doc__), formulas)
        out += [f"**`{name}`.**", text]
    return "\n\n".join(out) if len(out) > 1 else "None is known."


def table(algorithms: list[Any], linked: bool) -> str:
    """The registry as a table."""
    if not algorithms:
        return ""
    rows = [
        "| name | use it for | time per row | memory | bounded | tasks | paper |",
        "|:--|:--|:--|:--|:--|:--|:--|",
    ]
    for a in algorithms:
        name = f"[`{a.name}`](#algorithm-{slug(a.name)})" if linked else f"`{a.name}`"
        paper = re.sub(r" \(.*\)$", "", a.paper)
        cost = [a.time, a.memory, "yes" if a.bounded else "no"]
        cells = [name, a.use, *cost, ", ".join(a.tasks), paper]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def generate(app: Any) -> None:
    homes = modules()
    for module, classes in homes.items():
        pages.write(f"algorithms/{module}.md", page(module, classes, picture=True))
    kept = {f"{module}.{ending}" for module in homes for ending in ("md", "svg")}
    pages.remove_others("algorithms", kept)
    everything = list(pronk.algorithms().values())
    pages.write("fragments/algorithms.md", table(everything, linked=True))


def setup(app):
    app.connect("builder-inited", generate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
