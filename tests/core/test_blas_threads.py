"""One thread of BLAS inside pronk's calls, and everything as it was after them.

Every test first asks the libraries for two threads, so that nothing in the environment, as the
Makefile's variables, can make it pass.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
import traceback
from types import SimpleNamespace

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import pronk
from pronk.core import runtime
from pronk.core.runtime import Limit, Pool, limited, loaded_pools, most_threads
from pronk.regret import best_in_hindsight, regret_against_best

X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
Y = np.sin(3 * X[:, 0])


def threads() -> set[int]:
    """What an outsider sees: the numbers of all BLAS libraries."""
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def stacks() -> list[str]:
    """Where each thread of Python is."""
    return ["".join(traceback.format_stack(frame)[-8:]) for frame in sys._current_frames().values()]


@pytest.fixture(autouse=True)
def two_threads():
    """Two threads before the call; the default setting before and after."""
    with threadpool_limits(2, user_api="blas"):
        assert threads() == {2}, "the libraries do not take two threads"
        assert not limited._inside, f"a call of an earlier test has not ended: {stacks()}"
        pronk.set_threads(1)
        yield
        pronk.set_threads(1)


class Spy:
    """A kernel function that notes the threads it is called with."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.fails = False

    def __call__(self, A, B):
        self.seen |= threads()
        if self.fails:
            raise RuntimeError("no kernel today")
        return np.exp(-((A[:, None] - B) ** 2).sum(axis=2))


def fitted(spy: Spy):
    return pronk.KernelAWVRegressor(kernel=spy).fit(X[:20], Y[:20])


CALLS = {
    "fit": lambda m: m.fit(X, Y),
    "partial_fit": lambda m: m.partial_fit(X, Y),
    "predict_then_learn": lambda m: m.predict_then_learn(X, Y),
    "one row": lambda m: m.predict_then_learn(X[:1], Y[:1]),
    "learn_one": lambda m: m.learn_one(X[0], Y[0]),
    "predict": lambda m: m.predict(X),
    "predict_one": lambda m: m.predict_one(X[0]),
    "score": lambda m: m.score(X, Y),
    "regret": lambda m: best_in_hindsight(X, Y, m.kernel, alpha=1.0).predict(X),
    "measured": lambda m: regret_against_best(Y, X, Y, m.kernel),
}


@pytest.mark.parametrize("call", CALLS)
def test_one_thread_inside_a_call_and_two_after_it(call):
    spy = Spy()
    learner = fitted(spy)
    spy.seen.clear()
    CALLS[call](learner)
    assert spy.seen == {1}
    assert threads() == {2}


def test_loading_a_model_and_its_certificate(tmp_path, monkeypatch):
    spy, seen = Spy(), []
    learner = fitted(spy)
    learner.save(tmp_path / "m.pronk")
    engine = type(learner._model)
    for name in ("restore", "certificate"):
        whole = getattr(engine, name)

        def watched(self, *given, whole=whole):
            seen.append(threads())
            return whole(self, *given)

        monkeypatch.setattr(engine, name, watched)
    pronk.load(tmp_path / "m.pronk", kernel=spy).certificate()
    assert seen == [{1}, {1}] and threads() == {2}


@pytest.mark.parametrize("call", CALLS)
def test_two_after_a_call_that_failed(call):
    spy = Spy()
    learner = fitted(spy)
    spy.fails = True
    with pytest.raises(RuntimeError, match="no kernel today"):
        CALLS[call](learner)
    assert threads() == {2}


def test_refused_input_restores_too():
    learner = fitted(Spy())
    with pytest.raises(ValueError, match="inf"):
        learner.predict_then_learn(np.full((3, 2), np.inf), np.zeros(3))
    assert threads() == {2}


def test_the_user_decides():
    spy = Spy()
    learner = fitted(spy)
    for asked, inside in ((3, {3}), (2, {2}), (None, {2}), (1, {1})):
        if asked == 3 > most_threads(runtime._blas_libraries()):
            continue  # the next test
        pronk.set_threads(asked)
        spy.seen.clear()
        learner.predict(X)
        assert spy.seen == inside
        assert threads() == {2}


@pytest.mark.parametrize(
    "api, layer, version, most",
    [
        ("openblas", "pthreads", "0.3.27.dev", 3),
        ("openblas", "pthreads", "0.3.28", 3),
        ("openblas", "pthreads", "0.3.29.dev", np.inf),
        ("openblas", "pthreads", "0.4.0", np.inf),
        ("openblas", "openmp", "0.3.27", np.inf),
        ("mkl", "intel", None, np.inf),
    ],
)
def test_an_openblas_that_would_crash_is_not_asked(monkeypatch, api, layer, version, most):
    library = SimpleNamespace(internal_api=api, threading_layer=layer, version=version)
    monkeypatch.setattr(runtime, "_threads_at_start", lambda: 2)
    monkeypatch.setattr(runtime, "_blas_libraries", lambda: [library])
    assert most_threads([library]) == most
    if most == 3:
        with pytest.raises(ValueError, match=r"n must be at most 3 here, .*; got 4"):
            pronk.set_threads(4)
        assert limited.wanted == 1


def test_threads_at_the_start_are_those_of_the_environment(monkeypatch):
    for name in ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    cores = runtime._threads_at_start()
    assert 1 <= cores <= os.cpu_count()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert runtime._threads_at_start() == 1
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1000")
    assert runtime._threads_at_start() == cores
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "0")
    assert runtime._threads_at_start() == 1


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2"])
def test_a_wrong_number_is_refused(wrong):
    with pytest.raises(ValueError, match=r"n must be a number of threads from 1 on, or None"):
        pronk.set_threads(wrong)
    assert limited.wanted == 1


def test_a_learner_inside_a_kernel_of_another_learner():
    """Nested: the inner call's end is not the outer one's."""
    spy = Spy()
    inner = fitted(Spy())

    def kernel(A, B):
        inner.predict(X[:1])
        return spy(A, B)

    pronk.KernelAWVRegressor(kernel=kernel).fit(X[:30], Y[:30])
    assert spy.seen == {1} and threads() == {2}


def test_calls_of_several_threads_at_once():
    """The first in sets the number; only the last out puts it back."""
    inside, go_on = threading.Barrier(2), threading.Event()

    def work():
        with limited:
            inside.wait()
            go_on.wait()

    other = threading.Thread(target=work)
    other.start()
    inside.wait()
    with limited:
        assert threads() == {1}
    assert threads() == {1}  # the other one is still inside
    go_on.set()
    other.join()
    assert threads() == {2}


def test_many_threads_in_any_order():
    learners = [fitted(Spy()) for _ in range(4)]
    seen: list[set[int]] = []

    def work(learner):
        for i in range(25):
            learner.predict_then_learn(X[i : i + 1], Y[i : i + 1])
        seen.append(learner.kernel.seen)

    running = [threading.Thread(target=work, args=(learner,)) for learner in learners]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert seen == [{1}] * 4
    assert threads() == {2}


def test_a_new_choice_inside_a_call_holds_at_once():
    with limited:
        pronk.set_threads(2)
        assert threads() == {2}
        pronk.set_threads(1)
        assert threads() == {1}
        pronk.set_threads(None)
        assert threads() == {2}
    assert threads() == {2}


def test_what_others_set_meanwhile_stays():
    pools = loaded_pools()
    with limited:
        for pool in pools:
            pool.put(3)
    assert threads() == {3}
    for pool in pools:
        pool.put(2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_process_forked_inside_of_a_call_starts_with_what_was_before():
    with limited:
        child = os.fork()
        if not child:
            before = threads()
            with limited:
                within = threads()
            limited.__exit__()  # the end of the call that was forked
            os._exit(0 if (before, within, threads()) == ({2}, {1}, {2}) else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert threads() == {2}


class Local(threading.local):
    """A library, like MKL, that has a number of threads for every thread of Python."""

    n = 8


def test_libraries_with_a_number_for_every_thread():
    library = Local()

    def put(n):
        library.n = n

    limit = Limit([Pool(lambda: library.n, put, local=True)])
    seen = []

    def work():
        seen.append(library.n)
        with limit, limit:
            seen.append(library.n)
        seen.append(library.n)

    with limit:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert library.n == 1
    assert library.n == 8
    assert seen == [8, 1, 8]


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("levels", [1, 2])
def test_an_interrupt_where_a_function_begins_leaves_no_limit(levels, local):
    """Python looks for signals there; a tracer raises at each such place in turn."""
    library = Local()

    def put(n):
        library.n = n

    limit = Limit([Pool(lambda: library.n, put, local)])

    def call(depth):
        with limit:
            assert library.n == 1
            if depth > 1:
                call(depth - 1)

    stopped = []
    for at in range(1, 100):
        began = []

        def trace(frame, kind, _, began=began, at=at):
            if frame.f_code.co_filename == runtime.__file__ or frame.f_code is put.__code__:
                began.append(frame.f_code.co_name)
                if len(began) == at:
                    raise KeyboardInterrupt

        sys.settrace(trace)
        try:
            call(levels)
        except KeyboardInterrupt:
            stopped.append(began[-1])
        finally:
            sys.settrace(None)
        if "__exit__" not in stopped[-1:]:  # there the next call puts the number back
            assert library.n == 8 and not limit._inside
        call(levels)
        assert library.n == 8 and not limit._inside
        if len(began) < at:
            break
    assert {"__enter__", "__exit__", "_begin", "_leave", "put"} <= {*stopped}
    assert stopped.count("__exit__") == levels


def test_limits_as_a_decorator_keep_the_signature():
    assert best_in_hindsight.__name__ == "best_in_hindsight"
    assert "alpha" in inspect.signature(best_in_hindsight).parameters
