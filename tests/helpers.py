"""Shared by tests: make a stream, learn it in uneven blocks, run a command, an executor."""

import pickle
from concurrent.futures import Future
from itertools import cycle

import numpy as np
import pytest

from pronk.cli import main
from pronk.newton.forecaster import Forecasters


def sequence(n, labels=False, seed=0):
    """Return rows and targets that depend on the rows and on a hidden random walk."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    hidden = np.zeros(n)
    for t in range(1, n):
        hidden[t] = 0.98 * hidden[t - 1] + 0.2 * rng.normal()
    y = np.sin(3 * X[:, 0]) + hidden
    return X, (np.where(y > 0.3, "high", np.where(y > -0.3, "mid", "low")) if labels else y)


def blockwise(learner, X, y, **options):
    """Return the predictions of predict_then_learn over uneven blocks."""
    parts, start = [], 0
    sizes = cycle((1, 3, 7, 64, 2))
    while start < len(X):
        stop = start + next(sizes)
        parts.append(learner.predict_then_learn(X[start:stop], y[start:stop], **options))
        start = stop
    return np.concatenate(parts)


def pronk_run(capsys, *arguments):
    """Run a command; return its exit code, stdout and stderr."""
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return exit_.value.code, out, err


def unweighted_checks(learner):
    """Return scikit-learn's checks of sample_weight that a learner cannot pass, with reasons."""
    if not learner._accepts_weights():
        why = "a weighted row has no meaning here: the call raises"
        names = (
            "check_sample_weights_list",
            "check_sample_weights_not_overwritten",
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weight_equivalence_on_sparse_data",
        )
        return dict.fromkeys(names, why)  # weights of 0 select rows
    if type(learner).__name__.startswith(("KernelAWV", "KRLS")):
        return {}  # the fit is that of the rows repeated, in any order
    why = "a row of weight 2 is not the row twice, and the check changes the order of the rows"
    names = ("dense", "sparse")
    return {f"check_sample_weight_equivalence_on_{name}_data": why for name in names}


class InlineExecutor:
    """Run each task at once, from pickled arguments, as another process would.

    Every third task runs twice, as after the loss of a worker.
    """

    def __init__(self):
        self.names = []

    def submit(self, function, *arguments):
        self.names.append(function.__name__)
        arguments = pickle.dumps(arguments)
        future = Future()
        try:
            if len(self.names) % 3 == 0:
                function(*pickle.loads(arguments))
            future.set_result(pickle.loads(pickle.dumps(function(*pickle.loads(arguments)))))
        except Exception as error:
            future.set_exception(error)
        return future


class Forecaster:
    """`newton.Forecasters` with one forecaster, whose features (n, size) have no first index."""

    def __init__(self, alpha, size, outputs=1, window=None, anticipate=True):
        self.all = Forecasters([alpha], [window], [0], outputs, anticipate, size)
        self.to_state, self.restore = self.all.to_state, self.all.restore
        self.block_length = self.all.block_length

    def learn(self, Phi, Y, gaps=None, later=None):
        later = None if later is None else later[None]
        return self.all.learn(Phi[None], Y, gaps, later)[:, 0]

    def predict(self, Phi):
        return self.all.predict(Phi[None])[:, 0]

    def variance(self, Phi):
        return self.all.variance(Phi[None], 0)

    def resize(self, size):
        self.all.resize([size])

    @property
    def weights(self):
        return self.all.weights_of(0)
