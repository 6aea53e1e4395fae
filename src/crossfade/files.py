"""Files written whole or not at all, and files that one process at a time may have."""

from __future__ import annotations

import atexit
import errno
import glob
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from crossfade._names import near_names

#: How the names of files in the making end.
_UNFINISHED: Final = ".crossfade"

#: Errors of writing that come without the name of the file.
_NO_ROOM: Final = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}

_in_the_making: set[str] = set()


def is_stream(path: Path) -> bool:
    """Return whether a path names a device or a pipe, which is written to and never replaced."""
    return path.exists() and not path.is_file()


def refuse_device(path: Path) -> None:
    """Raise where a path to be read names a device."""
    if path.is_char_device() or path.is_block_device():
        from crossfade.errors import DataError  # brings scikit-learn, which takes a while

        raise DataError(
            f"{path}: expected a file, got a device, whose end may never come; save its data in "
            "a file first"
        )


def no_such_file(place: Path) -> str:
    """Return that a file is not there, and which one was perhaps meant."""
    folder = place.parent
    if not folder.is_dir():
        return f"no such file; there is no folder {str(folder)!r} either"
    near = near_names(place.name, [entry.name for entry in folder.iterdir() if entry.is_file()])
    if near:
        return f"no such file; did you mean {' or '.join(str(folder / name) for name in near)}?"
    return f"no such file; no file in {str(folder.resolve())!r} has a name like it"


def kept_stream(stream: BinaryIO) -> Path:
    """Return a file with what a stream holds, to be read more than once; it goes with the process.

    Its ending tells its format, as its first bytes do.
    """
    begin = stream.read(6)
    ending = {b"PAR1": ".parquet", b"ARRO": ".arrow"}.get(begin[:4], ".csv")
    handle, name = tempfile.mkstemp(ending, "stdin-")
    _in_the_making.add(name)
    atexit.register(discard_unfinished)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(begin)
            shutil.copyfileobj(stream, file)
    except BaseException:
        discard_unfinished()
        raise
    return Path(name)


def is_read_only(file: Path) -> bool:
    """Return whether a file that exists must not be replaced; the rights of root change nothing."""
    return not (os.access(file, os.W_OK) and file.stat().st_mode & 0o222)


def destination(path: Path) -> Path:
    """Return the file that a path leads to, there or not yet; a circle of links is an OSError."""
    with suppress(FileNotFoundError):
        path.stat()
    return Path(os.path.realpath(path))


def lock(descriptor: int, *, wait: bool = False) -> bool:
    """Keep an open file for this process until it is closed; False if another process has it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(descriptor, 1 << 30, os.SEEK_SET)  # what is locked cannot be read by others
            msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        # Some network file systems have no locks: there, nothing is known of others.
        return error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
    return True


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file that takes the place of `path` when the block ends without an error.

    A link keeps pointing where it does, a device or a pipe is written to as it is, a file that is
    replaced keeps its rights, and one that is read-only is refused.
    """
    if is_stream(path):
        with named_errors(path), path.open("wb") as stream:
            yield stream
        return
    file = destination(path)
    before = file.stat() if file.exists() else None
    if before is not None and is_read_only(file):
        raise PermissionError(errno.EACCES, "the file is read-only", str(path))
    _remove_stale(file)
    while True:
        name = str(file.parent / f"{_prefix(file)}{secrets.token_hex(4)}{_UNFINISHED}")
        _in_the_making.add(name)  # before it is there: a signal may come at any time
        try:
            with named_errors(path):
                handle = _new_file(name)
            if handle is None:
                continue
            # The lock is held until the name is gone, so that nobody takes it for a stale one.
            with named_errors(path), os.fdopen(handle, "wb") as new:
                yield new
                new.flush()
                os.fsync(new.fileno())
                if sys.platform == "win32":
                    new.close()
                _give_rights(name, before)
                os.replace(name, file)
            return
        except BaseException:  # Ctrl-C and termination too: half a file must not stay behind
            Path(name).unlink(missing_ok=True)
            raise
        finally:
            _in_the_making.discard(name)


def _give_rights(name: str, before: os.stat_result | None) -> None:
    """Give a new file the rights and owner of the one before, or what the umask leaves."""
    if before is None:
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        return
    if hasattr(os, "chown"):
        with suppress(OSError):  # of a file of somebody else
            os.chown(name, before.st_uid, before.st_gid)
    os.chmod(name, stat.S_IMODE(before.st_mode))


def _new_file(name: str) -> int | None:
    """Return a new file, open and locked; None where another has the name, or took it away."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    try:
        handle = os.open(name, flags | getattr(os, "O_BINARY", 0), 0o600)
    except FileExistsError:
        return None
    lock(handle, wait=True)
    if os.fstat(handle).st_nlink:
        return handle
    os.close(handle)  # taken for a stale one before it was locked
    return None


def _prefix(file: Path) -> str:
    return f".{file.name[:20]}."


def _remove_stale(file: Path) -> None:
    """Remove what writers that were killed left: no process has a lock on it."""
    for name in glob.glob(
        f"{glob.escape(_prefix(file))}????????{_UNFINISHED}", root_dir=file.parent
    ):
        with suppress(OSError), open(file.parent / name, "r+b") as left:
            if lock(left.fileno()):
                if sys.platform == "win32":
                    left.close()
                (file.parent / name).unlink()


def discard_unfinished() -> None:
    """Remove files in the making, before the process ends without clearing up."""
    for name in tuple(_in_the_making):
        Path(name).unlink(missing_ok=True)
        _in_the_making.discard(name)


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Add the file's name to errors that say that there is no room."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM and str(error.filename or _UNFINISHED).endswith(_UNFINISHED):
            error.filename = str(path)
        raise


def write_whole(path: Path, content: bytes) -> None:
    """Write a file by way of a temporary one beside it, so that no reader sees half of it."""
    with whole_file(path) as file:
        file.write(content)
