"""Checkpoints of OCE-SG: what a run needs to continue, and a description of the problem the run belongs to.

A checkpoint is an .npz file: a JSON header and arrays of float64, none of them pickled, so that reading a file cannot
run code. Every part of the problem is stored as a text that is exact to the last bit; long arrays appear in the text
as a digest. Functions are described by their names alone.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from certeq._files import write_whole
from certeq._table import Block, Table
from certeq.optimize.domains import Domain
from certeq.optimize.losses import Loss
from certeq.optimize.losses._base import Floats
from certeq.optimize.sg._schedules import ScheduleChoice
from certeq.optimize.sg._sources import ArraySource, SamplerSource, Source
from certeq.utilities import Risk

VERSION = 6
_SHOWN = 8  # entries up to which an array or a sequence is written out in a description


def resolve(path: str | os.PathLike[str]) -> str:
    """Return the path of the file, symbolic links followed, so that a link stays and its target is replaced."""
    if isinstance(path, bytes) or not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"checkpoint must be a path; found {path!r}.")
    return os.path.realpath(os.fspath(path))


def exists(path: str) -> bool:
    """Return whether the file exists; raise ValueError for a directory, a pipe or a device."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError(f"checkpoint must be the path of a file; {path!r} is not a file.")
    return os.path.isfile(path)


# -- the problem ------------------------------------------------------------------------------------------------------


def describe_problem(
    loss: Loss,
    utility: Risk,
    domain: Domain,
    source: Source,
    theta0: Floats | None,
    weights: Floats | None,
    choice: ScheduleChoice,
    seed: int | None,
) -> dict[str, str]:
    """Return a text for every part of the problem that must be equal for a run to continue."""
    adaptive = f"adaptive, power {choice.power:g}, {'with' if choice.accelerated else 'without'} correction"
    parts = {
        "loss": describe(loss),
        "utility": describe(utility),
        "domain": describe(domain),
        "weights": "equal" if weights is None else describe(weights),
        "theta0": "default" if theta0 is None else describe(theta0),
        "step": adaptive if choice.step is None else repr(choice.step),
        "batch": repr(choice.batch),
        "average": choice.average,
        "rng": type(source.rng.bit_generator).__name__,
    }
    if isinstance(source, ArraySource):
        parts |= {"samples": describe(source.samples), "replace": str(source.replace)}
    else:
        parts["samples"] = describe(source.sampler) if isinstance(source, SamplerSource) else "iterator"
    return parts if seed is None else parts | {"seed": str(seed)}


def describe(value: Any) -> str:
    """Return a text that is exact to the last bit; functions are described by their names.

    Attributes with a leading underscore are not part of the description.
    """
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        return repr(float(value))
    if isinstance(value, Table):
        return f"{_sizes(value.shape)} in blocks #{value.reduce(_Digest(), every=True).hex()}"
    if isinstance(value, (tuple, list)):
        written = f"({', '.join(map(describe, value))})"
        return written if len(value) <= _SHOWN else f"{len(value)} entries #{_digest(written.encode()).hex()}"
    if hasattr(value, "__array__"):
        return _describe_array(np.asarray(value))
    if isinstance(value, Risk):
        items = value.get_params(deep=False)
    elif callable(value):
        return f"<function {getattr(value, '__qualname__', type(value).__qualname__)}>"
    elif isinstance(value, dict):
        items = value
    elif hasattr(value, "__dict__"):
        items = {name: item for name, item in vars(value).items() if not name.startswith("_")}
        if isinstance(value, Loss):
            items.pop("samples", None)  # described as a separate part of the problem
    else:
        return repr(value)
    return f"{type(value).__qualname__}({', '.join(f'{name}={describe(item)}' for name, item in items.items())})"


def _describe_array(array: NDArray[Any]) -> str:
    if array.dtype.hasobject:
        raise TypeError(f"a checkpoint needs arrays of numbers; found an array with dtype {array.dtype}.")
    if array.size <= _SHOWN:
        return str(array.tolist())
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return f"{_sizes(array.shape)} {array.dtype} #{_digest(content.data).hex()}"


def _sizes(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _digest(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=8).digest()


@dataclass(frozen=True)
class _Digest:
    """Digest of a table, which depends on the table's division into blocks as well."""

    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> bytes:
        return _digest(block.rows.tobytes())

    def join(self, parts: Sequence[bytes]) -> bytes:
        return _digest(b"".join(parts))


# -- the file ---------------------------------------------------------------------------------------------------------


def save(path: str, problem: Mapping[str, str], values: Mapping[str, Any], parts: Mapping[str, Any]) -> None:
    """Replace the file by a checkpoint with the attributes that ``STATE`` of every part names, and JSON values."""
    header = {"version": VERSION, "problem": problem, "values": values}
    written = json.dumps(header, default=lambda array: array.tolist()).encode()
    arrays: dict[str, Any] = {"header": np.frombuffer(written, dtype=np.uint8)}
    for key, _, _, value in _attributes(parts):
        arrays[key] = np.asarray(value, dtype=np.float64, order="C")
    write_whole(path, lambda file: np.savez(file, **arrays))


def load(path: str, problem: Mapping[str, str], parts: Mapping[str, Any]) -> dict[str, Any]:
    """Restore the attributes of the parts from a checkpoint of the same problem, and return its values.

    A checkpoint of another problem, of another format, or with arrays of unexpected sizes raises ValueError.
    """
    arrays: dict[str, Floats] = {}
    with open(path, "rb") as file:
        try:
            size = os.fstat(file.fileno()).st_size
            with zipfile.ZipFile(file) as archive:
                header = json.loads(_read(archive, "header", "|u1", None, size).tobytes())
                why = _difference(header, problem)
                for key, _, _, value in () if why else _attributes(parts):
                    # Arrays that are empty at the start of a run grow, so any length is allowed.
                    shape = np.shape(value) if np.size(value) else None
                    arrays[key] = _read(archive, key, "<f8", shape, size).astype(np.float64)
        except Exception as error:  # zipfile, json and NumPy raise many types
            why = f"is damaged or not a checkpoint: {error or type(error).__name__}"
    if why:
        raise ValueError(f"checkpoint {path!r} {why}. Use another file, or pass resume=False to overwrite it.")
    for key, part, name, value in _attributes(parts):
        setattr(part, name, arrays[key] if isinstance(value, np.ndarray) else type(value)(arrays[key].tolist()))
    values: dict[str, Any] = header["values"]
    return values


def _attributes(parts: Mapping[str, Any]) -> Iterator[tuple[str, Any, str, Any]]:
    """Yield (key in the file, part, attribute, value) for every attribute that changes during a run."""
    for label, part in parts.items():
        for name in part.STATE:
            yield f"{label}.{name}", part, name, getattr(part, name)


def _difference(header: Mapping[str, Any], problem: Mapping[str, str]) -> str:
    """Return why a checkpoint does not belong to the problem, or an empty text."""
    if header["version"] != VERSION:
        return f"has format {header['version']!r:.40}; this version of certeq reads format {VERSION}"
    saved = {name: header["problem"].get(name, "missing") for name in problem}
    apart = [f"{name}: {saved[name]} in the file, {now} now" for name, now in problem.items() if saved[name] != now]
    return f"belongs to a different problem: {'; '.join(apart)}" if apart else ""


def _read(archive: zipfile.ZipFile, name: str, dtype: str, shape: tuple[int, ...] | None, most: int) -> NDArray[Any]:
    """Read one array of at most ``most`` bytes, after checking the type and size that the array declares."""
    with archive.open(f"{name}.npy") as member:
        if np.lib.format.read_magic(member) != (1, 0):
            raise ValueError(f"{name!r} is not an array of format 1.0")
        found, by_columns, kind = np.lib.format.read_array_header_1_0(member)
        size = kind.itemsize * math.prod(found)
        if kind != np.dtype(dtype) or by_columns or (shape is not None and found != shape) or not 0 <= size <= most:
            raise ValueError(f"array {name!r} has dtype {kind} and shape {found}")
        content = member.read(size + 1)  # one byte more than expected, so that the checksum is compared
    if len(content) != size:
        raise ValueError(f"array {name!r} has {len(content)} bytes instead of {size}")
    return np.frombuffer(content, kind).reshape(found)


def restore_generator(rng: np.random.Generator, state: Any) -> None:
    """Set the state of a generator; raise ValueError for a position at which NumPy would read outside its buffer."""
    for place in (state, state.get("state")):
        if isinstance(place, dict):
            for name, last in (("pos", 624), ("buffer_pos", 4)):
                if not 0 <= place.get(name, 0) <= last:
                    raise ValueError(f"the checkpoint holds no state of a generator: {name} is {place[name]!r:.40}.")
    rng.bit_generator.state = state
