"""`pronk inspect`: describe a saved model or a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pronk.cli import screen
from pronk.cli.inputs import learned_inputs
from pronk.cli.scale_out import KeyedRun
from pronk.data import Prepared
from pronk.estimators.files import CHECKPOINT, load, read_header
from pronk.evaluate import held_bytes
from pronk.evaluate.formatting import number, setting, size
from pronk.keyed.store import FORMAT

#: Most names in a list.
LISTED = 8


def inspect_file(path: Path, *, as_json: bool) -> None:
    """Print class, sizes, settings, state and certificate."""
    found = _describe_folder(path) if path.is_dir() else _describe_file(path)
    if as_json:
        screen.print_json(found)
    else:
        _print(found)


def _describe_file(path: Path) -> dict[str, Any]:
    header = read_header(path)
    found: dict[str, Any] = {
        "file": str(path),
        "kind": "checkpoint" if header["class"] == CHECKPOINT else "model",
        "format": header["format"],
        "written_by": header["pronk"],
        "bytes": path.stat().st_size,
    }
    tree = header["state"]
    if found["kind"] == "checkpoint":
        found["checkpoint"] = {name: tree[name] for name in ("rows", "finished", "settings")}
    if found["kind"] == "model" or tree["model"] is not None:
        found["model"] = _describe(load(path))
    return found


def _describe_folder(path: Path) -> dict[str, Any]:
    """Describe the models of `pronk run --by`: their number, metrics and common settings."""
    run = KeyedRun.load(path)
    model = {
        **_common(run, run.learner, prepared=True),
        "by": run.by,
        "keys": len(run.keyed),
        "metrics": run.keyed.metrics(),
        "target": (run.__dict__.get("training_record_") or {}).get("target"),
        "scale": run.preparing.scale,
    }
    run.keyed.close()
    files = [file for file in path.iterdir() if file.is_file()]
    return {
        "file": str(path),
        "kind": "models by key",
        "format": FORMAT,
        "bytes": sum(file.stat().st_size for file in files),
        "model": model,
    }


def _describe(model: Any) -> dict[str, Any]:
    around = isinstance(model, Prepared)
    learner = model.learner_ if around else model
    described = {
        **_common(model, learner, prepared=around),
        "points": int(model.size_),
        "memory": held_bytes(model),
        "scale": model.scaling_ if around else "none",
    }
    kinds = enumerate(described["kinds"])
    described["categorical"] = [i for i, kind in kinds if kind == "category"]
    if hasattr(learner, "classes_"):
        described["classes"] = learner.classes_.tolist()
    try:
        described["certificate"] = learner.certificate().to_dict()
    except (ValueError, AttributeError):
        described["certificate"] = None  # the learner does not track its regret
    return described


def _common(model: Any, learner: Any, *, prepared: bool) -> dict[str, Any]:
    """Return what a single model and models by key have; ``prepared`` ones prepare columns."""
    columns, names = int(model.n_features_in_), getattr(model, "feature_names_in_", None)
    training_record = model.__dict__.get("training_record_") or {}
    return {
        "class": type(learner).__name__,
        "rows": int(model.n_seen_),
        "learned": [one.to_dict() for one in learned_inputs(training_record)],
        "columns": columns,
        "names": None if names is None else [str(name) for name in names],
        "missing": model.missing if prepared else "error",
        "kinds": model.kinds_ if prepared else ["number"] * columns,
        "params": {k: setting(v) for k, v in learner.get_params(deep=False).items()},
    }


def _print(found: dict[str, Any]) -> None:
    by = f", written by pronk {found['written_by']}" if "written_by" in found else ""
    kind = f"{found['kind']}, {size(found['bytes'])}, format {found['format']}{by}"
    facts = {"file": kind}
    if "checkpoint" in found:
        state = "finished" if found["checkpoint"]["finished"] else "unfinished"
        facts["run"] = f"{found['checkpoint']['rows']:,} rows done, {state}"
    model = found.get("model")
    if model is not None:
        facts |= _facts(model)
    console = screen.output()
    title = screen.visible(str(model["class"] if model else found["file"]))
    console.print(title, style="bold", markup=False)
    console.print(screen.facts(facts))


def _facts(model: dict[str, Any]) -> dict[str, str]:
    names = model["names"] or list(map(str, range(model["columns"])))
    shown = f": {_listed(names)}" if model["names"] else ""
    facts = {"learned": f"{model['rows']:,} rows of {model['columns']} columns{shown}"}
    files = [file["name"] for one in model["learned"] for file in one["files"]]
    if files:
        start = ".., " if len(files) > LISTED else ""
        facts["files"] = f"{len(files)}: {start}{', '.join(files[-LISTED:])}"
    if "classes" in model:
        facts["classes"] = f"{len(model['classes'])}: {_listed(map(str, model['classes']))}"
    if "keys" in model:
        facts["keys"] = f"{model['keys']:,} in column {model['by']}, one model per key"
        means = (f"{name} {number(value)}" for name, value in model["metrics"].items())
        facts["metrics"] = ", ".join(means)
    else:
        facts["points held"] = f"{model['points']:,}" if model["points"] else "none"
        facts["memory"] = size(model["memory"])
    facts["scaling"] = model["scale"]
    if model["missing"] != "error":
        facts["missing"] = f"filled in with the {model['missing']}"
    for kind, word in (("category", "categories"), ("time", "times"), ("date", "dates")):
        which = [name for name, own in zip(names, model["kinds"], strict=True) if own == kind]
        if which:
            facts[word] = ", ".join(which)
    facts["settings"] = ", ".join(f"{k}={v}" for k, v in model["params"].items())
    held = model.get("certificate")
    if held is not None:
        several = {"certificate": held, "  of combinations": held.get("combination")}
        for title, one in several.items():
            if one:
                bound = "none known" if one["bound"] is None else number(one["bound"])
                facts[title] = f"regret {number(one['regret'])}, bound {bound}"
    return facts


def _listed(several: Iterable[str]) -> str:
    """Return the first of several names."""
    first = list(several)
    return ", ".join(first[:LISTED]) + (", .." if len(first) > LISTED else "")
