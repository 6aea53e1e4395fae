"""Members on folds: what each says of rows that it was not fitted to, and its fit to all rows."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from crossfade._typing import Floats, Integers, Progress
from crossfade.errors import DataError
from crossfade.pools.fitting import PoolRows, fold_of, on_own_folds, out_of_fold, whole_fit
from crossfade.pools.members import chooses_on_folds
from crossfade.pools.weights import Evidence, Weighing, drawn_in, weigh
from crossfade.tradeoff.folds import folds

#: Folds over which weights are cross-fitted where the members need none.
_FOLDS: Final = 5


@dataclass(frozen=True)
class PoolSettings:
    """How a pool fits its members and weights; `cv` is a number or "prefit"."""

    cv: Any
    poolings: Sequence[str]
    selection: str
    by_class: bool
    pseudo_count: float
    n_jobs: int | None


@dataclass(frozen=True)
class Weighed:
    """Members with weight, fitted, and the weights of all that could be (`names`)."""

    names: list[str]
    weighing: Weighing
    kept: list[str]
    models: list[Any]

    @property
    def of_kept(self) -> Weighing:
        """The weights of those with weight."""
        own = self.weighing.sizes > 0.0
        return Weighing(self.weighing.pooling, self.weighing.weights[own])


class MemberFits:
    """Every member fitted to every fold when made; to all rows where it gets a weight.

    `failed`: Members that could not be fitted, and why.
    """

    def __init__(
        self,
        pairs: Sequence[tuple[str, Any]],
        data: PoolRows,
        classes: Any,
        settings: PoolSettings,
        tell: Progress | None = None,
    ) -> None:
        self.pairs, self.data, self.settings = pairs, data, settings
        #: Told of every fit until the members with weight are fitted to all rows.
        self.tell, self._done = tell, 0
        self.shares = data.rows.class_weights / data.rows.class_weights.sum()
        self.failed: dict[str, str] = {}
        splits = self._splits()
        fold = fold_of(splits, data.rows.n_samples)
        own = [pair for pair in pairs if fold is not None and chooses_on_folds(pair[1])]
        fits = sum(train is not None for train, _, _ in splits)
        self._total = len(own) + (len(pairs) - len(own)) * (fits + (fits > 0))
        once = self._parallel(on_own_folds, [(*pair, data, fold) for pair in own])
        # Own members that choose a tradeoff: one fit to all rows, which scores these very folds.
        whole = {name: found for (name, _), found in zip(own, once, strict=True) if found}
        self._models = {name: model for name, (model, _) in whole.items()}
        rest = [pair for pair in pairs if pair[0] not in whole]
        tasks = [(*pair, data, classes, train, held) for pair in rest for train, held, _ in splits]
        each = iter(self._parallel(out_of_fold, tasks))
        self._parts: dict[str, list[Floats]] = {name: [] for name, _ in pairs}
        for name, _ in pairs:
            for train, held, _ in splits:
                if name in whole:
                    _, posterior = whole[name]
                    posterior = posterior if isinstance(posterior, str) else posterior[held]
                else:
                    posterior = next(each)
                if isinstance(posterior, str):
                    self.failed.setdefault(name, posterior)
                    continue
                drawn = drawn_in(posterior, data.n_rows(train), self.shares, settings.pseudo_count)
                self._parts[name].append(drawn)
        empty = np.zeros(0, dtype=np.int64)
        self._held = np.concatenate([empty, *(held for _, held, _ in splits)])
        self._fold = np.concatenate([empty, *(fold for _, _, fold in splits)])

    def _splits(self) -> list[tuple[Integers | None, Integers, Integers]]:
        """Return training rows (None where nothing is fitted), held-out rows and their folds."""
        data, cv = self.data, self.settings.cv
        if isinstance(cv, str):
            # Fitted members have seen none of these rows, so that all can be scored.
            every = np.arange(data.rows.n_samples)
            return [(None, every, np.maximum(folds(data.rows, _FOLDS, data.groups), 0))]
        parts = data.splits
        if parts is None:
            fold = folds(data.rows, int(cv), data.groups)
            numbers = np.unique(fold[fold >= 0])
            parts = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in numbers]
        return [(train, held, np.full(held.size, k)) for k, (train, held) in enumerate(parts)]

    def _parallel(self, function: Any, tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
        def told() -> Iterator[Any]:
            for name, *rest in tasks:
                self._step(f"fitting {name}")
                yield delayed(function)(name, *rest)

        found: list[Any] = Parallel(n_jobs=self.settings.n_jobs)(told())
        return found

    def _step(self, text: str) -> None:
        """Tell that the next fit begins."""
        if self.tell is not None:
            self.tell(min(self._done, self._total), self._total, text)
            self._done += 1

    def over(self, X: Any) -> MemberFits:
        """Return the same for an equal table, without the fits to all rows."""
        found = copy.copy(self)
        found.data, found._models = replace(self.data, X=X), {}
        return found

    def without_others(self, gone: NDArray[np.bool_]) -> MemberFits:
        """Return the same without these of the rows that have no label."""
        found = copy.copy(self)
        found.data = self.data.with_others(np.flatnonzero(~gone))
        return found

    def evidence(self, names: Sequence[str]) -> Evidence:
        """Return what these members say of held-out rows, of many rows a part."""
        weights, none = self.data.rows.weights, np.zeros((0, self.shares.size))
        return Evidence(
            np.stack([np.concatenate([none, *self._parts[name]]) for name in names]),
            self.data.rows.codes[self._held],
            self._fold,
            np.ones(self._held.size) if weights is None else weights[self._held],
            np.log(self.shares),
            self.settings.selection,
            self._held,
            self.settings.by_class,
        ).sample()

    def weighed(self, index: Integers | None = None) -> Weighed:
        """Return the members' weights and fits, by these rows alone where some are given.

        What is given away by other rows then is no more than the members' held-out probabilities.
        """
        failed = self.failed if index is None else dict(self.failed)
        while True:
            pairs = [pair for pair in self.pairs if pair[0] not in failed]
            if not pairs:
                raise DataError(
                    "estimators: expected at least one member that can be fitted, got none: "
                    + "; ".join(f"{name}: {why}" for name, why in failed.items())
                )
            names = [name for name, _ in pairs]
            given = self.evidence(names)
            if index is not None:
                given = given.of_table(index)
            found = weigh(given, self.settings.poolings)
            kept = [pair for pair, w in zip(pairs, found.sizes, strict=True) if w > 0.0]
            models = self._fitted(kept, index)
            words = {
                name: model
                for (name, _), model in zip(kept, models, strict=True)
                if isinstance(model, str)
            }
            if not words:
                return Weighed(names, found, [name for name, _ in kept], models)
            failed |= words

    def _fitted(self, pairs: Sequence[tuple[str, Any]], index: Integers | None) -> list[Any]:
        """Return members fitted to these rows (all if None), in words why where one cannot be."""
        known = dict(self._models) if index is None else {}
        if isinstance(self.settings.cv, str):
            known = dict(pairs)
        new = [(*pair, self.data, index) for pair in pairs if pair[0] not in known]
        fits = self._parallel(whole_fit, new)
        known |= {name: model for (name, *_), model in zip(new, fits, strict=True)}
        if index is None:
            self._models = {
                name: model for name, model in known.items() if not isinstance(model, str)
            }
        return [known[name] for name, _ in pairs]
