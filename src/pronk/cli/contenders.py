"""Who is compared: the learners of `--algorithms` with the parameters of `--param`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pronk.cli.choosing import build, read_setting
from pronk.cli.errors import CommandError
from pronk.estimators.entries import DEFAULT_ALGORITHM
from pronk.estimators.faces.constraints import InvalidParameterError
from pronk.estimators.registry import defaults_of, find, make
from pronk.evaluate.adapters import takes_weights
from pronk.evaluate.comparison import Comparison, Contender, prepare
from pronk.evaluate.runs import labelled
from pronk.parts.spelling import did_you_mean
from pronk.streams import FileStream


def read_names(text: str) -> dict[str, str]:
    """Algorithms by label."""
    names: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        label, sign, name = (word.strip() for word in part.partition("="))
        name = name if sign else label
        try:
            find(name)
        except ValueError as error:
            raise CommandError(f"--algorithms: {error}") from None
        if not label or label in names:
            raise CommandError(
                f"--algorithms: {part!r} is there twice; label=name tells two of a kind apart"
            )
        names[label] = name
    if not names:
        raise CommandError("--algorithms: give at least one name; `pronk algorithms` lists them")
    return names


def contenders(
    names: dict[str, str], texts: Sequence[str], task: str, scale: str | None
) -> list[Contender]:
    """The learners with their parameters; those without a label go to all that have them.

    What `pronk.make` chooses beside them is written down with them.

    Where no scaling is chosen, the learner that scales itself is left alone.
    """
    itself = DEFAULT_ALGORITHM if scale is None else None
    chosen: dict[str, dict[str, Any]] = {label: {} for label in names}
    own: dict[str, list[str]] = {label: [] for label in names}
    known = {label: _parameters(name, task) for label, name in names.items()}
    for text in texts:
        label, sign, setting = text.partition(":")
        if sign and "=" not in label:
            if label not in names:
                raise CommandError(
                    f"--param: {text!r} is for {label!r}, but compared are {', '.join(names)}"
                )
            own[label].append(setting)
            continue
        key, value = read_setting(text)
        having = [one for one in names if {key, f"kernel__{key}"} & known[one]]
        if not having:
            _refuse(key, known)
        for one in having:
            chosen[one][key] = value
    for label, settings in own.items():
        build(names[label], task, tuple(settings), 0)  # refuses what it does not know
        chosen[label] |= dict(map(read_setting, settings))
    return [
        Contender(
            label,
            name,
            {**chosen[label], **defaults_of(name, task, chosen[label])},
            "none" if name == itself else None,
        )
        for label, name in names.items()
    ]


def check_weight(comparison: Comparison) -> None:
    """Refuse a weight that has no meaning for someone."""
    if comparison.reading.weight is None:
        return
    for one in comparison.contenders:
        if not takes_weights(one.learner(comparison.task, 0)):
            raise CommandError(
                f"--weight: rows of a weight have no meaning for {one.label}; name others with "
                "--algorithms, as pkawv-nystrom,b-kons,fogd,nogd"
            )


def _parameters(name: str, task: str) -> set[str]:
    """Names of all parameters, also of the kernel."""
    try:
        return set(make(name, task).get_params())
    except ValueError as error:
        raise CommandError(f"--algorithms: {error}; see --task") from None


def _refuse(key: str, known: dict[str, set[str]]) -> None:
    hint = did_you_mean(key, set().union(*known.values()))
    raise CommandError(f"--param: none of {', '.join(known)} has a parameter {key!r}{hint}")


def try_all(
    several: Sequence[Contender],
    scale: str,
    stream: FileStream,
    view: dict[str, Any],
    console: Any,
) -> None:
    """Learn some rows with each: wrong parameters show now, and what is compiled is kept."""
    X, y, weights = labelled(*stream.head(64), stream.weights)
    more = {} if weights is None else {"sample_weight": weights}
    if not len(y):
        return
    with console.status("") as status:
        for contender in several:
            status.update(f"getting ready: {contender.label} (compiled once, then kept)")
            learner = contender.learner(stream.task, 0)
            model = prepare(learner, contender.scale or scale, stream, view)
            try:
                model.predict_then_learn(X, y, **more)
            except (InvalidParameterError, ValueError) as error:
                raise CommandError(f"--param: {contender.label}: {error}") from None
