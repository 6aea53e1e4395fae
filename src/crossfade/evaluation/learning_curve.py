"""``learning_curve``: models on nested training sets, over many random splits."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone

from crossfade._checks import check_number
from crossfade.errors import DataError
from crossfade.evaluation.column_notes import column_notes
from crossfade.evaluation.evaluation import Evaluator
from crossfade.evaluation.inputs import check_models, read_table
from crossfade.evaluation.result import LearningCurve
from crossfade.evaluation.run import CurveRun
from crossfade.evaluation.sequences import are_sequences, read_sequences
from crossfade.evaluation.splits import (
    Split,
    curve_sizes,
    random_splits,
    repeated_splits,
    training_rows,
)
from crossfade.evaluation.tracing import Tracer, row_tracers, sequence_tracers

#: Sizes of train_sizes="log".
_LOG_SIZES = 12


def learning_curve(
    X: Any,
    y: Any,
    *,
    models: Mapping[str, Any],
    train_sizes: str | Iterable[float] = "log",
    n_splits: int = 100,
    train_size: float | int = 0.8,
    random_state: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> LearningCurve:
    """Fit models on nested training sets of rising size, on many random splits.

    All models see the same splits. Within a split the rows of a smaller training set are in every
    larger one; each set holds every class, in proportions as close to those of all rows as whole
    rows allow. Labels are those of the whole `y`.

    Parameters
    ----------
    X : data frame or array-like of shape (n_samples, n_features), or list of sequences
        Not changed. With a list of sequences, sizes count sequences and scores are of steps.
    y : array-like of shape (n_samples,), or list of sequences of labels
        Labels; rows without one are left out.
    models : mapping of str to estimator
        Any scikit-learn classifiers, unfitted; they are cloned, not changed. A `random_state` left
        None is filled in from the seed. Scores of a fit that fails are missing, and the result's
        notes tell why.
    train_sizes : "log", or numbers, default="log"
        Counts of training rows; or, as in scikit-learn, fractions of the training part, numbers in
        (0, 1], 1.0 being all of it; "log" is 12 sizes from about 5 rows per class to the whole
        training part, evenly spaced in their logarithm.
    n_splits : int, default=100
    train_size : float or int, default=0.8
        The training part of a split: a fraction of the rows, or a number of rows.
    random_state : int, default=0
        Seed; the same seed gives the same numbers, whatever the number of threads. Split j is the
        same in a run of more splits.
    checkpoint : path, optional
        A file that finished splits are written to. A run that was stopped or killed continues from
        it when called again, and gives the numbers that one run would have given.
    progress : callable, optional
        Called as ``progress(done, total, text)`` as splits are finished.

    Returns
    -------
    LearningCurve
        If interrupted (Ctrl-C) after a split or more, what is done so far, with
        ``complete=False``.

    Raises
    ------
    DataError
        If the data or a setting cannot be used, no model can be fitted, or the checkpoint is of
        another run (or of models that cannot be told apart, since they cannot be pickled).

    Notes
    -----
    Naive Bayes of this library at λ = 1, and its classifiers at λ = 0 whose posterior is linear in
    single columns, run in one compiled loop over all sizes of a split, splits being shared out to
    all cores: running sums of sufficient statistics at λ = 1, and Newton's method from the optimum
    of the size before at λ = 0. The library's other classifiers add up sums, or start at the
    optimum of the size before. What kind a column is, is for all of these decided on all rows;
    its categories are those of the training rows of each size. Other estimators are cloned and
    fitted at every size.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from crossfade import NaiveBayes, learning_curve
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> models = {
    ...     "generative": NaiveBayes(tradeoff=1, shared_variance=True),
    ...     "discriminative": NaiveBayes(tradeoff=0, shared_variance=True),
    ... }
    >>> curve = learning_curve(X, y, models=models, train_sizes=[10, 40, 160, 400], n_splits=20)
    >>> curve.frame().shape
    (160, 6)
    """
    _check_models(models)
    check_number("n_splits", n_splits, 1, "100 is the default", whole=True)
    check_number("random_state", random_state, 0, "use for example 0", whole=True)
    settings = _Settings(train_sizes, n_splits, train_size, random_state)
    read = _plan_sequences if are_sequences(y) else _plan_rows
    plan = read(models, X, y, settings)
    run = CurveRun(
        tracers=plan.tracers,
        splits=plan.splits,
        sizes=plan.sizes,
        evaluator=plan.evaluator,
        progress=progress,
    )
    if checkpoint is not None:
        run.open(Path(checkpoint), _fingerprint(models, plan, random_state))
    first = plan.splits[0]
    curve = run.result(
        n_train=first.train.size,
        n_test=first.test.size,
        seed=random_state,
        unit=plan.unit,
        notes=plan.notes,
    )
    _refuse_hopeless(curve, run)
    return curve


def _refuse_hopeless(curve: LearningCurve, run: CurveRun) -> None:
    """Raise a DataError where no model could be fitted anywhere: there is no result to return."""
    if any(np.isfinite(curve.scores[name]["error"]).any() for name in curve.models):
        return
    times, reason = run.counts.failures[curve.models[0]]
    raise DataError(
        f"models: expected one that fits some training set, but all {times} fits of "
        f"{curve.models[0]!r} failed{' as all others did' * (len(curve.models) > 1)}: {reason}; "
        "correct the table or the models' parameters"
    )


@dataclass(frozen=True)
class _Settings:
    """How splits and sizes are asked for."""

    train_sizes: Any
    n_splits: int
    train_size: float | int
    random_state: int


@dataclass(frozen=True)
class _Plan:
    """What is to be traced; `data` is what tells one data set from another."""

    tracers: Mapping[str, Tracer]
    splits: list[Split]
    sizes: tuple[int, ...]
    evaluator: Evaluator
    data: Any
    unit: str
    notes: tuple[str, ...] = ()


def _plan_rows(models: Mapping[str, Any], X: Any, y: Any, settings: _Settings) -> _Plan:
    table = read_table(X, y)
    evaluator, schema, seed = table.evaluator, table.schema, settings.random_state
    n_classes = evaluator.classes.size
    n_train = training_rows(settings.train_size, len(evaluator.y), n_classes)
    splits = repeated_splits(
        evaluator.codes, n_splits=settings.n_splits, n_train=n_train, random_state=seed
    )
    encoded = schema.encode(table.columns)
    rows = "1 row" if table.n_dropped == 1 else f"{table.n_dropped:,} rows"
    unlabelled = (f"{rows} without a label left out.",) if table.n_dropped else ()
    return _Plan(
        tracers=row_tracers(models, table, seed),
        splits=list(splits),
        sizes=_sizes(settings.train_sizes, n_train, n_classes),
        evaluator=evaluator,
        data=(
            encoded,
            schema.names,
            schema.kinds,
            schema.categories,
            evaluator.codes,
            evaluator.classes.tolist(),
        ),
        unit="rows",
        notes=(*unlabelled, *table.notes, *column_notes(table, encoded)),
    )


def _plan_sequences(models: Mapping[str, Any], X: Any, y: Any, settings: _Settings) -> _Plan:
    evaluator = read_sequences(X, y)
    n_train = training_rows(settings.train_size, len(evaluator.y), 1)
    splits = random_splits(
        len(evaluator.y),
        n_splits=settings.n_splits,
        n_train=n_train,
        random_state=settings.random_state,
    )
    return _Plan(
        tracers=sequence_tracers(models, evaluator, settings.random_state),
        splits=list(splits),
        sizes=_sizes(settings.train_sizes, n_train, 1),
        evaluator=evaluator,
        data=(evaluator.X, evaluator.codes, evaluator.offsets, evaluator.classes.tolist()),
        unit="sequences",
    )


def _check_models(models: Any) -> None:
    if not isinstance(models, Mapping) or not models:
        raise DataError(
            f"models: expected a mapping of names to estimators, got {models!r}; "
            'give for example {"naive Bayes": NaiveBayes(tradeoff=1)}'
        )
    check_models(models)


def _sizes(train_sizes: Any, n_train: int, n_classes: int) -> tuple[int, ...]:
    """Return the training sizes, ascending, each once."""
    if isinstance(train_sizes, str):
        if train_sizes != "log":
            raise _bad_sizes(train_sizes, n_train, n_classes)
        return curve_sizes(n_train, n_classes, _LOG_SIZES)
    listed = list(train_sizes) if isinstance(train_sizes, Iterable) else [None]
    numbers = [
        size
        for size in listed
        if isinstance(size, (int, float, np.integer, np.floating)) and not isinstance(size, bool)
    ]
    given = np.asarray(numbers, dtype=np.float64)
    if len(numbers) < len(listed) or not numbers or not np.isfinite(given).all():
        raise _bad_sizes(train_sizes, n_train, n_classes)
    whole = all(isinstance(size, (int, np.integer)) for size in numbers)
    if not whole and (given <= 1.0).all() and (given > 0.0).all():
        given = np.maximum(np.floor(given * n_train + 1e-9), n_classes)
    if (given != np.floor(given)).any() or given.min() < n_classes or given.max() > n_train:
        raise _bad_sizes(train_sizes, n_train, n_classes)
    return tuple(np.unique(given).astype(int).tolist())


def _bad_sizes(got: Any, n_train: int, n_classes: int) -> DataError:
    return DataError(
        f"train_sizes: expected 'log', counts from {n_classes} (one row per class) to {n_train} "
        f"(the training part), or fractions of it in (0, 1], got {got!r}; raise train_size for "
        "more training rows"
    )


def _fingerprint(models: Mapping[str, Any], plan: _Plan, random_state: int) -> dict[str, str]:
    """Return what tells one run from another, by what it is called in messages."""
    from crossfade import __version__

    told_apart = {}
    for name, model in models.items():
        try:
            told_apart[name] = joblib.hash(clone(model))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise DataError(
                "checkpoint: expected models that can be pickled, so that the file of another run "
                f"is known, got {name!r}, which cannot; replace what is defined locally, such "
                "as a lambda, by a function of a module, or leave checkpoint out"
            ) from error
    return {
        "data": joblib.hash(plan.data),
        "models": joblib.hash(list(told_apart.items())),
        "sizes": joblib.hash((plan.sizes, plan.splits[0].train.size)),
        "seed": str(random_state),
        "version": __version__,
    }
