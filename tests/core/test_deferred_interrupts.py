"""Ctrl-C that waits for the end of a block, and for imports."""

import signal
import subprocess
import sys
import threading

import pytest

import pronk
from pronk._interrupts import deferred_interrupts


def press(times, reached, **options):
    with deferred_interrupts(**options):
        for i in range(times):
            signal.raise_signal(signal.SIGINT)
            reached.append(i)


def usual_handler_is_back():
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(("patient", "presses", "steps"), [(0, 1, 1), (0, 2, 1), (1, 3, 3)])
def test_an_interruption_waits_and_a_second_one_only_in_a_patient_block(patient, presses, steps):
    reached = []
    with pytest.raises(KeyboardInterrupt):
        press(presses, reached, patient=bool(patient))
    assert len(reached) == steps and usual_handler_is_back()


def test_blocks_may_be_nested():
    """The inner block hands its interrupts to the outer one, where the second does not wait."""
    reached = []

    def nested():
        with deferred_interrupts():
            press(1, reached, patient=True)
            reached.append("first")
            press(1, reached, patient=True)
            reached.append("second")

    with pytest.raises(KeyboardInterrupt):
        nested()
    assert reached == [0, "first", 0] and usual_handler_is_back()


def test_an_error_does_not_swallow_an_interruption():
    def fail():
        with deferred_interrupts():
            signal.raise_signal(signal.SIGINT)
            raise ValueError

    with pytest.raises(KeyboardInterrupt) as raised:
        fail()
    assert isinstance(raised.value.__context__, ValueError) and usual_handler_is_back()


def test_other_handlers_are_called_at_the_end():
    reached = []

    def noted(number, frame):
        reached.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, noted)
    try:
        press(1, reached)
        assert reached == [0, signal.SIGINT] and usual_handler_is_back()
        signal.signal(signal.SIGINT, noted)
        press(2, reached)  # the second is handled at once, and what its handler sets stays
        assert reached[2:] == [0, signal.SIGINT, 1, signal.SIGINT] and usual_handler_is_back()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        press(2, reached)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_gets_no_signals():
    reached = []

    def run():
        with deferred_interrupts():
            reached.append(usual_handler_is_back())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert reached == [True]


def test_an_import_by_name_is_completed(monkeypatch):
    usual = pronk._import_module

    def pressed(name):
        signal.raise_signal(signal.SIGINT)
        return usual(name)

    monkeypatch.delitem(vars(pronk), "Laplacian", raising=False)
    monkeypatch.setattr(pronk, "_import_module", pressed)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            _ = pronk.Laplacian
    monkeypatch.undo()
    assert pronk.Laplacian(1.0).bandwidth == 1.0


def test_pronk_itself_imports_nothing_slow():
    code = "import pronk, sys; print({'numpy', 'numba', 'scipy', 'sklearn'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stderr
