"""Features as estimators read them, held against scikit-learn's own estimator checks."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

from crossfade import NaiveBayes
from crossfade.errors import DataError, DomainError, NumeralsWarning
from crossfade.table import (
    Schema,
    check_cells,
    check_finite,
    check_weights,
    encode_labels,
    read_features,
)
from tests.table.tables import CELLS, every_library


class NearestMean(ClassifierMixin, BaseEstimator):
    """The least estimator that uses every function of this room: the nearest class mean."""

    def __init__(self, class_weight: Any = None, handle_unknown: str = "ignore") -> None:
        self.class_weight = class_weight
        self.handle_unknown = handle_unknown

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NearestMean:
        return self._add(X, y, None, sample_weight, first=True)

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> NearestMean:
        first = not hasattr(self, "classes_")
        known = classes if first else self.classes_
        return self._add(X, y, known, sample_weight, first=first)

    def _add(self, X: Any, y: Any, classes: Any, sample_weight: Any, *, first: bool) -> NearestMean:
        matrix, schema = read_features(
            self, X, reset=first, extend=not first, sample_weight=sample_weight if first else None
        )
        self._refuse_infinity(matrix, schema)
        classes, codes = encode_labels(y, classes, n_samples=len(matrix))
        weights = check_weights(sample_weight, len(matrix), self.class_weight, codes, classes)
        rows = np.eye(len(classes))[codes]
        rows *= 1.0 if weights is None else weights[:, None]
        values = np.nan_to_num(matrix)
        sums = (rows.sum(axis=0), rows.T @ values, rows.sum(axis=1) @ values**2)
        self.sums_ = sums if first else tuple(a + b for a, b in zip(self.sums_, sums, strict=True))
        self.classes_ = classes
        return self

    @staticmethod
    def _refuse_infinity(matrix: np.ndarray, schema: Schema) -> None:
        if not np.isfinite(np.nansum(matrix)):
            check_finite(matrix, schema.names if schema.has_names else None)

    def decision_function(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        matrix, schema = read_features(self, X, reset=False, handle_unknown=self.handle_unknown)
        self._refuse_infinity(matrix, schema)
        counts, sums, squares = self.sums_
        seen = np.maximum(counts, 1e-300)
        means = sums / seen[:, None]
        variance = squares / counts.sum() - (counts @ means / counts.sum()) ** 2
        scaled = means / np.maximum(variance, 1e-12)
        scores = np.nan_to_num(matrix) @ scaled.T - (means * scaled).sum(axis=1) / 2 + np.log(seen)
        return scores[:, 1] - scores[:, 0] if len(counts) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        scores = self.decision_function(X)
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


@parametrize_with_checks([NearestMean()])
@pytest.mark.filterwarnings("default::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("library", every_library(CELLS))
def test_fit_sets_the_attributes(library: str) -> None:
    estimator = NearestMean().fit(every_library(CELLS)[library], list("aabba"))
    assert estimator.n_features_in_ == 7
    assert estimator.feature_names_in_.dtype == object
    assert_array_equal(estimator.feature_names_in_, list(CELLS))
    assert estimator.schema_ == Schema.learn(pl.DataFrame(CELLS))
    for frame in every_library(CELLS).values():  # any library predicts, whichever was fitted
        assert_array_equal(
            estimator.decision_function(frame), estimator.decision_function(pl.DataFrame(CELLS))
        )


def test_fit_on_an_array_forgets_the_names() -> None:
    estimator = NearestMean().fit(pd.DataFrame(CELLS), list("aabba"))
    estimator.fit(np.eye(5), list("aabba"))
    assert not hasattr(estimator, "feature_names_in_")
    assert estimator.n_features_in_ == 5
    assert not estimator.schema_.has_names


def test_names_that_come_or_go_are_warned_about() -> None:
    names = list("abcde")
    named, unnamed = pd.DataFrame(np.eye(5), columns=names), np.eye(5)
    with pytest.warns(UserWarning, match="X does not have valid feature names, but NearestMean"):
        NearestMean().fit(named, list("aabba")).predict(unnamed)
    with pytest.warns(UserWarning, match="X has feature names, but NearestMean was fitted witho"):
        NearestMean().fit(unnamed, list("aabba")).predict(named)


@pytest.mark.parametrize(
    ("X", "sentence"),
    [
        (np.eye(4), "X has 4 features, but NearestMean is expecting 5 features as input."),
        (
            pd.DataFrame(np.eye(5), columns=list("abcdf")),
            "The feature names should match those that were passed during fit.\n"
            "Feature names unseen at fit time:\n- f\n",
        ),
        (
            pd.DataFrame(np.eye(7)[:, :7], columns=list("ayzbcde")),
            "The feature names should match those that were passed during fit.\n"
            "Feature names unseen at fit time:\n- y\n- z\n"
            "Leave out 'y', 'z': X.drop(columns=...), or scan(path, drop=...).",
        ),
        (
            pl.DataFrame(np.eye(5), schema=list("edcba")),
            "The feature names should match those that were passed during fit.\n"
            "Feature names must be in the same order as they were in fit.\n"
            "Take them by name: X[list(model.feature_names_in_)].",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_other_columns_are_refused(X: Any, sentence: str) -> None:
    estimator = NearestMean().fit(pd.DataFrame(np.eye(5), columns=list("abcde")), list("aabba"))
    with pytest.raises(DataError, match="^" + re.escape(sentence)):
        estimator.predict(X)


def test_a_failed_fit_leaves_nothing_behind() -> None:
    estimator = NearestMean().fit(np.eye(3), [0, 1, 1])
    before = dict(vars(estimator))
    with pytest.raises(DataError, match="numbers or text"):
        estimator.fit(pd.DataFrame({"when": pd.to_datetime(["2020-01-01"] * 3)}), [0, 1, 1])
    with pytest.raises(DataError, match="sample_weight: expected shape"):
        estimator.fit(np.eye(4), [0, 1, 1, 1], sample_weight=[1, 2])
    assert vars(estimator) == before
    fresh = NearestMean()
    with pytest.raises(DataError, match="none in 2 rows"):
        fresh.fit(np.full((2, 2), np.nan), [0, 1])
    assert vars(fresh) == {"class_weight": None, "handle_unknown": "ignore"}


def test_partial_fit_learns_new_categories() -> None:
    first, second = pl.DataFrame({"c": ["x", "y"]}), pl.DataFrame({"c": ["z", "x"]})
    estimator = NearestMean(handle_unknown="error").partial_fit(first, [0, 1], classes=[0, 1])
    with pytest.raises(DataError, match=r"got 'z' \(1 new, in 1 row\)"):
        estimator.predict(second)
    estimator.partial_fit(second, [0, 1])
    assert estimator.schema_.categories == (("x", "y", "z"),)
    estimator.predict(second)
    with pytest.raises(DataError, match="expected text as in fit"):
        estimator.partial_fit(pl.DataFrame({"c": [1, 2]}), [0, 1])
    assert estimator.schema_.categories == (("x", "y", "z"),)


def test_declared_kinds_and_weights_reach_the_schema() -> None:
    estimator = NearestMean()
    matrix, schema = read_features(
        estimator, np.array([[5.0], [7.0], [9.0]]), reset=True, declared={0: "categorical"},
        sample_weight=[1, 0, 2],
    )  # fmt: skip
    assert schema.categories == ((5.0, 9.0),)
    assert_array_equal(matrix, [[0], [np.nan], [1]])
    assert estimator.schema_ is schema


def test_check_finite_names_the_columns() -> None:
    X = np.ones((5000, 3))
    X[:, 0] = np.nan
    check_finite(X, ["a", "b", "c"])
    X[4000, 1], X[4999, 2], X[0, 2] = np.inf, -np.inf, np.inf
    with pytest.raises(
        DataError,
        match=r"^X: expected finite numbers \(NaN for missing cells\), got infinity \(inf\) in 3 "
        r"cells of columns 'b', 'c'; replace them by numbers, or by NaN where unknown$",
    ):
        check_finite(X, ["a", "b", "c"])
    with pytest.raises(DataError, match=r"in 1 cell of column 1; "):
        check_finite(X[:4999, :2])


@pytest.mark.parametrize("row", [0, 4999])
@pytest.mark.parametrize(
    ("size", "message"),
    [
        (1e160, "expected numbers below 1e+150 in size, got 1e+160; change the unit"),
        (-1e160, "expected numbers below 1e+150 in size, got 1e+160; change the unit"),
        (1e-160, "expected some number of at least 1e-150 in size, got 1e-160; change the unit"),
        (5e-324, "expected some number of at least 1e-150 in size, got 5e-324; change the unit"),
        (np.inf, "expected finite numbers (NaN for missing cells), got infinity"),
    ],
)
def test_sizes_whose_squares_are_no_numbers_are_refused(row: int, size: float, message: str):
    X = np.ones((5000, 3))
    check_cells(X)
    X[:, 1] = [np.nan, 0.0] * 2500
    check_cells(X)  # a column of zeros is no small one
    X[row, 1] = size
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        check_cells(X, ["a", "b", "c"])
    assert "column 'b'" in str(caught.value) or "of column b" in str(caught.value)
    X[row, 1], X[2500, 1] = 1e-160, 1.0
    check_cells(X)  # tiny cells beside ordinary ones are as good as zero


@pytest.mark.parametrize("row", [0, 4999])
def test_every_fit_refuses_columns_that_are_too_small(row: int):
    X = np.zeros((5000, 2))
    X[:, 0] = np.arange(5000)
    X[row, 1], X[2500, 1] = 1e-155, 2e-155  # three different numbers
    y = np.arange(5000) % 2
    with pytest.raises(DomainError, match="column 'x1': expected some number of at least 1e-150"):
        NaiveBayes(tradeoff=1).fit(X, y)


@pytest.mark.parametrize("dtype", [pl.Int128, pl.UInt128])
def test_integers_of_128_bits_are_numbers_and_labels(dtype: Any):
    cells = pl.Series("x", [0, 7, 5, 1], dtype=dtype)
    matrix, _ = read_features(NearestMean(), pl.DataFrame([cells]), reset=True)
    assert_array_equal(matrix[:, 0], [0, 7, 5, 1])
    classes, codes = encode_labels(cells)
    assert_array_equal(classes, [0, 1, 5, 7])
    assert_array_equal(codes, [0, 3, 2, 1])
    huge = pl.Series([10**30, 0], dtype=dtype)
    assert encode_labels(huge)[0].tolist() == [0, 10**30]


def test_nothing_is_copied() -> None:
    X = np.random.default_rng(0).standard_normal((3000, 4))
    X.flags.writeable = False
    matrix, _ = read_features(NearestMean(), X, reset=True)
    assert np.shares_memory(matrix, X)


@pytest.mark.parametrize(
    ("write", "n", "warns"),
    [
        (lambda i: f"{i / 7:.2f}", 60, "is left out, as the name of a row"),
        (lambda i: f"{i % 30 / 7:.2f}", 60, "is a category"),
        (lambda i: f"{i / 7:.2f}".replace(".", ","), 60, "is left out"),
        (lambda i: f"${i}.50" if i % 3 else "n/a", 60, "is a category"),
        (lambda i: f"{i}.5" if i % 5 else "?", 60, "is a category"),
        (lambda i: f"{i % 20 / 7:.2f}", 60, None),  # perhaps levels
        (lambda i: f"{i:05d}", 60, None),
        (lambda i: f"{i + 10}", 60, None),  # a code, perhaps
        (lambda i: f"10.0.{i}.{i}", 60, None),
        (lambda i: f"1.{i}" if i % 3 == 0 else f"v{i}", 60, None),
    ],
)
@pytest.mark.parametrize("library", [pd, pl])
def test_measurements_in_text_are_told(library: Any, write: Any, n: int, warns: str) -> None:
    cells = [write(i) for i in range(n)]
    X, y = library.DataFrame({"x": cells, "z": np.arange(float(n))}), np.arange(n) % 2
    if warns is None:
        NaiveBayes(tradeoff=1).fit(X, y)  # warnings are errors here
        return
    with pytest.warns(NumeralsWarning, match=rf"^X: column 'x': .*each of which {warns}.*; turn"):
        NaiveBayes(tradeoff=1).fit(X, y)
    NaiveBayes({"x": "categorical"}, tradeoff=1).fit(X, y)


def test_an_array_that_numpy_made_text_is_told() -> None:
    X = np.array([[0.5 + i, "ab"[i % 2]] for i in range(30)])
    with pytest.warns(
        NumeralsWarning, match=r"^X: column 0: expected measurements as numbers, got"
    ):
        NaiveBayes(tradeoff=1).fit(X, np.arange(30) % 2)
