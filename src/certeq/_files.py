"""Files written whole or not at all.

What is to be written goes to a draft beside the target, which is forced to disk and then renamed: readers see the old
file or the whole new one, whatever happens in between. A draft has a name nobody can foresee and is created, never
opened: a symbolic link laid in its way is not followed, and several processes do not write to the same one. A process
that is killed in the middle may leave its draft, ``.<name>.<16 digits>.part``, behind; it can be deleted.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
# Of a folder: the file system knows no such thing, or the folder may be written to but not read.
_NO_SYNC = {errno.EINVAL, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF, errno.ENOSYS}


def check_folder(target: str | os.PathLike[str]) -> None:
    """Raise the OSError that writing ``target`` would, if no file can be made beside it: by making one."""
    try:
        handle, draft = _open_draft(Path(target))
        os.close(handle)
        os.unlink(draft)
    except OSError as error:
        raise _named(error, target) from error


def write_whole(target: str | os.PathLike[str], write: Callable[[BinaryIO], object], *, replace: bool = True) -> None:
    """Let ``write`` fill a draft and rename it to the target; an OSError names the target.

    Parameters
    ----------
    target : path
        A symbolic link is replaced, not followed; pass ``os.path.realpath(target)`` to replace what it points to.
    write : callable
        Is given the draft, open for bytes.
    replace : bool
        Whether an existing file may be replaced; if not, FileExistsError, even when it appeared in the meantime.
    """
    path = Path(target)
    try:
        handle, draft = _open_draft(path)
        try:
            with os.fdopen(handle, "wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())  # the data must be on disk before the name points to it
            _move(draft, path, replace)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise _named(error, target) from error


def write_bytes(target: str | os.PathLike[str], content: bytes, *, replace: bool = True) -> None:
    """Write bytes as `write_whole` does.

    >>> import tempfile
    >>> from certeq._files import write_bytes
    >>> path = Path(tempfile.mkdtemp(), "kept")
    >>> write_bytes(path, b"whole")
    >>> path.read_bytes()
    b'whole'
    """
    write_whole(target, lambda file: file.write(content), replace=replace)


def check_writable(path: str | Path, *, force: bool = False) -> Path:
    """Refuse early what `write_text` would refuse after the work is done.

    Not a reservation: somebody else may take the name before the work is done.

    Parameters
    ----------
    path : str or Path
        The file.
    force : bool
        Whether an existing file may be replaced.

    Returns
    -------
    Path
        The path.

    See Also
    --------
    write_text
        Write a text file atomically.
    save
        Write the report to a file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from certeq.report import check_writable
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> check_writable(folder / "new.html").name
    'new.html'
    >>> check_writable(folder)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    IsADirectoryError: ... is a directory; name a file.
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a directory; name a file.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the directory {target.parent} does not exist.")
    if target.exists() and not force:
        raise FileExistsError(f"{target} exists already; choose another name, or pass force=True to replace it.")
    check_folder(target)
    return target


def write_text(path: str | Path, text: str, *, force: bool = False) -> Path:
    """Write UTF-8 text atomically: readers see the old file or the whole new one, whatever happens in between.

    Without ``force`` an existing file stays, even one that appeared while the work was going on.

    Parameters
    ----------
    path : str or Path
        The file.
    text : str
        What to write.
    force : bool
        Whether an existing file may be replaced.

    Returns
    -------
    Path
        The path.

    See Also
    --------
    check_writable
        Refuse a path that cannot be written.
    save
        Write the report to a file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from certeq.report import write_text
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> write_text(folder / "note.txt", "kept whole").read_text()
    'kept whole'
    >>> write_text(folder / "note.txt", "again")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    FileExistsError: ... exists already; choose another name, or pass force=True ...
    """
    target = check_writable(path, force=force)
    try:
        write_bytes(target, text.encode(errors="backslashreplace"), replace=force)  # names that are not UTF-8
    except FileExistsError:
        raise FileExistsError(
            f"{target} appeared while the work was going on; pass force=True to replace it."
        ) from None
    return target


def _open_draft(path: Path) -> tuple[int, Path]:
    # Not all of the name: with what is added it might be longer than a name may be.
    draft = path.with_name(f".{path.name[:32]}.{secrets.token_hex(8)}.part")
    return os.open(draft, _NEW, 0o666), draft  # less what the umask takes away


def _move(draft: Path, path: Path, replace: bool) -> None:
    if not replace:
        try:
            os.link(draft, path)  # unlike a rename, fails where the target has come to exist
        except FileExistsError:
            raise
        except OSError:  # no hard links on this file system
            os.close(os.open(path, _NEW, 0o666))  # takes the name, or fails likewise
        else:
            os.unlink(draft)
            return
    os.replace(draft, path)


def _sync_folder(folder: Path) -> None:
    """Force the rename itself to disk, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def _named(error: OSError, target: str | os.PathLike[str]) -> OSError:
    """The same error, of the file the caller knows: that of a full disk names none, others name the draft."""
    if error.errno is None:
        return error
    return OSError(error.errno, error.strerror, os.fspath(target))
