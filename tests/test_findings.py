from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from crossfade._findings import Finding


@dataclass(frozen=True)
class Inner(Finding):
    value: float


@dataclass(frozen=True)
class Outer(Finding):
    n_rows: int = field(metadata={"key": "rows"})
    found: Any = None


def test_whatever_a_finding_holds_becomes_strict_json():
    held = {
        "record": Inner(0.5),
        1: (Inner(np.nan), np.float64(-np.inf), np.int64(3), np.bool_(True), None),
        "array": np.array([[1.0, np.nan], [np.inf, 2.0]]),
    }
    content = Outer(7, held).to_dict()
    assert json.loads(json.dumps(content, allow_nan=False)) == {
        "rows": 7,
        "found": {
            "record": {"value": 0.5},
            "1": [{"value": None}, None, 3, True, None],
            "array": [[1.0, None], [None, 2.0]],
        },
    }


@dataclass(frozen=True)
class Named(Finding):
    _KEYS: ClassVar = {
        "rows": "n",
        "at": {"first": "by_name.a", "none": "by_name.b", "two": "twice"},
    }

    n: int
    by_name: dict[str, Inner]

    @property
    def twice(self) -> int:
        return 2 * self.n


def test_keys_name_attributes_entries_and_more_keys():
    assert Named(4, {"a": Inner(0.5)}).to_dict() == {
        "rows": 4,
        "at": {"first": {"value": 0.5}, "none": None, "two": 8},
    }
