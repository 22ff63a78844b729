"""Write digests of what every learner predicts and of the bytes it saves (`make fingerprints`).

    PYTHONPATH=tests python -m tools.fingerprints --out before.json
    PYTHONPATH=tests python -m tools.fingerprints --against before.json

Run the first before a change that must not change any number, the second after it. Each learner
of the laws learns one stream in uneven pieces. Digests are of bits, so both runs need the same
machine and the same libraries.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np

from laws.cases import CASES, Case

ROWS = 700
CUTS = (1, 2, 5, 6, 40, 41, 300, 433)


def fingerprint(case: Case) -> dict[str, str]:
    """Return digests of a learner's predictions, of its file, and of its later predictions."""
    X, y = case.stream(ROWS, seed=3)
    learner = case.make()
    places = (0, *CUTS, ROWS)
    parts = [
        learner.predict_then_learn(X[start:stop], y[start:stop]) for start, stop in pairwise(places)
    ]
    with tempfile.TemporaryDirectory() as folder:
        learner.save(Path(folder) / "model")
        saved = (Path(folder) / "model").read_bytes()
    answers = {"predictions": np.concatenate(parts).astype(str), "after": learner.predict(X[:50])}
    texts = {name: "\n".join(map(str, values)).encode() for name, values in answers.items()}
    return {
        name: hashlib.sha256(text).hexdigest()[:16]
        for name, text in {**texts, "file": saved}.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, help="write the digests as JSON")
    parser.add_argument("--against", type=Path, help="earlier digests; print what differs")
    given = parser.parse_args()
    found = {case.id: fingerprint(case) for case in CASES}
    if given.out:
        given.out.write_text(json.dumps(found, indent=1))
    if not given.against:
        print(
            f"{len(found)} learners, {hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16]}"
        )
        return 0
    before = json.loads(given.against.read_text())
    differ = 0
    for name in sorted({*before, *found}):
        old, new = before.get(name, {}), found.get(name, {})
        what = [part for part in {**old, **new} if old.get(part) != new.get(part)]
        differ += bool(what)
        if what:
            print(f"{name}: {', '.join(what)} differ" if old and new else f"{name}: only in one")
    print(f"{len(found)} learners, {differ} differ")
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
