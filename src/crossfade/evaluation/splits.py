"""Repeated stratified splits, with nested training sizes inside each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from crossfade._typing import Integers
from crossfade.errors import DataError


@dataclass(frozen=True)
class Split:
    """One division of the rows into training and test rows.

    `train` (n_train,), int64: Training rows in nested order: for every m at least the number of
        classes, ``train[:m]`` holds every class, in proportions as close to those of all rows as
        whole rows allow.
    `test` (n_test,), int64: The other rows, ascending.
    `number`: Which of the splits it is, from 0.
    """

    train: Integers
    test: Integers
    number: int = 0

    @property
    def ratio(self) -> float:
        """n_test/n_train, for the corrected standard errors."""
        return len(self.test) / len(self.train)


def training_rows(train_size: float | int, n_rows: int, n_classes: int) -> int:
    """Return how many rows go to training."""
    if isinstance(train_size, bool) or not isinstance(train_size, (int, float, np.number)):
        raise DataError(
            "train_size: expected a fraction in (0, 1) or a number of rows, "
            f"got {train_size!r}; use for example 0.8"
        )
    whole = isinstance(train_size, (int, np.integer))
    if whole or (float(train_size).is_integer() and train_size > 1):
        wanted = int(train_size)
    elif 0 < train_size < 1:
        wanted = round(float(train_size) * n_rows)
        # A fraction asks for about so many rows; a count is meant literally.
        wanted = min(max(wanted, n_classes), n_rows - n_classes)
    else:
        raise DataError(
            "train_size: expected a fraction in (0, 1) or a number of rows, "
            f"got {train_size!r}; use for example 0.8"
        )
    if not n_classes <= wanted <= n_rows - n_classes:
        raise DataError(
            f"train_size: expected between {n_classes} and {n_rows - n_classes} training rows "
            f"(every class once on either side of a split of {n_rows} rows), got {train_size!r}; "
            "choose another size or give more rows"
        )
    return wanted


def _rows_per_class(counts: Integers, n_train: int) -> Integers:
    """Share out the training rows by class: proportional, at least one on either side."""
    ideal = counts * (n_train / counts.sum())
    share = np.clip(np.floor(ideal).astype(np.int64), 1, counts - 1)
    while (missing := n_train - share.sum()) != 0:
        step = 1 if missing > 0 else -1
        allowed = share < counts - 1 if step > 0 else share > 1
        gap = np.where(allowed, step * (ideal - share), -np.inf)
        share[int(np.argmax(gap))] += step
    return share


def _nested(rows_by_class: list[Integers], rng: np.random.Generator) -> Integers:
    """Interleave the classes' rows so that every prefix is stratified."""
    # Row r of a class of c rows stands at (r + u)/c of the way, u one random offset per class; the
    # first row of each class stands in front of everything.
    positions = []
    for rows in rows_by_class:
        position = (np.arange(len(rows)) + rng.random()) / len(rows)
        position[0] = -rng.random()
        positions.append(position)
    order = np.argsort(np.concatenate(positions), kind="stable")
    return np.concatenate(rows_by_class)[order]


def repeated_splits(
    codes: Integers, *, n_splits: int, n_train: int, random_state: int
) -> Iterator[Split]:
    """Yield independent stratified splits; split j depends on `random_state` and j only."""
    counts = np.bincount(codes)
    share = _rows_per_class(counts, n_train)
    by_class = np.split(np.argsort(codes, kind="stable"), np.cumsum(counts)[:-1])
    for number, seed in enumerate(np.random.SeedSequence(random_state).spawn(n_splits)):
        rng = np.random.default_rng(seed)
        shuffled = [rng.permutation(rows) for rows in by_class]
        train = [rows[:k] for rows, k in zip(shuffled, share, strict=True)]
        test = [rows[k:] for rows, k in zip(shuffled, share, strict=True)]
        yield Split(_nested(train, rng), np.sort(np.concatenate(test)), number)


def random_splits(
    n_units: int, *, n_splits: int, n_train: int, random_state: int
) -> Iterator[Split]:
    """Yield independent splits of units that have no class of their own, such as sequences."""
    for number, seed in enumerate(np.random.SeedSequence(random_state).spawn(n_splits)):
        order = np.random.default_rng(seed).permutation(n_units)
        yield Split(order[:n_train], np.sort(order[n_train:]), number)


def curve_sizes(n_train: int, n_classes: int, n_sizes: int = 8) -> tuple[int, ...]:
    """Return training sizes, even in logarithms, from about five rows per class to all rows."""
    smallest = min(5 * n_classes, max(n_classes, n_train // 4))
    sizes = np.rint(np.geomspace(smallest, n_train, n_sizes)).astype(int)
    return tuple(int(m) for m in np.unique(sizes))
