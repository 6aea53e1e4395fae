"""The main job: which model fits this table, how sure is that, would more labels change it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from crossfade._typing import Progress
from crossfade.blocks import single_threaded_blas
from crossfade.comparison.models import affordable, choose_models, default_models
from crossfade.comparison.problem import check_settings, read_problem
from crossfade.comparison.results import ComparisonResult, Status
from crossfade.comparison.run import Run
from crossfade.comparison.standings import Settings
from crossfade.errors import DataError
from crossfade.evaluation.inputs import check_models
from crossfade.evaluation.scores import EVERY_METRIC, METRICS
from crossfade.evaluation.splits import repeated_splits, training_rows


def compare(
    X: Any,
    y: Any,
    *,
    models: Mapping[str, Any] | Sequence[str] | None = None,
    n_splits: int = 20,
    train_size: float | int = 0.8,
    criterion: str | None = None,
    cost: Any = None,
    random_state: int = 0,
    time_limit: float | None = None,
    stop_early: bool = True,
    evidence: bool = True,
    curve: bool = True,
    progress: Progress | None = None,
    watch: Callable[[Status], None] | None = None,
) -> ComparisonResult:
    """Compare generative, discriminative and in-between classifiers on one table.

    All models are fitted on the same repeated stratified splits, so their differences are paired.
    Standard errors and intervals allow for splits sharing rows (Nadeau and Bengio 2003; see
    :func:`crossfade.evaluation.scores.estimate`). For the best family, nested training sets of
    eight sizes tell where its discriminative end (λ=0) overtakes its generative end (λ=1), and
    what more labelled rows promise.

    Splits are dealt round-robin: each model is fitted on the first split before any is fitted on a
    second one, then the model that took least time so far comes next. By default a model gets no
    further split once that would hardly change whether it can be told apart from the best (see
    :func:`crossfade.comparison.stopping.settled`): models that are clearly worse get five, those
    close to the best up to `n_splits`. Which of several models that cannot be told apart is named
    the best may then be another than after all splits; ``python -m benchmarks --only "stopping
    early"`` says how often. The learning curve and the evidence come after the table; where curves
    are not compiled, the curve has one split for each four of the table, at least four, and of a
    best model that is no end of the family the last size and one about half as large.

    A model that cannot be fitted does not end the comparison: it is listed with the reason.

    Parameters
    ----------
    X : frame or array-like of shape (n_samples, n_features)
        pandas, polars, pyarrow or NumPy; text, categories, booleans, counts and missing cells as
        they are.
    y : array-like of shape (n_samples,)
        Labels of any type, at least two of them. Rows without a label are left out and counted.
    models : mapping of str to estimator, or sequence of str, optional
        Scikit-learn classifiers by name; they are cloned, not changed. Names alone choose from
        the line-up or name classes that can be imported (see
        :func:`~crossfade.comparison.models.choose_models`); the default is
        :func:`~crossfade.comparison.models.default_models`. Models that
        differ in a parameter ``tradeoff`` only (also inside a pipeline) are treated as one family.
    n_splits : int, default=20
        Number of splits, at least 2; with `stop_early` the most that a model gets.
    train_size : float or int, default=0.8
        Training rows of each split, as a fraction or a number; the others are test rows.
    criterion : {"log_loss", "brier", "error", "cost"}, optional
        What decides which model is best: log-loss, or what decisions cost where `cost` is given.
        All are reported.
    cost : pair of float or array-like of shape (n_classes, n_classes), optional
        What decisions cost: ``cost[true, decided]``, classes in the order of their labels; for two
        classes also (false positive, false negative), the second class being the positive one.
        Each row is decided for the class of least expected cost by the model's probabilities.
    random_state : int, default=0
        Seed; the same seed gives the same numbers, whatever the number of threads.
    time_limit : float, optional
        Seconds after which the comparison ends, with what is done by then. The table may take
        three quarters of them, the rest is for what comes after it.
    stop_early : bool, default=True
        Whether models get fewer splits where more would hardly change the verdict. The numbers
        depend on the scores alone, not on the machine's speed.
    evidence : bool, default=True
        Whether to compute what the page shows besides table and learning curve: the path over λ,
        weights of columns, calibration.
    curve : bool, default=True
        Whether to trace the learning curve, without which there is no evidence either.
    progress : callable, optional
        Called as ``progress(done, total, text)`` after each step.
    watch : callable, optional
        Called with a :class:`~crossfade.comparison.results.Status` whenever a fit begins or ends:
        what is being fitted, an estimate of the time left, the table so far.

    Returns
    -------
    ComparisonResult
        With ``.verdict()``, ``.frame()`` and ``.to_dict()``. If the time limit or Ctrl-C ended it
        after a split or more, what is done so far, with ``complete=False``.

    Raises
    ------
    DataError
        If the data or a setting cannot be used, or no model can be fitted.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from crossfade import compare
    >>> X, y = load_iris(return_X_y=True)
    >>> result = compare(X, y, models={"normal": GaussianNB(), "guess": DummyClassifier()})
    >>> result.best, result["guess"].differences["log_loss"].excludes_zero
    ('normal', True)
    """
    started = perf_counter()
    if criterion is None:
        criterion = "log_loss" if cost is None else "cost"
    check_settings(
        n_splits=n_splits,
        criterion=criterion,
        random_state=random_state,
        time_limit=time_limit,
        metrics=METRICS if cost is None else EVERY_METRIC,
    )
    problem = read_problem(X, y, cost)
    n_train = training_rows(train_size, problem.data.n_rows, len(problem.evaluator.classes))
    chosen = _line_up(models)
    if models is None:
        data = problem.data
        chosen, note = affordable(
            chosen, data.column_kinds, len(data.classes), sparse=problem.table.schema.sparse
        )
        problem = problem if note is None else replace(problem, notes=(*problem.notes, note))
    splits = list(
        repeated_splits(
            problem.evaluator.codes, n_splits=n_splits, n_train=n_train, random_state=random_state
        )
    )
    settings = Settings(
        criterion, random_state, stop_early, time_limit, evidence, curve, progress, watch
    )
    # Threads inside BLAS slow small fits down several times, and move the last digits.
    with single_threaded_blas():
        return Run(problem, chosen, splits, settings, started).result()


def _line_up(models: Mapping[str, Any] | Sequence[str] | None) -> dict[str, Any]:
    if models is None:
        return default_models()
    names = not isinstance(models, (str, Mapping)) and isinstance(models, Sequence)
    if names and models and all(isinstance(name, str) for name in models):
        return choose_models(list(models))
    if not isinstance(models, Mapping) or not models:
        raise DataError(
            f"models: expected names, or a mapping of names to estimators, got {models!r}; "
            'give for example ["nb", "svm"] or {"mine": GaussianNB()}'
        )
    check_models(models)
    return dict(models)
