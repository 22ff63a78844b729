"""What several tests do: walk a stream in uneven blocks, run a command."""

from itertools import cycle

import numpy as np
import pytest

from pronk.cli import main


def walk(learner, X, y, **options):
    """predict_then_learn over uneven blocks."""
    parts, start = [], 0
    sizes = cycle((1, 3, 7, 64, 2))
    while start < len(X):
        stop = start + next(sizes)
        parts.append(learner.predict_then_learn(X[start:stop], y[start:stop], **options))
        start = stop
    return np.concatenate(parts)


def pronk_run(capsys, *arguments):
    """The exit code, stdout and stderr of a command."""
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return exit_.value.code, out, err
