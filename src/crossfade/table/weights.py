"""Row weights: those given for rows and those given for classes, as one vector or None."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade._checks import counted, listed, show
from crossfade.errors import DataError


def check_weights(
    sample_weight: Any,
    n: int,
    class_weight: Mapping[Any, float] | str | None = None,
    codes: NDArray[np.int64] | None = None,
    classes: NDArray[Any] | None = None,
) -> NDArray[np.float64] | None:
    """Return the weight of each row, None where all weights are one.

    Shapes: sample_weight (n,); codes (n,); classes (n_classes,); → (n,).
    """
    weights = None if sample_weight is None else row_weights(sample_weight, n)
    if class_weight is not None:
        if codes is None or classes is None:
            raise DataError("class_weight: expected codes and classes with it, got none")
        by_class = _class_weights(class_weight, weights, codes, classes)
        weights = by_class[codes] if weights is None else weights * by_class[codes]
    if weights is None or bool((weights == 1.0).all()):
        return None
    if not weights.any():
        raise no_weight(n)
    return weights


def no_weight(n: int) -> DataError:
    """Return the error of rows without any weight."""
    return DataError(
        f"sample_weight: expected some weight above 0, got {n} zeros; drop the parameter to "
        "weigh all rows alike"
    )


def row_weights(sample_weight: Any, n: int) -> NDArray[np.float64]:
    """Return one weight of at least 0 per row, shape (n,)."""
    try:
        weights = np.asarray(sample_weight)
        if weights.dtype.kind not in "biufO":
            raise TypeError(f"dtype {weights.dtype}")
        weights = weights.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise DataError(
            f"sample_weight: expected numbers, got {show(sample_weight)}; give one number per row"
        ) from None
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise DataError(
            f"sample_weight: expected shape ({n},), one weight per row, got shape {weights.shape}; "
            "select the weights of the same rows as X"
        )
    lowest, total = float(weights.min(initial=0.0)), float(weights.sum())
    if not np.isfinite(total) and not np.isfinite(weights).all():
        bad = ~np.isfinite(weights)
        raise DataError(
            f"sample_weight: expected finite weights, got {show(weights[bad][0])} in "
            f"{counted(int(bad.sum()), 'row')}; use 0 for a row that should not count"
        )
    if lowest < 0:
        raise DataError(
            f"sample_weight: expected weights of at least 0, got {lowest!r}; use 0 for a row that "
            "should not count"
        )
    return weights


def _class_weights(
    class_weight: Mapping[Any, float] | str,
    weights: NDArray[np.float64] | None,
    codes: NDArray[np.int64],
    classes: NDArray[Any],
) -> NDArray[np.float64]:
    if isinstance(class_weight, str) and class_weight == "balanced":
        totals = np.bincount(codes, weights=weights, minlength=len(classes)).astype(np.float64)
        present = totals > 0
        totals[~present] = 1.0  # such a class has no weight to spread
        balanced: NDArray[np.float64] = totals[present].sum() / (present.sum() * totals)
        return balanced
    if not isinstance(class_weight, Mapping):
        raise DataError(
            f"class_weight: expected a mapping of label to weight, 'balanced' or None, got "
            f"{show(class_weight)}; for instance {{{show(classes[0])}: 2.0}}"
        )
    positions = {label: position for position, label in enumerate(classes.tolist())}
    by_class = np.ones(len(classes))
    for label, weight in class_weight.items():
        if label not in positions:
            raise DataError(
                f"class_weight: expected labels of y as keys, got {show(label)}; the labels are "
                f"{listed(classes)}"
            )
        if not isinstance(weight, (int, float, np.number)) or not 0 < weight < np.inf:
            raise DataError(
                f"class_weight: expected a finite weight above 0 for class {show(label)}, got "
                f"{show(weight)}; use 1 to leave the class as it is, or leave its rows out"
            )
        by_class[positions[label]] = float(weight)
    return by_class
