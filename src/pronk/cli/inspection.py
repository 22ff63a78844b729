"""`pronk inspect`: what a saved model or a checkpoint is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from pronk.cli import screen
from pronk.cli.learned import learned_by
from pronk.estimators import storage
from pronk.evaluate import held_bytes
from pronk.evaluate.plain_json import setting
from pronk.streams import Prepared


def inspect_file(path: Path, *, as_json: bool) -> None:
    """Print class, sizes, settings, state and certificate."""
    header = storage.read_header(path)
    found: dict[str, Any] = {
        "file": str(path),
        "kind": "checkpoint" if header["class"] == storage.CHECKPOINT else "model",
        "format": header["format"],
        "written_by": header["pronk"],
        "bytes": path.stat().st_size,
    }
    if found["kind"] == "checkpoint":
        tree = header["state"]
        found["checkpoint"] = {
            "rows": tree["rows"],
            "finished": tree["finished"],
            "settings": {k: v for k, v in tree["settings"].items() if k != "input"},
        }
    if found["kind"] == "model" or header["state"]["model"] is not None:
        found["model"] = _describe(storage.load(path))
    if as_json:
        screen.print_json(found)
    else:
        _print(found)


def _describe(model: Any) -> dict[str, Any]:
    around = isinstance(model, Prepared)
    learner = model.learner_ if around else model
    names = getattr(model, "feature_names_in_", None)
    story = model.__dict__.get("story_") or {}
    described: dict[str, Any] = {
        "class": type(learner).__name__,
        "rows": int(model.n_seen_),
        "learned": [one.to_dict() for one in learned_by(story)],
        "columns": int(model.n_features_in_),
        "names": None if names is None else [str(name) for name in names],
        "points": int(model.size_),
        "memory": held_bytes(model),
        "scale": model.scaling_ if around else "none",
        "missing": model.missing if around else "error",
        "kinds": model.kinds_ if around else ["number"] * int(model.n_features_in_),
        "params": {k: setting(v) for k, v in learner.get_params(deep=False).items()},
    }
    kinds = enumerate(described["kinds"])
    described["categorical"] = [i for i, kind in kinds if kind == "category"]
    if hasattr(learner, "classes_"):
        described["classes"] = learner.classes_.tolist()
    try:
        described["certificate"] = learner.certificate().to_dict()
    except (ValueError, AttributeError):
        described["certificate"] = None  # its regret is not tracked
    return described


def _print(found: dict[str, Any]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    _row(table, "file", f"{found['kind']}, {screen.size(found['bytes'])}, format "
         f"{found['format']}, written by pronk {found['written_by']}")  # fmt: skip
    if "checkpoint" in found:
        held = found["checkpoint"]
        state = "finished" if held["finished"] else "to go on"
        _row(table, "run", f"{held['rows']:,} rows done, {state}")
    model = found.get("model")
    if model is not None:
        _model_rows(table, model)
    console = screen.output()
    title = screen.visible(str(model["class"] if model else found["file"]))
    console.print(title, style="bold", markup=False)
    console.print(table)


def _row(table: Table, name: str, text: str) -> None:
    """A line; labels and names of a file may hold anything, which is shown and not obeyed."""
    table.add_row(name, Text(screen.visible(text)))


def _model_rows(table: Table, model: dict[str, Any]) -> None:
    names = model["names"]
    shown = f": {', '.join(names[:8])}{', ..' if len(names) > 8 else ''}" if names else ""
    _row(table, "learned", f"{model['rows']:,} rows of {model['columns']} columns{shown}")
    files = [file["name"] for one in model["learned"] for file in one["files"]]
    if files:
        start = ".., " if len(files) > 8 else ""
        _row(table, "files", f"{len(files)}: {start}{', '.join(files[-8:])}")
    if "classes" in model:
        classes = [str(label) for label in model["classes"]]
        more = ", .." if len(classes) > 8 else ""
        _row(table, "classes", f"{len(classes)}: {', '.join(classes[:8])}{more}")
    _row(table, "points held", f"{model['points']:,}" if model["points"] else "none")
    _row(table, "memory", screen.size(model["memory"]))
    _row(table, "scaling", model["scale"])
    if model["missing"] != "error":
        _row(table, "missing", f"filled in by the {model['missing']}")
    for kind, word in (("category", "categories"), ("time", "times"), ("date", "dates")):
        which = [names[i] if names else str(i) for i, k in enumerate(model["kinds"]) if k == kind]
        if which:
            _row(table, word, ", ".join(which))
    _row(table, "settings", ", ".join(f"{k}={v}" for k, v in model["params"].items()))
    held = model["certificate"]
    if held is not None:
        _row(table, "certificate", _told(held))
        if held.get("combination"):
            _row(table, "  of combinations", _told(held["combination"]))


def _told(held: dict[str, Any]) -> str:
    bound = "none known" if held["bound"] is None else screen.number(held["bound"])
    return f"regret {screen.number(held['regret'])}, bound {bound}"
