"""Compiled and nested curves give what separate fits of the estimators give."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from crossfade import GaussianDiscriminant, NaiveBayes
from crossfade._compiled import Kernel
from crossfade.evaluation import discriminative_kernels, generative_kernels, newton_kernels
from crossfade.evaluation.compiled import CompiledCurve, compiled_curve
from crossfade.evaluation.inputs import LabelledTable, read_table
from crossfade.evaluation.splits import curve_sizes, repeated_splits
from crossfade.evaluation.tracing import FittedCurve, NestedCurve, row_tracers

KINDS = ("gaussian", "bernoulli", "poisson", "categorical")
OPTIONS = ({"alpha": 0.7317}, {"shared_variance": True, "alpha": 0.31, "l2": 0.1})


def table(kind: str, n_classes: int, seed: int = 0, missing: float = 0.0) -> Any:
    """Return rows of one kind that classes differ in, and labels."""
    rng = np.random.default_rng(seed)
    # Unequal shares: with equal ones classes tie often, and rounding decides.
    y = rng.permutation(np.repeat([0, 1, 2], [50, 25, 15] if n_classes == 3 else [53, 37, 0]))
    shift = 0.4 * y[:, None] * np.array([1.0, -0.5, 0.0])
    if kind == "gaussian":
        X = (1.0 + 0.3 * y[:, None]) * rng.normal(size=(90, 3)) * [1.0, 30.0, 0.01] + shift
    elif kind == "bernoulli":
        X = (rng.normal(size=(90, 3)) + shift > 0).astype(float)
    elif kind == "poisson":
        X = rng.poisson(np.exp(1.0 + shift)).astype(float)
    else:
        X = np.clip(np.floor(2 + rng.normal(size=(90, 3)) + shift), 0, [1, 3, 4])
        X[:90:9, 2] = 4.0
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def curves(model: Any, X: Any, y: Any, n_splits: int = 3) -> tuple[Any, LabelledTable, Any, Any]:
    """Return a model's tracer, and what it needs to trace."""
    read = read_table(X, y)
    codes = read.evaluator.codes
    splits = list(repeated_splits(codes, n_splits=n_splits, n_train=60, random_state=1))
    sizes = np.array(curve_sizes(60, read.evaluator.classes.size, 6))
    return row_tracers({"model": model}, read, 0)["model"], read, splits, sizes


def nested(model: Any, read: LabelledTable) -> NestedCurve:
    what = model.specify(read.columns, read.schema, read.evaluator.classes)
    matrix = what.schema.encode(read.columns)
    return NestedCurve("model", model, what, matrix, read.evaluator)


def same_scores(one: Any, other: Any, splits: Any, sizes: Any, tol: float) -> None:
    for split in splits:
        np.testing.assert_allclose(
            one.trace(split, sizes), other.trace(split, sizes), rtol=tol, atol=tol
        )


@pytest.mark.parametrize("tradeoff", [0.0, 1.0])
@pytest.mark.parametrize(
    ("kind", "n_classes", "options"),
    [
        # Only Gaussians have variances to share.
        (kind, n_classes, options)
        for kind in KINDS
        for n_classes, options in product([2, 3], OPTIONS)
        if kind == "gaussian" or options is OPTIONS[n_classes - 2]
    ],
)
def test_a_compiled_curve_is_that_of_separate_fits(kind, tradeoff, n_classes, options):
    X, y = table(kind, n_classes)
    model = NaiveBayes(kind, tradeoff=tradeoff, var_smoothing=1e-3, **options)
    fast, read, splits, sizes = curves(model, X, y)
    assert isinstance(fast, CompiledCurve)
    same_scores(fast, nested(model, read), splits, sizes, 1e-6 if tradeoff == 0 else 1e-10)
    separate = FittedCurve("model", model, read.evaluator, 0)
    same_scores(fast, separate, splits, sizes, 1e-6 if tradeoff == 0 else 1e-10)


@pytest.mark.parametrize("alpha", [0.0137, 0.7317])
@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("tradeoff", [0.0, 0.5, 1.0])
def test_categories_that_few_rows_have_are_known_once_a_row_has_them(tradeoff, missing, alpha):
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1], [53, 37]))
    X = np.column_stack([np.minimum(rng.geometric(0.15, 90), 30), rng.integers(20, size=90)])
    X = X.astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    model = NaiveBayes("categorical", tradeoff=tradeoff, alpha=alpha)
    curve, read, splits, sizes = curves(model, X, y)
    assert isinstance(curve, CompiledCurve) == (tradeoff == 1 or (tradeoff == 0 and not missing))
    separate = FittedCurve("model", model, read.evaluator, 0)
    same_scores(curve, separate, splits, sizes, 1e-6)
    same_scores(nested(model, read), separate, splits, sizes, 1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_discriminative_fits_do_not_begin_at_the_size_before(kind, n_classes):
    """Of rows that were far on the wrong side there, a hundred Newton steps did not bring back."""
    X, y = table(kind, n_classes)
    curve, _, splits, sizes = curves(NaiveBayes(kind, tradeoff=0, l2=1e-3), X, y)
    assert isinstance(curve, CompiledCurve)
    for split in splits:
        alone = [curve.trace(split, sizes[s : s + 1])[0] for s in range(sizes.size)]
        np.testing.assert_array_equal(curve.trace(split, sizes), alone)


@pytest.mark.parametrize("far", [1e3, 1e6, -1e9])
@pytest.mark.parametrize("tradeoff", [0.0, 1.0])
@pytest.mark.parametrize("shared", [False, True])
def test_far_off_cells_leave_the_fits_to_other_rows_exact(far, tradeoff, shared):
    X, y = table("gaussian", 2)
    X[5, 0] = far
    X[y == 1, 1] += far  # two places far from each other
    model = NaiveBayes("gaussian", tradeoff=tradeoff, shared_variance=shared)
    fast, read, splits, sizes = curves(model, X, y)
    assert isinstance(fast, CompiledCurve)
    same_scores(fast, FittedCurve("model", model, read.evaluator, 0), splits, sizes, 1e-6)


@pytest.mark.parametrize("missing", [0.2, 0.7])
@pytest.mark.parametrize("kind", [*KINDS, "shared"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_missing_cells_are_left_out_at_the_generative_end(kind, n_classes, missing):
    """Where most are missing, small sizes have classes without any cell of a column."""
    shared, kind = kind == "shared", kind.replace("shared", "gaussian")
    X, y = table(kind, n_classes, missing=missing)
    options = {"var_smoothing": 1e-2, "alpha": 0.7317, "shared_variance": shared}
    model = NaiveBayes(kind, tradeoff=1, **options)
    fast, read, splits, sizes = curves(model, X, y)
    assert isinstance(fast, CompiledCurve)
    same_scores(fast, nested(model, read), splits, sizes, 1e-9)
    same_scores(fast, FittedCurve("model", model, read.evaluator, 0), splits, sizes, 1e-9)


@pytest.mark.parametrize("tradeoff", [0.0, 1.0])
@pytest.mark.parametrize("prior", ["uniform", [0.2, 0.3, 0.5]])
def test_a_given_class_prior_is_used(tradeoff, prior):
    X, y = table("gaussian", 3)
    model = NaiveBayes("gaussian", tradeoff=tradeoff, class_prior=prior, shared_variance=True)
    fast, read, splits, sizes = curves(model, X, y)
    same_scores(fast, nested(model, read), splits, sizes, 1e-6)


def test_mixed_columns_of_a_frame():
    import polars as pl

    gaussian, y = table("gaussian", 2)
    levels = table("categorical", 2)[0].astype(int)
    frame = pl.DataFrame(
        {
            "a": gaussian[:, 0],
            "b": np.array(["x", "y", "z", "u", "v"])[levels[:, 2]],
            "c": table("bernoulli", 2)[0][:, 0] > 0,
            "d": gaussian[:, 1],
        }
    )
    for tradeoff in (0.0, 1.0):
        model = NaiveBayes(tradeoff=tradeoff, var_smoothing=1e-3, alpha=0.7317)
        fast, read, splits, sizes = curves(model, frame, y)
        assert isinstance(fast, CompiledCurve)
        same_scores(fast, nested(model, read), splits, sizes, 1e-6)


@pytest.mark.parametrize("standardise", [True, False])
def test_a_shared_covariance_at_the_discriminative_end_is_that_of_separate_fits(standardise):
    X, y = table("gaussian", 3)
    model = GaussianDiscriminant("shared_spherical", tradeoff=0, standardise=standardise)
    fast, read, splits, sizes = curves(model, X, y)
    assert isinstance(fast, CompiledCurve)
    same_scores(fast, FittedCurve("model", model, read.evaluator, 0), splits, sizes, 1e-6)


@pytest.mark.parametrize(
    "model",
    [
        GaussianDiscriminant("full", tradeoff=1),
        GaussianDiscriminant("full", tradeoff=0),
        GaussianDiscriminant("shared", tradeoff=1),
        GaussianDiscriminant("shared", tradeoff=0.3),
        GaussianDiscriminant("shared", tradeoff=1, class_weight="balanced"),
        NaiveBayes("gaussian", tradeoff=0.5),
        NaiveBayes("gaussian", tradeoff=1, selection=[[0, 5], [1, 0]]),
        NaiveBayes("gaussian", tradeoff=1, class_weight={0: 2.0, 1: 1.0}),
    ],
    ids=str,
)
def test_a_nested_curve_is_that_of_separate_fits(model):
    X, y = table("gaussian", 2)
    slow, read, splits, sizes = curves(model, X, y, 2)
    assert isinstance(slow, NestedCurve)
    sizes = sizes[2:]  # next to singular covariances few digits are known
    same_scores(slow, FittedCurve("model", model, read.evaluator, 0), splits, sizes, 1e-6)


@pytest.mark.parametrize("tradeoff", [1, 0.3])
@pytest.mark.parametrize("covariance", ["full", "shared"])
def test_cells_are_filled_in_as_in_separate_fits(covariance, tradeoff):
    """What tells them, how columns go together, is learnt anew from the rows of each size."""
    X, y = table("gaussian", 2, missing=0.2)
    X[:, 1] += 20.0 * np.nan_to_num(X[:, 0])
    model = GaussianDiscriminant(covariance, tradeoff=tradeoff)
    slow, read, splits, sizes = curves(model, X, y, 2)
    assert isinstance(slow, NestedCurve)
    separate = FittedCurve("model", model, read.evaluator, 0)
    same_scores(slow, separate, splits, sizes[2:], 1e-6)


def test_separated_rows_without_a_penalty_end_somewhere():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 2
    X = rng.normal(size=(90, 2)) + 6.0 * y[:, None]
    fast, _, splits, sizes = curves(
        NaiveBayes("gaussian", tradeoff=0, l2=0, shared_variance=True), X, y
    )
    for split in splits:
        scores = fast.trace(split, sizes)
        assert np.isfinite(scores).all()
        assert scores[-1, 2] < 0.1


@pytest.mark.parametrize("tradeoff", [0, 1])
def test_labels_that_may_not_be_written_to_compile_nothing_anew(tradeoff):
    X, y = table("gaussian", 2)
    _, read, (split,), sizes = curves(NaiveBayes("gaussian", tradeoff=tradeoff), X, y, n_splits=1)
    what = NaiveBayes("gaussian", tradeoff=tradeoff).specify(
        read.columns, read.schema, read.evaluator.classes
    )
    for writable in (True, False):
        codes = read.evaluator.codes.copy()
        codes.setflags(write=writable)
        model = NaiveBayes("gaussian", tradeoff=tradeoff)
        curve = compiled_curve(model, what, what.schema.encode(read.columns), codes, 2)
        curve.trace(split, sizes)
    modules = [generative_kernels] if tradeoff else [discriminative_kernels, newton_kernels]
    kernels = [one for module in modules for one in vars(module).values() if type(one) is Kernel]
    compiled = [len(code.signatures) for one in kernels for code in one._code.values()]
    assert set(compiled) == {1}
