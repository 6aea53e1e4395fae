"""The pool of the models of a comparison, from the fits that it makes anyway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.evaluation.splits import Split
from crossfade.pools.weights import Evidence, Weighing, drawn_in, pooled, weigh
from crossfade.tradeoff.criteria import losses

#: Fewest splits, and most numbers that are held at a time: of more, fewer splits are looked at.
_FEWEST_SPLITS: Final = 3
_MOST_NUMBERS: Final = 20_000_000


@dataclass(frozen=True)
class Pooling:
    """What a pool came to.

    `weights`: By the names of its members, positive ones only; from all splits.
    `losses`: By the names of losses, one value per split (n_splits,).
    """

    weights: dict[str, float]
    losses: dict[str, Floats]


def pool_over_splits(
    posteriors: Mapping[str, Sequence[Floats]],
    splits: Sequence[Split],
    codes: Integers,
    criterion: str,
    costs: Floats | None = None,
) -> Pooling | None:
    """Pool models by their posteriors of the splits' test rows; None where these are too few.

    On each split the weights come from that split's training rows alone, as far as other splits
    have tested models on them. No model is fitted for it.

    Shapes: posteriors (n_test, n_classes), by model one for each of the first splits; costs
    (n_classes, n_classes).
    """
    kept = list(posteriors)
    # Whoever gets no weight on the splits that all have keeps nobody from further ones.
    for _ in range(2):
        n_splits = min((len(posteriors[name]) for name in kept), default=0)
        if n_splits < _FEWEST_SPLITS or len(kept) < 2:
            return None
        size = len(kept) * posteriors[kept[0]][0].size
        n_splits = max(_FEWEST_SPLITS, min(n_splits, _MOST_NUMBERS // max(size, 1)))
        part = _Part.of([posteriors[name][:n_splits] for name in kept], splits, codes, criterion)
        found = part.weights(np.arange(len(codes)))
        weights = {name: float(w) for name, w in zip(kept, found.weights, strict=True) if w > 0.0}
        if len(weights) == len(kept):
            break
        kept = [name for name in kept if name in weights]
    return Pooling(weights, part.losses(splits, costs)) if len(weights) > 1 else None


@dataclass(frozen=True)
class _Part:
    """Posteriors of some models on the test rows of some splits, one split after the other.

    `rows` (n_tested,): Each tested row's position in the table.
    """

    evidence: Evidence
    rows: Integers

    @classmethod
    def of(
        cls,
        posteriors: Sequence[Sequence[Floats]],
        splits: Sequence[Split],
        codes: Integers,
        criterion: str,
    ) -> _Part:
        n_splits = len(posteriors[0])
        tested = [split.test for split in splits[:n_splits]]
        rows = np.concatenate(tested)
        shares = np.bincount(codes) / len(codes)
        n_train = len(splits[0].train)
        scores = np.stack(
            [drawn_in(np.concatenate(one), n_train, shares, 1.0) for one in posteriors]
        )
        fold = np.repeat(np.arange(n_splits), [len(one) for one in tested])
        selection = "brier" if criterion == "brier" else "log_loss"
        ones = np.ones(len(rows))
        return cls(Evidence(scores, codes[rows], fold, ones, np.log(shares), selection), rows)

    def weights(self, train: Integers, but: int = -1) -> Weighing:
        """Return the weights that these rows of the table ask for, one split apart."""
        mine = np.isin(self.rows, train) & (self.evidence.fold != but)
        own = np.flatnonzero(mine)
        times = np.bincount(self.rows[own], minlength=1)
        # A row counts once, however often it was tested.
        once = 1.0 / times[self.rows[own]]
        return weigh(replace(self.evidence.rows(own), weights=once).sample(), ["logarithmic"])

    def losses(self, splits: Sequence[Split], costs: Floats | None) -> dict[str, Floats]:
        """Return the pool's losses by split."""
        found: dict[str, list[float]] = {}
        for number in np.unique(self.evidence.fold).tolist():
            weighing = self.weights(splits[number].train, number)
            held = self.evidence.rows(np.flatnonzero(self.evidence.fold == number))
            joint = pooled(weighing, held.scores, held.log_prior)
            for name, loss in losses(joint, held.codes, held.weights, costs).items():
                found.setdefault(name, []).append(loss)
        return {name: np.array(losses) for name, losses in found.items()}
