"""One page an algorithm file: what its docstrings, the registry and a small run say.

Nothing is written twice: idea, update, cost and reference are the module's docstring, the table is
the registry, the guarantee is the docstring of the bound, and the example is run by this build.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import warnings
from typing import Any

import pages
from docstrings import paragraphs, to_markdown

import pronk
from pronk import regret

#: The theorems that speak of the learners of a module; their text is the function's docstring.
GUARANTEES = {
    "kernel_awv": ["kernel_awv_bound"],
    "pkawv": ["pkawv_bound", "pkawv_taylor_bound", "pkawv_kors_bound"],
    "kons": ["newton_bound", "kons_bound", "kons_convex_bound"],
    "sketched_kons": ["sketched_kons_bound"],
    "kernel_pa": ["pa_mistake_bound", "pa_squared_loss_bound"],
    "pros_n_kons": ["newton_bound", "pros_n_kons_bound", "pros_n_kons_squared_bound"],
}

#: Or the module whose docstring states what is guaranteed.
GUARANTEED_BY = {"online_kernel": "pronk.engines.default.mixture"}

#: What is known of the others, which `pronk.regret` does not compute; tests/docs measures it.
KNOWN = {
    "kernel_ogd": """\
Plain OGD (no budget, alpha = 0, a constant step), any convex loss, every f of the RKHS:

    R(f) <= |f|^2/(2 eta) + (eta/2) sum_t l'_t^2 k(x_t, x_t),

of the order of sqrt(T) for a step of the order of 1/sqrt(T). The step "pegasos", without a budget:
the sum of alpha/2 |f_t|^2 + l(f_t(x_t), y_t) exceeds that of any fixed f by at most

    G^2 (1 + log T)/(2 alpha),    G the largest |alpha f_t + l'_t k(x_t, .)|.

Dropping and merging add their errors, which the references bound.""",
    "fogd": """\
In the space of its random features, where |z(x)| = 1, any convex loss, every w:

    R(w) <= |w|^2/(2 eta) + (eta/2) sum_t l'_t^2,

of the order of sqrt(T) for a step of the order of 1/sqrt(T). Inner products of features differ from
the kernel by O(1/sqrt(L)), with high probability on a bounded region.""",
    "nogd": """\
Until the budget is full it is plain OGD. From then on, in the space of its points, which it enters
with the weights w_0, any convex loss, every w of that space:

    R(w) <= |w - w_0|^2/(2 eta) + (eta/2) sum_t l'_t^2 |z(x_t)|^2,    |z(x)|^2 <= k(x, x).

What the space itself misses depends on the first points; the reference bounds it.""",
    "perceptron": """\
The Perceptron, without a budget, k(x, x) <= 1: where some f of the RKHS separates the rows with a
margin, y_t f(x_t) >= 1 for all t, it makes at most |f|^2 mistakes. With a budget there are bounds
against f of small enough norm; the references have them.""",
    "dual_sgd": """\
No regret bound for a given stream. The reference proves convergence in expectation, for rows drawn
independently, up to a gap that the random features leave and that shrinks with their number.""",
    "dual_svrg": """\
No regret bound for a given stream. For rows drawn independently the reference proves (Thm 2)
that the objective at the snapshots approaches its optimum at a linear rate, down to a gap of the
order of 1/m, for steps below 1/(38 M) and periods n >= max(13, 1/(eta alpha (1-b)(1-12 M eta))),
b = 1/2. Its own eta and n = 100 then ask for alpha >= 3.6, more than its experiments have.""",
    "krls": """\
No regret bound: nothing regularises the least squares. For nu > 0 and rows of a bounded region the
dictionary stays finite (reference), and every row is within sqrt(nu) of its span.""",
}

#: The stream of the examples, and how a run on it is told, by task.
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
    """The modules of the learners, with their public classes."""
    homes: dict[str, list[str]] = {}
    for name in pronk.__all__:
        value = getattr(pronk, name)
        if isinstance(value, type) and hasattr(value, "predict_then_learn"):
            module = value.__module__
            if module.startswith("pronk.estimators.algorithms."):
                homes.setdefault(module.rsplit(".", 1)[1], []).append(name)
    # The classifier's docstring refers to the regressor's.
    return {module: sorted(names, reverse=True) for module, names in homes.items()}


def names_of(classes: list[str]) -> list[Any]:
    """The registry's algorithms that are made of these classes."""
    return [
        algorithm
        for algorithm in pronk.algorithms().values()
        if algorithm.learner_class(algorithm.tasks[0]).__name__ in classes
    ]


def slug(name: str) -> str:
    return name.replace("+", "-plus")


def title_of(documentation: str) -> str:
    return re.split(r":|, and ", documentation.split("\n")[0].rstrip("."))[0]


def run_example(name: str, task: str) -> tuple[str, str]:
    """The code of an example on the stream of its task, and what it prints."""
    code = RUN[task].format(name=name)
    out, scope = io.StringIO(), {}
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(STREAM[task] + code, scope)
        try:
            bound = scope["learner"].certificate().bound
        except ValueError:  # it has none
            return code, out.getvalue()
        more = (
            CERTIFICATE
            if bound is not None
            else CERTIFICATE.replace(", bound {certificate.bound:.2f}", "")
        )
        exec(more, scope)
    return code + more, out.getvalue()


def examples(algorithms: list[Any]) -> list[str]:
    out = ["## Examples", "Run when this page was built."]
    task = None
    for algorithm in algorithms:
        if algorithm.tasks[0] != task:
            task = algorithm.tasks[0]
            out.append(f"```python\n{STREAM[task]}```")
        code, printed = run_example(algorithm.name, task)
        out += [
            f"(algorithm-{slug(algorithm.name)})=\n### {algorithm.name}",
            f"```python\n{code}```",
            f"```text\n{printed}```",
        ]
    return out


def lead(documentation: str) -> str:
    """The first paragraph without the title it begins with."""
    title = title_of(documentation) + ": "
    first = paragraphs(documentation)[0]
    if not first.startswith(title):
        return first
    return first[len(title)].upper() + first[len(title) + 1 :]


def page(module: str, classes: list[str]) -> str:
    documentation = importlib.import_module(f"pronk.estimators.algorithms.{module}").__doc__ or ""
    algorithms = names_of(classes)
    parts = paragraphs(documentation)
    cost = [part for part in parts if part.startswith("Cost ")]
    references = [part for part in parts if re.match("References?:", part)]
    body = [part for part in parts if part not in cost + references]
    body[0] = lead(documentation)
    out = [f"# {title_of(documentation)}", to_markdown("\n\n".join(body))]
    if cost or algorithms:
        out += ["## Cost", to_markdown("\n\n".join(cost)), table(algorithms, linked=False)]
    out += ["## Guarantee", guarantee(module)]
    if algorithms:
        out += examples(algorithms)
    out += ["## Parameters"]
    for name in classes:
        out.append(f"```{{eval-rst}}\n.. autoclass:: pronk.{name}\n```")
    out.append("Methods are those of all learners: [](/api/learners.md).")
    if references:
        text = "\n\n".join(re.sub("^References?: ", "", part) for part in references)
        out += ["## Reference", to_markdown(text)]
    return "\n\n".join(part for part in out if part)


def guarantee(module: str) -> str:
    if module in GUARANTEED_BY:
        return to_markdown(importlib.import_module(GUARANTEED_BY[module]).__doc__ or "")
    if module in KNOWN:
        return to_markdown(KNOWN[module])
    functions = GUARANTEES[module]
    out = [
        "The bounds that [`pronk.regret`](/api/regret.md) computes; symbols are explained there."
    ]
    for name in functions:
        out += [f"**`{name}`.**", to_markdown(getattr(regret, name).__doc__)]
    return "\n\n".join(out)


def table(algorithms: list[Any], linked: bool) -> str:
    """The registry as a table."""
    if not algorithms:
        return ""
    rows = [
        "| name | time a row | memory | bounded | tasks | paper |",
        "|:--|:--|:--|:--|:--|:--|",
    ]
    for a in algorithms:
        name = f"[`{a.name}`](#algorithm-{slug(a.name)})" if linked else f"`{a.name}`"
        paper = re.sub(r" \(.*\)$", "", a.paper)
        cells = [name, a.time, a.memory, "yes" if a.bounded else "no", ", ".join(a.tasks), paper]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def generate(app: Any) -> None:
    homes = modules()
    for module, classes in homes.items():
        pages.write(f"algorithms/{module}.md", page(module, classes))
    pages.remove_others("algorithms", {f"{module}.md" for module in homes})
    everything = list(pronk.algorithms().values())
    pages.write("fragments/algorithms.md", table(everything, linked=True))


def setup(app):
    app.connect("builder-inited", generate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
