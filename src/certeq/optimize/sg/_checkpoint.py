"""Checkpoints that are whole or not there.

A checkpoint is written to a temporary file beside its place, forced to disk, and renamed: whenever the process is
killed, the file under its own name is the previous checkpoint or the new one. The format is .npz with a JSON header;
nothing in it is pickled, so reading one cannot run code.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

VERSION = 1


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run: plain values and arrays, and the problem it belongs to."""

    problem: dict[str, str]
    values: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def save(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a checkpoint so that no moment of a crash can leave half of one."""
    place = Path(path)
    header = json.dumps({"version": VERSION, "problem": checkpoint.problem, "values": checkpoint.values})
    content = {"header": np.frombuffer(header.encode(), dtype=np.uint8), **checkpoint.arrays}
    draft = place.with_name(place.name + ".tmp")
    with open(draft, "wb") as file:
        np.savez(file, allow_pickle=False, **content)
        file.flush()
        os.fsync(file.fileno())  # the data must be on disk before the name points to it
    os.replace(draft, place)
    _sync_folder(place.parent)


def load(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint; a file that is not one is refused."""
    try:
        with np.load(path, allow_pickle=False) as file:
            content = {name: file[name] for name in file.files}
        header = json.loads(content.pop("header").tobytes().decode())
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError) as error:
        raise ValueError(f"checkpoint {os.fspath(path)!r} is not a whole checkpoint file: {error}.") from error
    if header.get("version") != VERSION:
        raise ValueError(
            f"checkpoint {os.fspath(path)!r} has format {header.get('version')}; this version reads format {VERSION}. "
            "Delete it, or pass resume=False to start over."
        )
    return Checkpoint(header["problem"], header["values"], content)


def refuse_other_problem(path: str | os.PathLike[str], saved: dict[str, str], present: dict[str, str]) -> None:
    """Raise, naming what differs, when a checkpoint belongs to another problem."""
    other = [name for name in present if saved.get(name) != present[name]]
    if other:
        detail = "; ".join(f"{name}: {saved.get(name, 'missing')} in the file, {present[name]} now" for name in other)
        raise ValueError(
            f"checkpoint {os.fspath(path)!r} belongs to a different problem: {detail}. Use another file, or pass "
            "resume=False to overwrite it."
        )


def digest(value: Any) -> str:
    """Return a short fingerprint of an array, or of a tuple of arrays, that changes when any bit does."""
    parts = value if isinstance(value, tuple) else (value,)
    total = hashlib.blake2b(digest_size=8)
    shapes = []
    for part in parts:
        array = np.ascontiguousarray(part)
        shapes.append("x".join(map(str, array.shape)))
        total.update(f"{array.dtype}{array.shape}".encode())
        total.update(array.reshape(-1).view(np.uint8).data)
    return f"{' and '.join(shapes)} #{total.hexdigest()}"


def _sync_folder(folder: Path) -> None:
    """Force the rename itself to disk, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
