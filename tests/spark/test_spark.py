"""`pronk.spark` beside `Keyed`: restarts, a killed application, a killed worker, other partitions.

`make spark` runs these tests; without PySpark and Java they are skipped.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from urllib.parse import unquote, urlparse

import numpy as np
import pandas as pd
import pytest

import pronk

pytest.importorskip("pyspark", reason="PySpark is not installed (make spark)")
if shutil.which("java") is None:
    pytest.skip("there is no java", allow_module_level=True)

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from pronk import spark as ours

STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
KEYS, FILES, ROWS = 100, 4, 400
COLUMNS = ["x", "count", "city", "day", "open", "when"]
KINDS = ["number", "number", "category", "date", "boolean", "time"]


def session(partitions, cores):
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g", "spark.ui.enabled": False,
        "spark.sql.shuffle.partitions": partitions,
        "spark.sql.streaming.stateStore.providerClass": STORE,
        "spark.sql.session.timeZone": "Europe/Rome",
        "spark.log.level": os.environ.get("SPARK_LEVEL", "OFF"),
    }  # fmt: skip
    build = SparkSession.builder.master(f"local[{cores},4]")
    for name, value in settings.items():
        build = build.config(name, value)
    return build.getOrCreate()


def table(number):
    """Return the rows of a file: more keys with every file, gaps, the end of summer time."""
    rng = np.random.default_rng(number)
    moments = pd.Timestamp("2024-10-26", tz="UTC") + pd.to_timedelta(
        600 * (number * ROWS + np.arange(ROWS)) // 60, unit="min"
    )
    rows = pd.DataFrame(
        {
            "id": 2**60 + 2 * (number * ROWS + np.arange(ROWS)) + 1,
            "key": rng.integers(0, KEYS * (number + 1) // FILES, ROWS),
            "x": rng.uniform(-1, 1, ROWS),
            "count": pd.array(rng.integers(0, 9, ROWS), dtype="Int64"),
            "city": rng.choice(["Rome", "Oslo", "Lima"], ROWS),
            "day": moments.date,
            "open": pd.array(rng.random(ROWS) < 0.5, dtype="boolean"),
            "when": moments,
        }
    )
    rows["y"] = np.sin(3 * rows.x) + rows.key % 7 + (rows.city == "Rome")
    for place, name in enumerate(["x", "count", "city", "day", "open", "y"]):
        rows.loc[rng.random(ROWS) < 0.02 * (place + 1), name] = None
    return rows


def write(folder, number):
    rows = table(number).sample(frac=1.0, random_state=number)  # Spark sorts them by time
    path = folder / f"{number}.parquet"
    rows.to_parquet(path.with_suffix(".hidden"), coerce_timestamps="us", index=False)
    os.rename(path.with_suffix(".hidden"), path)
    os.utime(path, (1e9 + number, 1e9 + number))


def learner():
    return pronk.PKAWVRegressor(budget=16, random_state=3)


def stream(spark, folder, new, **options):
    """Learn the files that are not learned yet, each as a micro-batch; return the query."""
    schema = spark.read.parquet(str(folder / "in" / "0.parquet")).schema
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    found = ours.learn_stream(
        rows.parquet(str(folder / "in")), by="key", target="y", new=new, time="when", keep=["id"],
        **options,
    )  # fmt: skip
    out = found.writeStream.format("parquet").option("path", str(folder / "out"))
    out = out.option("checkpointLocation", str(folder / "checkpoint")).outputMode("append")
    return out.trigger(availableNow=True).start()


def committed(folder):
    """Return the rows of the files that the sink committed; Spark itself misses a log behind a
    repartitioning.
    """
    names = []
    for log in (folder / "_spark_metadata").iterdir():
        if log.name.isdigit():
            names += [json.loads(line)["path"] for line in log.read_text().splitlines()[1:]]
    return pd.concat([pd.read_parquet(unquote(urlparse(name).path)) for name in names])


class Dying(pronk.PKAWVRegressor):
    """The third new key kills its worker, once."""

    def __sklearn_clone__(self):
        self.asked = getattr(self, "asked", 0) + 1
        if self.asked == 3 and not os.path.exists(self.record):
            open(self.record, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return pronk.PKAWVRegressor(**self.get_params(deep=False))


APPLICATION = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import test_spark
spark = test_spark.session(2, 2)
test_spark.stream(spark, pathlib.Path(sys.argv[2]), test_spark.learner()).awaitTermination()
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The folder of a stream whose application was killed behind its first micro-batch."""
    folder = tmp_path_factory.mktemp("stream")
    (folder / "in").mkdir()
    for number in range(2):
        write(folder / "in", number)
    words = [sys.executable, "-c", APPLICATION, os.path.dirname(__file__), str(folder)]
    with open(folder / "log", "w") as log:
        application = subprocess.Popen(words, start_new_session=True, stdout=log, stderr=log)
        while not (folder / "checkpoint" / "commits" / "0").exists():
            assert application.poll() is None, (folder / "log").read_text()[-3000:]
            time.sleep(0.05)
        os.killpg(application.pid, signal.SIGKILL)
        application.wait()
    return folder


@pytest.fixture(scope="module")
def spark():
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    found = session(3, 2)
    yield found
    found.stop()


def test_a_stream_is_keyed_in_one_process(killed, spark):
    """Predictions and models, to the last bit."""
    write(killed / "in", 2)
    dying = Dying(budget=16, random_state=3)
    dying.record = str(killed / "record")
    stream(spark, killed, dying).awaitTermination()
    assert os.path.exists(dying.record)
    checkpoint, partitions = str(killed / "checkpoint"), 2  # those of the first session remain
    if hasattr(spark, "_streamingCheckpointManager"):  # from Spark 4.2 on
        spark._streamingCheckpointManager.repartition(checkpoint, 3)
        partitions = 3
    write(killed / "in", 3)
    stream(spark, killed, learner()).awaitTermination()

    keyed = pronk.Keyed(learner().with_columns(COLUMNS, KINDS), by="key")
    expected = []
    for number in range(FILES):
        rows = table(number)
        predictions = keyed.predict_then_learn(rows[[*COLUMNS, "key"]], rows["y"])
        expected.append(rows.assign(prediction=predictions))
    expected = pd.concat(expected, ignore_index=True)
    labels = expected.y.notna().groupby(expected.key)
    first = labels.cumsum() - expected.y.notna() == 0
    expected.loc[first, "prediction"] = np.nan
    names = ["key", "when", "id", "y", "prediction"]
    found = committed(killed / "out").sort_values("id", ignore_index=True)
    assert list(found.columns) == names
    pd.testing.assert_frame_equal(
        found[names], expected[names], check_dtype=False, check_exact=True
    )
    states = (
        spark.read.format("statestore")
        .load(checkpoint)
        .selectExpr("key.*", "value.groupState.model", "partition_id")
    )
    states = states.toPandas()
    assert len(states) == len(keyed) and states.partition_id.nunique() == partitions
    for key, model in zip(states.iloc[:, 0], states["model"], strict=True):
        assert bytes(model) == pronk.dumps(keyed[int(key)])


def test_a_frame_of_all_rows_and_scoring(spark, tmp_path):
    """Labels, intervals, and a saved model for rows in any cut."""
    rows = table(0)[["id", "key", "x", "city", "when", "y"]]
    rows["y"] = np.where(rows.y > 2, "high", "low").astype(object)
    rows.loc[::9, "y"] = None
    rows.to_parquet(tmp_path / "rows.parquet", coerce_timestamps="us", index=False)
    frame = spark.read.parquet(str(tmp_path / "rows.parquet"))
    new = pronk.FOGDClassifier(n_features=20, random_state=1)
    found = ours.learn_stream(frame, by="key", target="y", new=new, time="when", keep=["id"])
    found = found.toPandas().sort_values("id", ignore_index=True)
    columns = ["x", "city", "when"]
    keyed = pronk.Keyed(new.with_columns(columns, ["number", "category", "time"]), by="key")
    expected = keyed.predict_then_learn(rows[[*columns, "key"]], rows.y)
    known = found.prediction.notna().to_numpy()
    assert (found.prediction[known] == expected[known]).all() and known.sum() > 300

    numbers = rows[["id", "x"]].assign(y=rows.x**2)
    model = pronk.Intervals(pronk.FOGDRegressor(n_features=20, random_state=1))
    model.partial_fit(numbers[["x"]].fillna(0.0), numbers.y.fillna(0.0))
    model.save(tmp_path / "model.pronk")
    scored = ours.predict(frame.where("x is not null").select("id", "x"), tmp_path / "model.pronk",
                          interval=0.8)  # fmt: skip
    assert scored.columns == ["id", "x", "prediction", "low", "high"]
    scored = scored.toPandas()
    X = scored[["x"]].to_numpy()
    np.testing.assert_allclose(scored.prediction, model.predict(X), rtol=1e-9, atol=1e-9)
    ends = model.predict_interval(X, 0.8)
    np.testing.assert_allclose(scored[["low", "high"]], ends, rtol=1e-9, atol=1e-9)


def test_arguments_that_do_not_fit(spark):
    frame = spark.range(3).selectExpr(
        "id AS key",
        "rand(0) AS x",
        "array(1, 2) AS list",
        "'a' AS text",
        "current_date() AS pronk_y",
    )
    plain = frame.select("key", "x", "text")
    call, new = ours.learn_stream, pronk.PKAWVRegressor()
    for given, options, message in (
        (plain, {"by": "kez"}, "by: no column 'kez'; the frame has key, x, text"),
        (plain, {"by": "x", "target": "key"}, "by: 'x' is of type double"),
        (plain, {"target": "text"}, "target: 'text' is of type string"),
        (plain, {"keep": ["x"]}, "a column is named twice"),
        (plain, {"interval": 0.9}, "has no quantiles"),
        (plain, {"new": pronk.Pending(new)}, "a Pending is no learner"),
        (plain.drop("text"), {}, "no columns beside"),
        (frame.drop("pronk_y"), {}, "'list' is of type array"),
        (frame, {}, "rename the column 'pronk_y'"),
        (plain.withColumnRenamed("key", "prediction"), {"by": "prediction"}, "rename the column"),
    ):
        with pytest.raises(ValueError, match=message):
            call(given, **{"by": "key", "target": "x", "new": new, **options})
    missing = plain.selectExpr("if(key = 1, null, key) AS key", "x", "text")
    with pytest.raises(Exception, match="by: 1 rows have no key"):
        call(missing, by="key", target="x", new=new).collect()
    fitted = pronk.FOGDRegressor().partial_fit(pd.DataFrame({"b": [1.0, 2.0]}), [1.0, 2.0])
    with pytest.raises(ValueError, match="frame: no column 'b'"):
        ours.predict(plain, fitted)
