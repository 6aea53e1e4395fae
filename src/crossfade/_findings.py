"""What is found is kept in dataclasses; here is how each becomes JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, cast

import numpy as np


class Finding:
    """A dataclass of findings, which has one way to JSON.

    `_KEYS`: What its JSON holds where that is not its fields (whose metadata may give another
        `key`): by key an attribute, "mapping.key" of one, or a mapping of more such keys.
    """

    _KEYS: ClassVar[Mapping[str, Any]] = {}

    def to_dict(self) -> dict[str, Any]:
        """Return what was found in dictionaries, lists, text, numbers and None: strict JSON."""
        own = {f.metadata.get("key", f.name): f.name for f in fields(cast(Any, self))}
        return cast(dict[str, Any], _named(self, self._KEYS or own))


def _named(record: Any, keys: str | Mapping[str, Any]) -> Any:
    if isinstance(keys, Mapping):
        return {key: _named(record, inner) for key, inner in keys.items()}
    name, _, of_mapping = keys.partition(".")
    value = getattr(record, name)
    return as_json(value.get(of_mapping) if of_mapping else value)


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
