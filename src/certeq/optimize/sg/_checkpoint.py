"""Checkpoints that are whole or not there, and are not believed before they have been looked at.

The format is .npz, uncompressed, with a JSON header and arrays of float64; nothing in it is pickled, so that reading
one cannot run code, and nothing in it can be larger than the file. A file that is not a checkpoint, is damaged, or
holds what no run can have written is refused by a ValueError that names it.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TypeGuard

import numpy as np
from numpy.typing import NDArray

from certeq._files import check_folder, write_npz
from certeq.optimize.losses._base import Floats

VERSION = 5
HEADER = "header"
ANSWERS = "answers"
_LONGEST_HEADER = 1 << 24  # bytes
_PREFIX = 1 << 14  # bytes that may precede the numbers of an array
Shape = tuple[int | None, ...]
Shapes = Mapping[str, Shape]
STATUSES = ("iteration limit", "time limit", "converged", "stopped by callback")


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run: plain values and arrays, and the problem it belongs to: texts shown and compared."""

    problem: dict[str, tuple[str, str]]
    values: dict[str, Any]
    arrays: dict[str, NDArray[np.float64]] = field(default_factory=dict)


Accept = Callable[[Checkpoint], Shapes]


def resolve(path: str | os.PathLike[str]) -> str:
    """Return where the file is or will be: a symbolic link is followed, so that it stays and its target is replaced."""
    if isinstance(path, bytes) or not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"checkpoint must be a path; found {path!r}.")
    return os.path.realpath(os.fspath(path))


def exists(path: str) -> bool:
    """Say whether there is a file to read; what is there and is no file (a folder, a pipe, a device) is refused."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(mode):
        raise _refused(path, "is not a file")
    return True


def check_writable(path: str) -> None:
    """Raise, before any work is done, the OSError that `save` would."""
    exists(path)
    check_folder(path)


class Refused(ValueError):
    """A checkpoint that is damaged or belongs to another problem."""


class Damaged(Exception):
    """Why a file is not one that a run has written; `naming` says which file."""


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Turn what was found damaged into the refusal that names the file."""
    try:
        yield
    except Damaged as error:
        raise _refused(path, f"is not a whole checkpoint file: {error}") from error.__cause__


def _refused(path: str, why: str) -> Refused:
    return Refused(f"checkpoint {path!r} {why}. Delete it, use another file, or pass resume=False to start over.")


def save(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a checkpoint so that no moment of a crash can leave half of one."""
    arrays = {name: _plain(name, array) for name, array in checkpoint.arrays.items()}
    header = {
        "version": VERSION,
        "problem": checkpoint.problem,
        "values": checkpoint.values,
        "arrays": {name: _hash(array) for name, array in arrays.items()},
    }
    content: dict[str, NDArray[Any]] = {HEADER: np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays}
    write_npz(path, content)


def load(path: str | os.PathLike[str], accept: Accept | None = None) -> Checkpoint:
    """Read a checkpoint; a file that is not one is refused.

    ``accept`` is shown problem, values and answers, and raises `Refused` or returns the shapes of the other arrays
    (None stands for any length): one of another name or shape is refused before it is read.
    """
    name = os.fspath(path)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # a pipe must not be waited for
    handle = os.open(name, flags)
    with os.fdopen(handle, "rb") as file, naming(name):
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise _refused(name, "is not a file")
        try:
            return _read(file, accept)
        except (Refused, Damaged):
            raise
        except _OtherFormat as error:
            raise _refused(name, str(error)) from None
        except OSError as error:
            if error.errno != errno.EINVAL:  # a position before the beginning, in a damaged directory
                raise OSError(error.errno, error.strerror, name) from error
            raise Damaged(str(error)) from error
        except Exception as error:  # whatever the parsers make of damaged bytes
            raise Damaged(str(error) or type(error).__name__) from error


class _OtherFormat(Exception):
    """A checkpoint of another version of certeq."""


def is_count(found: Any) -> TypeGuard[int]:
    """Say whether something read is a whole number of at least 1 that a float can hold."""
    return isinstance(found, int) and not isinstance(found, bool) and 1 <= found <= 1 << 53


def _read(file: BinaryIO, accept: Accept | None) -> Checkpoint:
    size = os.fstat(file.fileno()).st_size
    with zipfile.ZipFile(file) as archive:
        members = {}
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if member.filename == name or name in members:
                raise Damaged(f"{member.filename!r} does not belong in it")
            if member.compress_type != zipfile.ZIP_STORED or member.file_size > size:
                # What is not compressed cannot grow: a small file cannot fill the memory.
                raise Damaged(f"{name!r} is compressed, which no checkpoint is")
            members[name] = member
        if HEADER not in members:
            raise Damaged("it has no header")
        header = _header(_array(archive, members.pop(HEADER), HEADER, "|u1", (None,), _LONGEST_HEADER))
        problem, values, hashes = header["problem"], header["values"], header["arrays"]
        if set(members) != set(hashes):
            raise Damaged("arrays are missing, or are not of this file")
        head = Checkpoint({name: (shown, key) for name, (shown, key) in problem.items()}, values)
        if ANSWERS in members:
            head.arrays[ANSWERS] = _array(archive, members[ANSWERS], ANSWERS, "<f8", (None,), _LONGEST_HEADER)
        shapes = None if accept is None else accept(head)
        for name, member in members.items():
            if shapes is not None and name not in shapes:
                raise Damaged(f"array {name!r} does not belong in it")
            shape = None if shapes is None else shapes[name]
            head.arrays[name] = _array(archive, member, name, "<f8", shape, size)
            if _hash(head.arrays[name]) != hashes[name]:
                raise Damaged(f"array {name!r} is of another file")
    return head


def _header(array: NDArray[Any]) -> dict[str, Any]:
    read = json.loads(array.tobytes().decode())
    header: dict[str, Any] = read if isinstance(read, dict) else {}
    found = header.get("version")
    if found != VERSION:
        raise _OtherFormat(f"has format {found!r:.40}; this version of certeq reads format {VERSION}")
    for part, kind in (("problem", list), ("values", object), ("arrays", str)):
        inside = header.get(part)
        if not isinstance(inside, dict) or not all(isinstance(item, kind) for item in inside.values()):
            raise Damaged(f"its header has no {part}")
    if not all(len(pair) == 2 and all(isinstance(one, str) for one in pair) for pair in header["problem"].values()):
        raise Damaged("its header has no problem")
    return header


def _array(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, kind: str, shape: Shape | None, most: int
) -> NDArray[Any]:
    """Read one array, after a look at how large it says it is."""
    if shape is not None and None not in shape:
        most = 8 * math.prod(shape)  # type: ignore[arg-type]
    if member.file_size > most + _PREFIX:
        raise Damaged(f"{name!r} is too large, {member.file_size} bytes")
    content = io.BytesIO(archive.read(member))
    if np.lib.format.read_magic(content) != (1, 0):
        raise Damaged(f"{name!r} is no array of format 1.0")
    found, by_columns, dtype = np.lib.format.read_array_header_1_0(content)
    if dtype != np.dtype(kind) or by_columns:
        raise Damaged(f"{name!r} holds {dtype}, not {np.dtype(kind)}")
    fits = shape is None or (
        len(found) == len(shape) and all(b in (None, a) for a, b in zip(found, shape, strict=True))
    )
    rest = content.read()
    if not fits or min(found, default=0) < 0 or len(rest) != dtype.itemsize * math.prod(found):
        raise Damaged(f"{name!r} has shape {found}")
    return np.frombuffer(rest, dtype).reshape(found).astype(dtype.newbyteorder("="))  # a copy, which may be written to


def _plain(name: str, array: NDArray[Any]) -> NDArray[np.float64]:
    if array.dtype.kind not in "fiub":
        raise ValueError(f"a checkpoint holds numbers; {name} has dtype {array.dtype} (objects would be pickled).")
    return np.ascontiguousarray(array, dtype="<f8")


def _hash(array: NDArray[Any]) -> str:
    content = np.ascontiguousarray(array, dtype="<f8").reshape(-1).view(np.uint8)
    return hashlib.blake2b(content.data, digest_size=8).hexdigest()


# -- what a run leaves in it beside its arrays, checked when it is read -----------------------------------------------


def _is_amount(found: Any) -> bool:
    return isinstance(found, (int, float)) and not isinstance(found, bool) and 0 <= found <= 1e300


_RIGHT: dict[str, Callable[[Any], bool]] = {
    "iteration": is_count,
    "seconds": _is_amount,
    "weight": _is_amount,
    "status": lambda found: found in STATUSES,
    "seed": lambda found: found is None or (isinstance(found, int) and not isinstance(found, bool) and found >= 0),
    "source": lambda found: isinstance(found, dict),
}


def check_values(saved: Checkpoint) -> dict[str, Any]:
    """Return the values of a checkpoint; what no run can have written is refused."""
    arrays = saved.arrays
    for name in ("theta", "mean", "trace", "reached"):
        if name not in arrays:
            raise Damaged(f"array {name!r} is missing")
    for name in ("theta", "mean"):
        if not np.isfinite(arrays[name]).all():
            raise Damaged(f"{name} is not finite")
    for name, is_right in _RIGHT.items():
        if not is_right(saved.values.get(name)):
            raise Damaged(f"{name} is {saved.values.get(name)!r:.40}")
    _check_trace(arrays["trace"], saved.values["iteration"])
    return saved.values


def check_answers(saved: Checkpoint) -> dict[str, Floats]:
    """Return the answers of a checkpoint's problem, by part."""
    lengths, numbers = saved.values.get("answers"), saved.arrays.get(ANSWERS)
    if not isinstance(lengths, dict) or set(lengths) != set(saved.problem) or numbers is None:
        raise Damaged("the answers of its problem are missing")
    if not all(length == 0 or is_count(length) for length in lengths.values()) or sum(lengths.values()) != numbers.size:
        raise Damaged("the answers of its problem are incomplete")
    ends = np.cumsum([0, *lengths.values()])
    return {name: numbers[ends[i] : ends[i + 1]] for i, name in enumerate(lengths)}


def _check_trace(trace: Floats, last: int) -> None:
    at = trace[:, 0]
    rising = (
        np.isfinite(at).all() and bool((np.diff(at, prepend=0.0) >= 1.0).all()) and bool((at == np.floor(at)).all())
    )
    if at.size and not (rising and at[-1] <= last):
        raise Damaged("the iterations of its trace are not in order")
    if not (np.isfinite(trace[:, 3:]).all() and bool((np.abs(trace[:, 3:]) <= 1e300).all())):
        raise Damaged("a step, batch or time of its trace is not finite")
