"""What is found is kept in dataclasses; here is how each becomes JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast

import numpy as np

__all__ = ["Finding", "as_json"]


class Finding:
    """A dataclass of findings. A field's metadata may give another `key` for it."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields under their names, ready for strict JSON."""
        return {
            each.metadata.get("key", each.name): as_json(getattr(self, each.name))
            for each in fields(cast(Any, self))
        }


def as_json(value: Any) -> Any:
    """Return the value in dictionaries, lists and numbers, None for what JSON cannot hold."""
    if isinstance(value, Finding):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    if isinstance(value, np.ndarray):
        return as_json(value.tolist())
    if isinstance(value, np.generic):
        return as_json(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
