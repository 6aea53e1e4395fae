"""Opening the table that a command was given: a file, or a bundled data set by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["OpenTable", "open_table"]


@dataclass(frozen=True)
class OpenTable:
    """A table with its target taken out.

    Attributes
    ----------
    name : str
        File name or name of the data set.
    target : str
        Name of the target column.
    X : frame
        The other columns.
    y : series
        The target.
    notes : tuple of str
        What was done on opening.
    """

    name: str
    target: str
    X: Any
    y: Any
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return where the data came from."""
        return {"source": self.name, "target": self.target, "opening_notes": list(self.notes)}
