"""A classifier's score, which is of rows with a label alone."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import _num_samples

from crossfade._checks import show
from crossfade.errors import DataError
from crossfade.table.labels import without_label


def check_scored(y: Any, unlabelled: Any = None) -> None:
    """Refuse rows without a label: a missing one, or this value."""
    for marker in ("missing", unlabelled):
        absent = 0 if marker is None else int(without_label(y, marker).sum())
        if absent:
            what = "" if marker == "missing" else f" (unlabelled={show(marker)})"
            raise DataError(
                f"y: expected a label in every row that is scored, got {absent} of "
                f"{_num_samples(y)} rows without one{what}; leave out rows without a label"
            )


class ScoredClassifier(ClassifierMixin):
    """Scikit-learn's classifiers, but that a score refuses rows without a label in words."""

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of rows whose most probable class is their label.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        float

        Raises
        ------
        DataError
            If rows lack a label: a missing one, or the value that `unlabelled` gives for none.
        """
        check_scored(y, getattr(self, "unlabelled", None))
        return float(super().score(X, y, sample_weight))


class TableClassifier(ScoredClassifier):
    """A classifier of tables as they are: with missing cells, categories and text."""

    _takes_sparse = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.sparse = self._takes_sparse
        return tags
