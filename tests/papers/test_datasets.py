"""Data sets: places, checksums, views, scaling."""

import dataclasses
import hashlib
import os
import sys

import numpy as np
import pytest

from papers import datasets
from papers.datasets import DataError, DataView, find, load, read, to_range


def test_every_set_is_described_completely():
    for name, dataset in datasets.DATASETS.items():
        assert name == dataset.name and dataset.task in ("regression", "classification")
        assert len(dataset.array) == 64 and all(len(sha) == 64 for sha in dataset.files.values())
        assert dataset.rows > 0 and dataset.columns > 0 and dataset.file.endswith(".parquet")
        if dataset.source is None:
            assert dataset.note or name == "powerplant"


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(DataError, match="did you mean 'casp'"):
        find("capsp")
    assert find("codrna") is find("cod-rna") and find("parkinsons") is find("parkinson")


def test_a_set_is_read_back_as_it_was_stored(sets):
    X, y = read(find("casp"))
    assert X.dtype == y.dtype == np.float32 and X.shape == (400, 4)


def test_a_changed_file_is_refused(sets):
    dataset = find("casp")
    other = dataclasses.replace(dataset, array="0" * 64)
    with pytest.raises(DataError, match="checksum differs"):
        read(other)
    # A file whose own checksum is known needs no second look.
    sha = hashlib.sha256((sets / dataset.file).read_bytes()).hexdigest()
    read(dataclasses.replace(other, files={dataset.file: sha}))
    (sets / dataset.file).write_bytes(b"not parquet")
    with pytest.raises(DataError, match="cannot be read"):
        read(dataset)


def test_a_missing_set_names_the_folder_for_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PRONK_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(DataError, match="python -m papers data fetch casp") as error:
        read(find("casp"))
    assert str(tmp_path / "nowhere" / "casp.parquet") in str(error.value)
    assert "\n" not in str(error.value)
    with pytest.raises(DataError) as error:
        datasets.need(["susy_30k"])
    assert "fetch" not in str(error.value)


def test_the_cache_is_read_after_the_chosen_directory(sets, monkeypatch, tmp_path):
    monkeypatch.delenv("PRONK_DATA")
    assert datasets.directories() == [tmp_path / "cache" / "pronk" / "data"]
    assert datasets.locate(find("casp")) is None
    datasets.cache_directory().mkdir(parents=True)
    os.link(sets / "casp.parquet", datasets.cache_directory() / "casp.parquet")
    read(find("casp"))
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    if sys.platform == "linux":
        assert datasets.cache_directory() == tmp_path / ".cache" / "pronk" / "data"


def test_scaling():
    values = np.array([[0.0, 7.0], [5.0, 7.0], [10.0, 7.0]])
    np.testing.assert_allclose(
        to_range(values, 0, 1), [[0, 0], [0.5, 0], [1, 0]], rtol=1e-7, atol=0
    )
    np.testing.assert_allclose(to_range(values, -1, 1)[:, 0], [-1, 0, 1], rtol=1e-7, atol=0)


def test_views(sets):
    X, y = load(DataView("casp"))
    assert X.min() == y.min() == 0.0 and X.max() == y.max() == 1.0 and not X.flags.writeable
    X, y = load(DataView("casp", x=(-1.0, 1.0), y=(-1.0, 1.0)))
    assert X.min() == y.min() == -1.0 and X.max() == y.max() == 1.0
    X, y = load(DataView("cod-rna", part="test"))
    assert len(X) == 150 and set(np.unique(y)) == {-1.0, 1.0}
    _, y = load(DataView("covtype", positive=2.0))
    raw = read(find("covtype"))[1]
    np.testing.assert_array_equal(y, np.where(raw == 2, 1.0, -1.0))
    view = DataView("flights2001_3m", above=15.0)
    assert view.task == "classification" and DataView("flights2001_3m").task == "regression"
    assert set(np.unique(load(view)[1])) == {-1.0, 1.0}
    assert load(DataView("w8a", x=None))[0].max() > 1.0
    with pytest.raises(DataError, match="two parts"):
        load(DataView("casp", part="test"))


@pytest.mark.data
@pytest.mark.skipif("PRONK_DATA" not in os.environ, reason="PRONK_DATA is not set")
@pytest.mark.parametrize("name", ["parkinson", "cpusmall", "cadata", "casp", "cod-rna", "ijcnn1"])
def test_the_real_files_are_what_they_should_be(name):
    dataset = find(name)
    if datasets.locate(dataset) is None:
        pytest.skip("not here")
    X, y = read(dataset)
    assert X.shape == (dataset.rows, dataset.columns)
    assert datasets.array_checksum(X, y) == dataset.array
