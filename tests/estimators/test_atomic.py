"""Files written atomically: leftovers of killed writers, links, permissions, full disks."""

import fcntl
import os

import pytest

from pronk.estimators.atomic import remove_leftovers, write_atomically


def test_leftovers_of_a_killed_writer_are_removed_and_those_of_a_live_one_stay(tmp_path):
    place = tmp_path / "model.pronk"
    (tmp_path / ".model.pronk.aaaaaaaa").write_bytes(b"left")
    (tmp_path / ".other.pronk.aaaaaaaa").write_bytes(b"another file's")
    live = tmp_path / ".model.pronk.bbbbbbbb"
    with live.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        write_atomically(place, b"new")
        assert sorted(os.listdir(tmp_path)) == [
            ".model.pronk.bbbbbbbb", ".other.pronk.aaaaaaaa", "model.pronk",
        ]  # fmt: skip
    remove_leftovers(place)
    assert not live.exists()
    assert place.read_bytes() == b"new"


def test_links_and_permissions_are_preserved(tmp_path):
    place, link = tmp_path / "real", tmp_path / "link"
    place.write_bytes(b"old")
    place.chmod(0o640)
    link.symlink_to(place)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert place.read_bytes() == b"new"
    assert place.stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_permissions_of_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "secret", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    place = tmp_path / "model"
    place.write_bytes(b"old")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(place, b"new")
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["model"]
    assert place.read_bytes() == b"old"


def test_a_folder_that_does_not_exist_is_an_error_that_names_it(tmp_path):
    """A mistyped folder must not be created."""
    with pytest.raises(FileNotFoundError, match=r"there is no folder '.*reslts'; make it first"):
        write_atomically(tmp_path / "reslts" / "page.html", b"new")
    assert os.listdir(tmp_path) == []
