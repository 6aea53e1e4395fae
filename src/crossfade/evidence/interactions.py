"""What two columns say together and naive Bayes does not see, as a record."""

from __future__ import annotations

from dataclasses import dataclass, field

from crossfade._findings import Finding
from crossfade._typing import Floats


@dataclass(frozen=True)
class Interaction(Finding):
    """A derived column that residuals of naive Bayes on test rows ask for, and where they are.

    `name`: Of the derived column: a product, a pair of categories, a step, a hinge.
    `columns`: The two columns that it comes from; of a step or hinge one.
    `statistic`, `p_value`: Of the score test that it adds nothing (χ²).
    `label`: The class whose residuals are shown, as text.
    `first`, `second`: What the parts of either column are called: categories, or the median of a
        part of the numbers. Of one column there is no second.
    `residual` (n_first, n_second): Share of the class less its mean probability, NaN where there
        are too few rows.
    `counts` (n_first, n_second): Test rows.
    """

    name: str
    columns: tuple[str, ...]
    statistic: float
    p_value: float
    label: str = field(metadata={"key": "class"})
    first: tuple[str, ...]
    second: tuple[str, ...]
    residual: Floats
    counts: Floats = field(metadata={"key": "rows"})
