"""Files written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["is_stream", "whole_file", "write_whole"]


def is_stream(path: Path) -> bool:
    """Return whether a path names a device or a pipe, which is written to and never replaced."""
    return path.exists() and not path.is_file()


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file beside `path` that takes its place when the block ends without an error.

    No reader ever sees half of it, and a run that is killed leaves what was there. A link keeps
    pointing where it does, and a device or a pipe is written to as it is.
    """
    if is_stream(path):
        with path.open("wb") as stream:
            yield stream
        return
    path = Path(os.path.realpath(path))
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:20]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files private; an ordinary new file follows the umask.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except BaseException:  # Ctrl-C and termination too: half a file must not stay behind
        Path(name).unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: bytes) -> None:
    """Write a file by way of a temporary one beside it, so that no reader sees half of it."""
    with whole_file(path) as file:
        file.write(content)
