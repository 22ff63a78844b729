"""Standard input that is written row by row: predictions are printed before it ends."""

import json
import subprocess
import sys
import threading

import numpy as np
import pytest

from helpers import pronk_run

#: Far more than a machine under load needs to start and to compile.
PATIENCE = 300


class Talk:
    """A command whose input is written and whose answers are read line by line."""

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "pronk", *map(str, arguments)]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen(command, text=True, **pipes)
        self._timer = threading.Timer(PATIENCE, self.process.kill)
        self._timer.start()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._timer.cancel()
        self.process.kill()
        self.process.communicate()

    def say(self, *lines):
        self.process.stdin.write("".join(f"{line}\n" for line in lines))
        self.process.stdin.flush()

    def hear(self):
        return self.process.stdout.readline().rstrip("\n")

    def end(self):
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    return [f"{x:.6f},{y:.6f}" for x, y in zip(a, np.sin(a), strict=True)]


@pytest.mark.parametrize("learner", [pytest.param("fogd", marks=pytest.mark.matrix), None])
def test_every_row_is_answered_before_the_next_is_written(learner):
    chosen = ["-a", learner, "-p", "bandwidth=1"] if learner else []
    with Talk("run", "-", "-t", "y", "--predictions", "-", *chosen) as talk:
        talk.say("a,y")
        for i, row in enumerate(rows(5)):
            talk.say(row)
            if not i:
                assert talk.hear() == '"row","y","prediction"'
            number, y, prediction = talk.hear().split(",")
            assert int(number) == i and float(y) == float(row.split(",")[1])
            assert np.isfinite(float(prediction)) if i else prediction == ""
        talk.process.stdin.write("0.5,")  # half a row is none yet
        talk.process.stdin.flush()
        talk.say("0.25")
        assert talk.hear().startswith("5,0.25,")
        code, _, err = talk.end()
        assert code == 0, err


@pytest.mark.slow
def test_rows_written_in_any_cut_are_predicted_alike(tmp_path, capsys):
    lines = rows(700)
    file = tmp_path / "d.csv"
    file.write_text("\n".join(["a,y", *lines]) + "\n")
    call = ["-t", "y", "-a", "fogd", "-p", "bandwidth=1", "--predictions", "-"]
    _, expected, _ = pronk_run(capsys, "run", file, *call)
    with Talk("run", "-", *call) as talk:
        talk.say("a,y", *lines[:300])
        heard = [talk.hear() for _ in range(301)]
        talk.say(*lines[300:301])
        heard.append(talk.hear())
        talk.say(*lines[301:])
        code, out, err = talk.end()
    assert code == 0, err
    heard += out.splitlines()
    assert heard[0] == expected.splitlines()[0]
    given, wanted = (
        np.array([[float(word or "nan") for word in line.split(",")] for line in text[1:]])
        for text in (heard, expected.splitlines())
    )
    np.testing.assert_allclose(given, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_predict_answers_as_rows_come(tmp_path, capsys):
    file, model = tmp_path / "d.csv", tmp_path / "m.pronk"
    file.write_text("\n".join(["a,y", *rows(200)]) + "\n")
    pronk_run(capsys, "run", file, "-t", "y", "-a", "fogd", "--save", model)
    with Talk("predict", model, "-", "--json") as talk:
        for i, row in enumerate(rows(4, seed=2)):
            talk.say(json.dumps({"a": float(row.split(",")[0])}))
            answer = json.loads(talk.hear())
            assert answer["row"] == i and np.isfinite(answer["prediction"])
        assert talk.end()[0] == 0


@pytest.mark.slow
def test_labels_that_come_late_have_probabilities_in_json():
    with Talk("run", "-", "-t", "y", "--task", "classification", "--predictions", "-",
              "--json") as talk:  # fmt: skip
        talk.say("a,y", "1,no")
        assert json.loads(talk.hear())["prediction"] is None
        talk.say("2,yes")
        talk.hear()
        talk.say("3,no")
        assert {"p_no", "p_yes"} <= set(json.loads(talk.hear()))
        assert talk.end()[0] == 0
