"""Files by URL: the same rows as by path, also in another process, and snapshots."""

import gzip
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest

from helpers import pronk_run
from pronk.data import FileStream, StreamError
from pronk.data.errors import without_secret
from pronk.data.opening import Origins
from pronk.data.source import Remote, has_pattern

X = np.random.default_rng(0).normal(size=(900, 2))
TABLE = pa.table({"a": X[:, 0], "b": X[:, 1], "y": X[:, 0] * X[:, 1]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("remote")
    (folder / "parts").mkdir()
    for i in range(3):
        parquet.write_table(TABLE.slice(300 * i, 300), folder / "parts" / f"part-{9 + i}.parquet")
    csv.write_csv(TABLE, folder / "t.csv")
    (folder / "t.csv.gz").write_bytes(gzip.compress((folder / "t.csv").read_bytes()))
    feather.write_feather(TABLE, folder / "t.arrow", compression="uncompressed")
    return folder


@pytest.mark.parametrize(
    "name",
    ["parts", "parts/part-*.parquet", "parts/part-10.parquet", "t.csv", "t.csv.gz", "t.arrow"],
)
def test_the_rows_of_a_url_are_those_of_the_path(folder, name):
    stream = pickle.loads(pickle.dumps(FileStream(f"file://{folder}/{name}", "y")))
    for skip in (0, 250):
        found = np.concatenate([X for X, *_ in stream.blocks(skip)])
        expected = np.concatenate([X for X, *_ in FileStream(folder / name, "y").blocks(skip)])
        assert (found == expected).all()


@pytest.mark.parametrize(
    "url, message",
    [
        ("file:///nowhere/t.csv", "does not exist"),
        ("file:///nowhere/*.csv", "has no file"),
        ("nothing://t.csv", "cannot be opened"),
    ],
)
def test_a_place_that_is_not_there_is_named(url, message):
    with pytest.raises(StreamError, match=message) as caught:
        FileStream(url, "y")
    assert url in str(caught.value)


def test_a_part_that_cannot_be_read_is_named(folder, tmp_path):
    (tmp_path / "part-1.parquet").write_bytes((folder / "parts/part-9.parquet").read_bytes())
    (tmp_path / "part-2.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(StreamError, match="cannot be read"):
        list(FileStream(f"file://{tmp_path}", "y").blocks(0))


def test_no_output_overwrites_an_input(folder):
    read = Origins(f"file://{folder}/t.csv")
    assert read.holds(folder / "t.csv") and not read.holds(folder / "t.arrow")


def test_a_run_with_snapshots(capsys, folder, tmp_path):
    words = [
        "run",
        f"file://{folder}/parts",
        "-t",
        "y",
        "-a",
        "fogd",
        "--checkpoint",
        tmp_path / "c",
    ]
    for _ in range(2):
        code, _, messages = pronk_run(capsys, *words)
        assert code in (0, None), messages
    assert "finished after 900" in messages.replace("was finished", "finished")


def test_a_url_is_shown_without_its_secret():
    with pytest.raises(StreamError, match=r"s3tore://bucket/t\.csv") as caught:
        FileStream("s3tore://key:secret@bucket/t.csv", "y")
    assert "secret" not in str(caught.value).partition("cannot be opened")[0]
    words = "run s3://key:secret@bucket/a@b.csv?x=1 -t y"
    assert without_secret(words) == "run s3://bucket/a@b.csv?x=1 -t y"
    for text, told in {
        "file:///a/b@c.csv": "file:///a/b@c.csv",
        "http://[::1]:90/a@b.csv": "http://[::1]:90/a@b.csv",
        "http://host:9000/a@b.csv": "http://host:9000/a@b.csv",
        "s3://key:p@ss@bucket/t.csv": "s3://bucket/t.csv",
        "s3://key:pa/ss@bucket/t.csv": "s3://bucket/t.csv",
        "s3://key:pa?ss@bucket/t.csv": "s3://bucket/t.csv",
        "s3://b/t.csv?access_key=pass&secret_key=pass&region=x":
            "s3://b/t.csv?access_key=***&secret_key=***&region=x",
        "https://h/t.csv?sv=1&sig=pass": "https://h/t.csv?sv=1&sig=***",
        "https://h/t.csv?X-Amz-Credential=pass&X-Amz-Signature=pass":
            "https://h/t.csv?X-Amz-Credential=***&X-Amz-Signature=***",
        "adbc:postgresql:postgresql://me:pass@h/db?password=pass":
            "adbc:postgresql:postgresql://h/db?password=***",
        "adbc:postgresql:host=h password=pass user=me":
            "adbc:postgresql:host=h password=*** user=me",
        "adbc:adbc_driver_snowflake:me:pa/s@s@account/db?role=x -t y":
            "adbc:adbc_driver_snowflake:account/db?role=x -t y",
        "adbc:adbc_driver_sqlite:file:a@b.db": "adbc:adbc_driver_sqlite:file:a@b.db",
        "CREATE SECRET (TYPE s3, KEY_ID 'pass', SECRET 'pass')":
            "CREATE SECRET (TYPE s3, KEY_ID '***', SECRET '***')",
        "monkey=1 keys=2 'a secret of nature'": "monkey=1 keys=2 'a secret of nature'",
    }.items():  # fmt: skip
        assert without_secret(text) == told


def test_no_password_reaches_a_file_or_a_screen(capsys, tmp_path, monkeypatch):
    """A file:// URL may have a password, which nobody asks for."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    np.savetxt("t.csv", np.column_stack((X, X[:, 0])), delimiter=",", header="a,b,y", comments="")
    real = Remote.of
    place = (tmp_path / "t.csv").as_uri()

    def without_login(url):
        found = real(place)
        return Remote(url, found.system, found.place)

    monkeypatch.setattr(Remote, "of", staticmethod(without_login))
    url = "s3://me:hush@bucket/t.csv?secret_key=hush"
    fast = ["-t", "y", "-a", "fogd"]
    outputs = ["--save", "m.pronk", "--checkpoint", "c", "--report", "p.html", "--json"]
    for code, words in (
        (0, ["run", url, *fast, *outputs]),
        (0, ["run", url, *fast]),
        (0, ["inspect", "c", "--json"]),
        (0, ["inspect", "m.pronk"]),
        (2, ["run", url, "--model", "m.pronk"]),  # learned already
        (2, ["run", url, "-t", "nosuch"]),
        (0, ["predict", "m.pronk", url, "-o", "o.csv", "--json"]),
        (0, ["compare", url, *fast, "--runs", 1, "--workers", 1, "--report", "q.html", "--json"]),
        (0, ["compare", url, *fast, "--runs", 1, "--workers", 1]),
    ):
        found, out, err = pronk_run(capsys, *words)
        assert found == code, (words, err)
        assert "hush" not in out + err, words
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {"c", "m.pronk", "p.html", "q.html", "records.jsonl"} <= {file.name for file in files}
    assert not [file for file in files if b"hush" in file.read_bytes() or "hush" in str(file)]


def test_what_follows_a_url_is_no_pattern(folder):
    place = Remote.of(f"file://{folder}/none.csv")
    place.url += "?scheme=http"
    assert not has_pattern(place) and has_pattern(Remote.of(f"file://{folder}/*.csv"))


def test_a_bucket():
    """Where moto is installed: a store that speaks S3, on this machine."""
    moto = pytest.importorskip("moto.server")
    fs = pytest.importorskip("pyarrow.fs")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        query = f"endpoint_override={host}:{port}&scheme=http&region=us-east-1"
        system, _ = fs.FileSystem.from_uri(
            f"s3://key:secret@bucket?{query}&allow_bucket_creation=true"
        )
        system.create_dir("bucket")
        with system.open_output_stream("bucket/t.csv") as file:
            csv.write_csv(TABLE, file)
        for i in range(3):
            with system.open_output_stream(f"bucket/parts/part-{9 + i}.parquet") as file:
                parquet.write_table(TABLE.slice(300 * i, 300), file)
        for name in ("t.csv", "parts", "parts/part-*.parquet"):
            stream = FileStream(f"s3://key:secret@bucket/{name}?{query}", "y", rows=100)
            found = np.concatenate([rows for rows, *_ in stream.blocks(250)])
            np.testing.assert_allclose(found, X[250:], rtol=1e-12, atol=0.0)
        with pytest.raises(StreamError, match="does not exist") as caught:
            FileStream(f"s3://key:secret@bucket/none.csv?{query}", "y")
        assert "secret" not in str(caught.value)
    finally:
        server.stop()
