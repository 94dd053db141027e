"""A column spread over many files, read by Dask in passes: here, or on a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from glob import glob
from importlib import import_module
from pathlib import Path
from typing import Any

from certeq.cli._console import BadData, note
from certeq.cli._tables import PARQUET, column_names, missing_column, only_numeric, separator_of

_TABLES = {*PARQUET, ".csv"}
_PATIENCE = 10  # seconds to reach a cluster


def is_many(path: Path) -> bool:
    """Whether this is a folder or a pattern rather than one file."""
    return path.is_dir() or (any(mark in str(path) for mark in "*?[") and not path.exists())


def files_of(path: Path) -> list[Path]:
    """The files of a folder or a pattern, in order of their names; all of one format."""
    found = path.iterdir() if path.is_dir() else map(Path, glob(str(path)))
    files = sorted(file for file in found if file.is_file())
    if path.is_dir():
        files = [file for file in files if file.suffix.lower() in _TABLES]
    if not files:
        what = "is a directory without CSV or Parquet files" if path.is_dir() else "no file has such a name"
        raise BadData(f"{path}: {what}.")
    kinds = {file.suffix.lower() in PARQUET for file in files}
    if len(kinds) > 1:
        raise BadData(f"{path}: found both CSV and Parquet files; name one kind, for instance '*.parquet'.")
    return files


def lazy_column(path: Path, wanted: str | None) -> tuple[str, Any]:
    """A column as a Dask Series, of which nothing has been read yet, and its name."""
    try:
        import dask.dataframe as dd
    except ImportError:
        raise ImportError("many files are read by Dask: pip install 'certeq[dask]'") from None
    files = files_of(path) if is_many(path) else [path]
    if not files[0].exists():
        raise BadData(f"{path}: no such file.")
    for file in files:
        names = column_names(file)
        if wanted is not None and wanted not in names:
            raise missing_column(file, wanted, names)
    paths = [str(file) for file in files]
    columns = None if wanted is None else [wanted]
    try:
        if files[0].suffix.lower() in PARQUET:
            table = dd.read_parquet(paths, columns=columns)
        else:
            table = dd.read_csv(paths, usecols=columns, sep=separator_of(files[0]), encoding="utf-8-sig")
    except (ValueError, UnicodeDecodeError) as error:  # pyarrow's and pandas' own are ValueErrors too
        raise BadData(f"{path}: not readable ({error}).") from None
    name = wanted if wanted is not None else only_numeric(path, table.dtypes, list(map(str, table.columns)))
    return name, table[name]


@contextmanager
def dask_at(address: str | None, *, quiet: bool) -> Iterator[None]:
    """Run Dask on the cluster at an address, or here with Dask's own progress bar; its complaints in one line."""
    with ExitStack() as stack:
        if address is not None:
            stack.enter_context(_connected(address, quiet=quiet))
        elif not quiet and sys.stderr.isatty():
            bar: Any = import_module("dask.diagnostics")  # Dask is typed in part only
            stack.enter_context(bar.ProgressBar(out=sys.stderr))
        try:
            yield
        except (ValueError, TypeError, RuntimeError, OverflowError) as error:
            raise BadData(str(error)) from None


def _connected(address: str, *, quiet: bool) -> Any:
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise ImportError("--cluster needs distributed: pip install 'certeq[dask]'") from None
    try:
        client = distributed.Client(address, timeout=_PATIENCE)
    except (OSError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise BadData(
            f"--cluster {address}: no Dask scheduler answers there within {_PATIENCE} s ({reason})."
        ) from None
    if not quiet:
        note(f"running on {address}; its dashboard is {client.dashboard_link}")
    return client
