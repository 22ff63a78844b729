"""Download data sets in several forms from a local server, verify and store them."""

import bz2
import dataclasses
import gzip
import io
import json
import lzma
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from papers import datasets
from papers.__main__ import main
from papers.datasets import DataError, DataSet, Original, parse_csv, parse_libsvm
from papers.fetch import fetch

X = np.array([[1.5, 0, 0.1], [0, 0, 0], [2, -1e-3, 1e6]], dtype=np.float32)
Y = np.array([1, -1, 1], dtype=np.float32)
LIBSVM = b"+1 1:1.5 3:0.1\n-1\n1 1:2 2:-1e-3 3:1e6\n"
CSV = b"id,class,a,b,c\n7,M,1.5,0,0.1\n8,F,0,0,0\n\n9,M,2,-1e-3,1e6\n"
CODES = {"skip": 1, "target": 1, "drop": (0,), "codes": {"M": 1.0, "F": -1.0}}


@pytest.fixture
def server():
    files, asked = {}, []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.headers)
            body = files.get(self.path)
            if body is None:
                self.send_error(404)
                return
            self.send_response(200)
            claimed = files.get(self.path + "?length", len(body))
            if claimed is not None:
                self.send_header("Content-Length", str(claimed))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    httpd.files, httpd.asked = files, asked
    httpd.url = f"http://127.0.0.1:{httpd.server_port}"
    yield httpd
    httpd.shutdown()
    thread.join()
    httpd.server_close()


@pytest.fixture
def place(monkeypatch, tmp_path):
    monkeypatch.setenv("PRONK_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "data"


def made_up(urls, form="libsvm", options=None, rows=3):
    copies = rows // 3
    array = datasets.array_checksum(np.tile(X, (copies, 1)), np.tile(Y, copies))
    source = Original(tuple(urls), form, options or {})
    return DataSet("toy", "toy.parquet", rows, 3, "classification", array, {}, source)


def zipped(name, body):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("readme.txt", "no")
        archive.writestr(name, body)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "name, body, form, options",
    [
        ("toy", LIBSVM, "libsvm", {}),
        ("toy.gz", gzip.compress(LIBSVM), "libsvm", {}),
        ("toy.bz2", bz2.compress(LIBSVM), "libsvm", {}),
        ("toy.xz", lzma.compress(LIBSVM), "libsvm", {}),
        ("toy.csv", CSV, "csv", CODES),
        ("toy.zip", zipped("toy.csv", CSV), "csv", {**CODES, "member": "toy.csv"}),
    ],
    ids=["plain", "gz", "bz2", "xz", "csv", "zip"],  # archives hold the time they were made
)
def test_forms(server, place, name, body, form, options):
    server.files[f"/{name}"] = body
    seen = []
    dataset = made_up([f"{server.url}/{name}"], form, options)
    path = fetch(dataset, lambda *said: seen.append(said))
    assert path == place / "toy.parquet" and [*place.iterdir()] == [path]
    got, labels = datasets.read(dataset)
    np.testing.assert_array_equal(got, X)
    np.testing.assert_array_equal(labels, Y)
    assert seen[-1] == (name, len(body), len(body))


def test_two_files_and_a_mirror(server, place):
    server.files["/sub/a"] = server.files["/sub/b"] = LIBSVM
    dataset = made_up(["http://nowhere.invalid/x/a", "http://nowhere.invalid/x/b"], rows=6)
    fetch(dataset, mirror=f"{server.url}/sub/")
    assert datasets.read(dataset)[0].shape == (6, 3)


def test_an_unknown_length(server, place):
    server.files.update({"/toy": LIBSVM, "/toy?length": None})
    seen = []
    fetch(made_up([f"{server.url}/toy"]), lambda *said: seen.append(said))
    assert seen[-1] == ("toy", len(LIBSVM), None)


@pytest.mark.parametrize(
    "body, message",
    [
        (LIBSVM.replace(b"0.1", b"0.2"), "nothing was stored"),
        (LIBSVM * 2, "nothing was stored"),
        (b"<html>moved</html>", "is not the data set toy"),
    ],
)
def test_other_content_is_refused(server, place, body, message):
    server.files["/toy"] = body
    with pytest.raises(DataError, match=message):
        fetch(made_up([f"{server.url}/toy"]))
    assert not place.exists()


def test_a_cut_download_is_refused(server, place):
    server.files.update({"/toy": LIBSVM, "/toy?length": len(LIBSVM) + 5})
    with pytest.raises(DataError, match="cannot be downloaded"):
        fetch(made_up([f"{server.url}/toy"]))
    assert not place.exists()


def test_a_server_that_sends_on_and_on_is_left(server, place, monkeypatch):
    monkeypatch.setattr("papers.fetch.MOST_BYTES", 100_000)
    server.files.update({"/toy": b"1" * 1_000_000, "/toy?length": None})
    seen = []
    with pytest.raises(DataError, match="more than 100,000 bytes"):
        fetch(made_up([f"{server.url}/toy"]), lambda *said: seen.append(said))
    assert seen[-1][1] <= 100_000 and not place.exists()


def test_a_packed_file_is_requested_as_it_is(server, place):
    server.files["/toy.gz"] = gzip.compress(LIBSVM)
    fetch(made_up([f"{server.url}/toy.gz"]))
    assert [asked["Accept-Encoding"] for asked in server.asked] == ["identity"]
    assert [asked["User-Agent"] for asked in server.asked] == ["pronk"]


def test_without_network_the_error_names_the_folder_for_the_file(server, place):
    dead = "http://127.0.0.1:9/x/toy"
    for url in (dead, f"{server.url}/toy"):  # nobody answers; not found
        with pytest.raises(DataError, match="cannot be downloaded") as error:
            fetch(made_up([url]))
        assert str(place / "toy") in str(error.value) and "\n" not in str(error.value)
    place.mkdir()
    (place / "toy").write_bytes(LIBSVM)
    fetch(made_up([dead]))
    assert datasets.locate(made_up([dead])) == [place / "toy.parquet"]


def test_a_set_without_a_source(place):
    with pytest.raises(DataError, match="by hand"):
        fetch(dataclasses.replace(made_up([]), source=None, note="a sample"))


def test_the_commands(server, place, monkeypatch, capsys):
    pytest.importorskip("pooch")
    server.files["/toy"] = LIBSVM
    monkeypatch.setattr(datasets, "DATASETS", {"toy": made_up([f"{server.url}/toy"])})

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["data", *arguments])
        return end.value.code, capsys.readouterr()

    assert run("check", "toy")[0] == 1
    code, said = run("fetch", "toy")
    assert code == 0 and "verified and stored" in said.out
    assert run("fetch", "toy")[1].out == "toy is here already\n"
    code, said = run("check")
    assert code == 0 and said.out == "toy: 3 rows of 3 columns, verified\n"
    assert "toy" in run("list")[1].out
    for command in (["list"], ["check"], ["fetch", "toy"]):
        code, said = run(*command, "--json")
        assert code == 0 and [*json.loads(said.out)] == ["toy"]
    code, said = run("fetch", "tay")
    assert code == 2 and said.err.count("\n") == 1 and "did you mean 'toy'" in said.err
    (place / "toy.parquet").unlink()
    server.files.clear()
    code, said = run("fetch", "toy")
    assert code == 2 and said.err.count("\n") == 1 and str(place / "toy") in said.err
    assert "fetch" in run()[1].out


def test_parsers_round_once():
    line = b"0.1,16777217,3\n"
    got, target = parse_csv(io.BytesIO(line), target=2)
    np.testing.assert_array_equal(got, np.array([[0.1, 16777217]]).astype(np.float32))
    assert target == [3]
    got, _ = parse_libsvm(io.BytesIO(b"1 2:0.1\n"), 4)
    np.testing.assert_array_equal(got, np.array([[0, 0.1, 0, 0]]).astype(np.float32))
    with pytest.raises(ValueError, match="fewer than 3 columns"):
        parse_csv(io.BytesIO(b"1,2,3\n1,2\n"), target=0)
