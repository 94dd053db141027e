"""Files written whole or not at all."""

import os
import threading

import pytest

from certeq.report import write_text


def test_writes_and_refuses(tmp_path):
    path = tmp_path / "a.txt"
    assert write_text(path, "größer\r\n") == path
    assert path.read_bytes() == "größer\r\n".encode()
    with pytest.raises(FileExistsError, match="pass force=True"):
        write_text(path, "x")
    write_text(path, "new", force=True)
    assert path.read_text() == "new"
    with pytest.raises(IsADirectoryError):
        write_text(tmp_path, "x", force=True)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        write_text(tmp_path / "no" / "a.txt", "x")
    assert os.listdir(tmp_path) == ["a.txt"]


def test_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        path = write_text(tmp_path / "a.txt", "x")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_full_disk_leaves_the_old_file(tmp_path):
    resource = pytest.importorskip("resource", reason="files of a limited size are POSIX's")
    path = tmp_path / "a.txt"
    path.write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_text(path, "new" * 1000, force=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_of_many_writers_one_wins_without_force(tmp_path):
    path, won = tmp_path / "a.txt", []

    def attempt(number):
        try:
            write_text(path, str(number) * 1000)
            won.append(number)
        except FileExistsError:
            pass

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert path.read_text() == str(won[0]) * 1000
    assert os.listdir(tmp_path) == ["a.txt"]
