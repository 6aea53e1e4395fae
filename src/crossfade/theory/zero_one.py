"""The linear classifier of least training error: Ng and Jordan's third criterion."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from crossfade._checks import check_number
from crossfade._fitting import whole_or_not_at_all
from crossfade._typing import Floats
from crossfade.classifiers.naive_bayes import NaiveBayes
from crossfade.errors import ConvergenceWarning, DataError, SeparationWarning
from crossfade.table import encode_labels
from crossfade.table.scored import ScoredClassifier

#: Penalties of the logistic regressions that searches start from, besides none.
_PENALTIES = (0.01, 1.0, 100.0)

#: Sweeps over all directions at most, in one search.
_SWEEPS = 50


class ZeroOneLinearClassifier(ScoredClassifier, BaseEstimator):
    """A linear classifier of two classes with as few training errors as can be found.

    The number of errors is a step function of the weights; to find its least value is NP-hard. The
    search starts at the logistic solutions (without penalty and with three) and moves along one
    direction at a time to the exact best point on it: the errors change only at the points where a
    row's score is zero, so that sorting these gives the number at every point. Directions are the
    columns, the intercept and random ones, until a sweep over all of them gains nothing; then it
    starts again from the best point found, disturbed. Of logistic solutions with as few errors the
    most penalised is taken: where rows are separable its weights are the best determined.

    Parameters
    ----------
    n_restarts : int, default=5
        Searches from disturbed points.
    random_state : int, default=0
        Of directions and disturbances.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    coef_ : ndarray of shape (1, n_features)
        In the columns' own units.
    intercept_ : ndarray of shape (1,)
    start_error_ : float
        Training error of the unpenalised logistic solution.
    training_error_ : float
        Never more than that; 0 where a hyperplane separates the classes, since a logistic loss
        below log 2 leaves no row on the wrong side.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has names.

    References
    ----------
    Ng, A. Y. and Jordan, M. I. (2001). On discriminative vs. generative classifiers. NIPS 14.
    Nguyen, T. and Sanner, S. (2013). Algorithms for direct 0-1 loss optimization in binary
    classification. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade.theory import ZeroOneLinearClassifier
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0], [50.0]])
    >>> y = np.array([0, 0, 1, 1, 0])
    >>> ZeroOneLinearClassifier().fit(X, y).training_error_
    0.2
    """

    def __init__(self, *, n_restarts: int = 5, random_state: int = 0) -> None:
        self.n_restarts = n_restarts
        self.random_state = random_state

    @whole_or_not_at_all
    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Numbers, none missing. Not changed.
        y : array-like of shape (n_samples,)
            Two different labels.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If there are not two classes, or a parameter makes no sense.
        """
        check_number("n_restarts", self.n_restarts, 0.0, "5 is the default")
        matrix = validate_data(self, X, dtype=np.float64)
        self.classes_, codes = encode_labels(y, n_samples=matrix.shape[0])
        if self.classes_.size != 2:
            raise DataError(
                f"y: expected two classes, got {self.classes_.size}; Only binary classification is "
                "supported. Fit one classifier per pair of classes"
            )
        centre = matrix.mean(axis=0)
        scale = matrix.std(axis=0)
        scale = np.where(scale > 1e-12 * np.abs(centre), scale, 1.0)
        design = np.column_stack([(matrix - centre) / scale, np.ones(matrix.shape[0])])
        sign = np.where(codes == 1, 1.0, -1.0)
        starts = [_logistic(design, codes, l2) for l2 in (0.0, *_PENALTIES)]
        self.start_error_ = _errors(design @ starts[0], sign) / sign.size
        best, errors = _search_all(
            design, sign, starts, int(self.n_restarts), np.random.default_rng(self.random_state)
        )
        self.training_error_ = errors / sign.size
        coefficients = best[:-1] / scale
        self.coef_ = coefficients[None]
        self.intercept_ = np.array([best[-1] - coefficients @ centre])
        return self

    def decision_function(self, X: Any) -> Floats:
        """Return scores, positive for the second class, shape (n_samples,)."""
        check_is_fitted(self)
        matrix = validate_data(self, X, reset=False, dtype=np.float64)
        return matrix @ self.coef_[0] + self.intercept_[0]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row, shape (n_samples,)."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0.0).astype(np.int64)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _logistic(design: Floats, codes: NDArray[np.int64], l2: float) -> Floats:
    """Return the weights of a logistic regression, the intercept last."""
    model = NaiveBayes("gaussian", tradeoff=0, shared_variance=True, l2=l2)
    with warnings.catch_warnings():
        # Separated classes are what is hoped for here.
        warnings.simplefilter("ignore", SeparationWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(design[:, :-1], codes)
    return np.append(model.coef_[0], model.intercept_[0])


def _errors(scores: Floats, sign: Floats) -> int:
    """Return how many rows are on the wrong side; a score of 0 counts for the first class."""
    return int(np.count_nonzero((scores > 0.0) != (sign > 0.0)))


def _search_all(
    design: Floats, sign: Floats, starts: list[Floats], n_restarts: int, rng: np.random.Generator
) -> tuple[Floats, int]:
    """Return the best weights of searches from all starts and restarts, and their errors."""
    counts = [_errors(design @ start, sign) for start in starts]
    least = min(counts)
    best = [start for start, errors in zip(starts, counts, strict=True) if errors == least][-1]
    for start in starts:
        if least == 0:
            break
        found, errors = _search(design, sign, start, rng)
        if errors < least:
            best, least = found, errors
    for _ in range(n_restarts):
        if least == 0:
            break
        size = float(np.linalg.norm(best)) or 1.0
        disturbed = best + size * 0.5 * rng.normal(size=best.size) / np.sqrt(best.size)
        found, errors = _search(design, sign, disturbed, rng)
        if errors < least:
            best, least = found, errors
    return best, least


def _search(
    design: Floats, sign: Floats, start: Floats, rng: np.random.Generator
) -> tuple[Floats, int]:
    """Move along columns and random directions until none of them lowers the errors."""
    weights = start.copy()
    scores = design @ weights
    least = _errors(scores, sign)
    n_directions = weights.size
    for _ in range(_SWEEPS):
        before = least
        random = rng.normal(size=(n_directions, n_directions))
        for number in range(2 * n_directions):
            if number < n_directions:
                direction = np.zeros(n_directions)
                direction[number] = 1.0
                along = design[:, number]
            else:
                direction = random[number - n_directions]
                along = design @ direction
            step, errors = _best_step(scores, along, sign)
            if errors >= least:
                continue
            moved = weights + step * direction
            moved_scores = design @ moved
            # What counts is the number at the weights as they are, rounding and all.
            actual = _errors(moved_scores, sign)
            if actual < least:
                weights, scores, least = moved, moved_scores, actual
            if least == 0:
                return weights, 0
        if least == before:
            break
    return weights, least


def _best_step(scores: Floats, along: Floats, sign: Floats) -> tuple[float, int]:
    """Return the step along a direction with the fewest errors, and their number.

    A row whose score rises along the direction becomes positive at its breakpoint, one whose score
    falls becomes negative: the errors between two breakpoints are a running sum.
    """
    moves = np.abs(along) > 1e-12
    if not moves.any():
        return 0.0, _errors(scores, sign)
    points = -scores[moves] / along[moves]
    order = np.argsort(points)
    points = points[order]
    # Left of all breakpoints a row has the sign of -along.
    rises = along[moves][order] > 0.0
    wrong_at_first = rises == (sign[moves][order] > 0.0)
    fixed = _errors(scores[~moves], sign[~moves])
    change = np.where(wrong_at_first, -1, 1)
    counts = fixed + int(wrong_at_first.sum()) + np.concatenate([[0], np.cumsum(change)])
    # Intervals between equal breakpoints do not exist.
    widths = np.concatenate([[np.inf], np.diff(points), [np.inf]])
    counts = np.where(widths > 0.0, counts, sign.size + 1)
    least = int(counts.min())
    candidates = np.flatnonzero(counts == least)
    at = int(candidates[np.argmax(widths[candidates])])
    spread = max(float(points[-1] - points[0]), 1.0)
    if at == 0:
        return float(points[0] - 0.1 * spread), least
    if at == points.size:
        return float(points[-1] + 0.1 * spread), least
    return float(0.5 * (points[at - 1] + points[at])), least
