"""A pool's parameters, members' own among them, as scikit-learn sets and gets them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any, Final, Self

from sklearn.base import BaseEstimator

from crossfade._checks import check_choice, check_number
from crossfade._typing import Progress
from crossfade.classifiers.checks import check_marker
from crossfade.errors import DataError
from crossfade.pools.training import PoolSettings
from crossfade.pools.weights import POOLINGS

SELECTIONS: Final = ("log_loss", "brier")


class PoolParameters(BaseEstimator):
    """The parameters of a pool."""

    estimators: str | Sequence[Any]
    pooling: str
    weights: str
    selection: str
    cv: Any
    pseudo_count: float
    n_jobs: int | None
    unlabelled: Any
    verbose: bool | Progress

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, with `deep` those of members given in pairs as name__parameter."""
        found: dict[str, Any] = super().get_params(deep=False)
        if deep:
            for name, one in self._given_pairs():
                found[name] = one
                if hasattr(one, "get_params"):
                    own = one.get_params(deep=True)
                    found |= {f"{name}__{key}": value for key, value in own.items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters, members by their names, and members' own by name__parameter."""
        if "estimators" in params:
            self.estimators = params.pop("estimators")
        new = {name: params.pop(name) for name, _ in self._given_pairs() if name in params}
        if new:
            # The list that was given stays the user's.
            self.estimators = [
                (one[0], new[one[0]]) if _is_pair(one) and one[0] in new else one
                for one in self.estimators
            ]
        super().set_params(**params)
        return self

    def _given_pairs(self) -> list[tuple[str, Any]]:
        if isinstance(self.estimators, str) or not isinstance(self.estimators, Iterable):
            return []
        return [(one[0], one[1]) for one in self.estimators if _is_pair(one)]

    def _settings(self) -> PoolSettings:
        """Refuse arguments that no data could make sense of; return what they come to."""
        if self.pooling != "best" and self.pooling not in POOLINGS:
            raise DataError(
                f"pooling: expected 'best', {', '.join(map(repr, POOLINGS))}, got "
                f"{self.pooling!r}; 'best' takes the better by cross-fitted loss"
            )
        remedy = "'shared' is one weight for each member"
        check_choice("weights", self.weights, ("shared", "by_class"), remedy)
        if self.weights == "by_class" and self.pooling == "linear":
            raise DataError(
                "weights: expected 'shared' with pooling='linear', got 'by_class'; a mixture has "
                "one weight for each member: choose pooling='logarithmic' or 'best'"
            )
        remedy = "name a loss that weights can minimise"
        check_choice("selection", self.selection, SELECTIONS, remedy)
        check_marker(self.unlabelled)
        if not isinstance(self.verbose, bool | int) and not callable(self.verbose):
            raise DataError(
                f"verbose: expected True, False or what is called with (done, total, text), got "
                f"{self.verbose!r}; True says on stderr what is being fitted"
            )
        check_number("pseudo_count", self.pseudo_count, above=0.0, remedy="1 is the default")
        if isinstance(self.cv, Real):
            check_number("cv", self.cv, 2, "5 folds are the default", whole=True)
        elif self.cv != "prefit" if isinstance(self.cv, str) else not _has_splits(self.cv):
            raise DataError(
                f"cv: expected a number of folds, 'prefit' or a splitter, got {self.cv!r}; 5 is "
                "the default"
            )
        return PoolSettings(
            self.cv,
            tuple(POOLINGS) if self.pooling == "best" else (self.pooling,),
            self.selection,
            self.weights == "by_class",
            self.pseudo_count,
            self.n_jobs,
        )


def _has_splits(cv: Any) -> bool:
    return not isinstance(cv, type) and (hasattr(cv, "split") or isinstance(cv, Iterable))


def _is_pair(one: Any) -> bool:
    return isinstance(one, (tuple, list)) and len(one) == 2 and isinstance(one[0], str)
