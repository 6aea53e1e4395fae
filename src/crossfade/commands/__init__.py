"""The commands of the command line, one a file, each with a ``register(app)``."""

from __future__ import annotations

from typing import Final

__all__ = ["STOPPED", "STOPPED_CODE"]

#: What is said at Ctrl-C, and the exit code: as a shell has it, 128 and the signal's number.
STOPPED: Final = "stopped by the keyboard"
STOPPED_CODE: Final = 130
