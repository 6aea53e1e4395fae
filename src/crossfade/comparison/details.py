"""The evidence behind a comparison: path, view, weights, calibration, of its best models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import scipy.sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.pipeline import Pipeline

from crossfade._typing import Floats, Integers
from crossfade.blocks import MANY_ROWS
from crossfade.classifiers.base import TradeoffClassifier
from crossfade.comparison.calibration import calibrate, costs_by_threshold, rank
from crossfade.comparison.effects import Probes, jackknife, make_probes, weights, word_weights
from crossfade.comparison.models import ModelFamily
from crossfade.comparison.plane import (
    agreement,
    class_scores,
    discriminant_plane,
    posterior_surface,
)
from crossfade.errors import DataError
from crossfade.evaluation.evaluation import Evaluator, Failure, fitted_tradeoff
from crossfade.evaluation.splits import Split, repeated_splits
from crossfade.evidence.details import DensityFit, Details, View, Weights, WordWeight
from crossfade.processes import map_in_order
from crossfade.table.preparation import WithWords
from crossfade.table.schema import Schema

#: Directions of words among which the view is looked for.
_WORD_DIRECTIONS: Final = 50

#: The λ that a reader can move to: more than a choice is made among, and finer towards both ends.
TRADEOFFS: Final = (1.0, 0.99, 0.95, 0.9, 0.75, 0.5, 0.25, 0.1, 0.05, 0.01, 0.0)

#: Rows that the evidence is computed on; of more, a stratified sample.
_MOST_ROWS: Final = 20_000

#: Rows that the two-dimensional view is found from, and rows of it that are shown.
_VIEW_ROWS: Final = 2_000
_SHOWN_ROWS: Final = 400

#: Splits that the two ends and the best model are fitted on once more.
_MOST_SPLITS: Final = 20


@dataclass(frozen=True)
class Subject:
    """Of what the details are wanted.

    `best`: The best model's name, and itself, unfitted.
    `ends`: The family's generative and discriminative end, in this order; empty without a family.
    `automatic`: The family's member that chose its λ, fitted on all rows, or None.
    `posteriors`: Of the test rows of the comparison's first splits, by model, where they were kept.
    """

    evaluator: Evaluator
    schema: Schema
    best: tuple[str, Any]
    ends: Mapping[str, Any]
    family: ModelFamily | None
    automatic: Any
    n_splits: int
    n_train: int
    random_state: int
    posteriors: Mapping[str, list[Floats]]


def keeps_posteriors(n_rows: int, split: int) -> bool:
    """Return whether :func:`find_details` will want the posteriors of this split's test rows."""
    return n_rows <= _MOST_ROWS and split < _MOST_SPLITS


def count_steps(n_splits: int) -> int:
    """Return how often :func:`find_details` will report a step."""
    return 1 + min(n_splits, _MOST_SPLITS)


def find_details(subject: Subject, step: Callable[[str], None]) -> Iterator[Details]:
    """Fit the best models once more and look at them closely; yield what is found so far.

    Interrupted, it yields what is finished by then and ends as it was told to.
    """
    sample, splits = _sampled(subject)
    evaluator, rows = subject.evaluator, np.sort(sample)
    ratio = splits[0].ratio
    found = _empty(subject, len(rows))
    if (known := _known(subject, splits)) is not None:
        found = _with_splits(found, subject, known, ratio, None, [])
        yield found
    probes = make_probes(evaluator.rows(rows), subject.schema, evaluator.codes[rows])
    path = _fit_path(subject, rows)
    notes = [] if isinstance(path, list) or path is None else [path.reason]
    fits = path if isinstance(path, list) else []
    along = [_weights(evaluator, probes, fitted) for fitted in fits] if probes else []
    automatic = subject.automatic
    if automatic is None and subject.family is not None:
        automatic = evaluator.fit("tradeoff", subject.family.at("auto"), rows)
    chosen = _fitted_path(automatic)
    found = replace(
        found,
        tradeoffs=TRADEOFFS if fits else (),
        path=chosen[0] if chosen else None,
        chosen=chosen[1] if chosen else None,
        method=chosen[2] if chosen else None,
        view=_view(subject, rows, fits) if fits else None,
        words=_words(evaluator, automatic, rows) if subject.schema.reads_words else (),
        notes=tuple(notes),
    )
    step("path")
    yield found
    found = replace(found, densities=_density_fits(subject, rows))
    yield found
    seen = _over_splits(subject, splits, probes, step)
    if seen.truths:
        yield _with_splits(found, subject, seen, ratio, probes, along)
    if seen.stopped is not None:
        raise seen.stopped


def _empty(subject: Subject, n_rows: int) -> Details:
    """Return details of which nothing is known yet."""
    return Details(
        n_rows=n_rows,
        n_splits=0,
        family=subject.family.label if subject.family else None,
        assumption=_assumption(subject.family),
        tradeoffs=(),
        path=None,
        chosen=None,
        method=None,
        view=None,
        weights=None,
        words=(),
        calibration={},
        ranking={},
        thresholds={},
        densities=(),
        notes=(),
    )


def _known(subject: Subject, splits: list[Split]) -> _OverSplits | None:
    """Return what the comparison's own fits tell of the models, None where some are not kept."""
    names = dict.fromkeys((subject.best[0], *subject.ends))
    kept = {name: subject.posteriors.get(name, [])[: len(splits)] for name in names}
    if any(len(every) < len(splits) for every in kept.values()):
        return None
    truths = [subject.evaluator.codes[split.test] for split in splits]
    return _OverSplits(truths, kept, {}, None, None)


def _with_splits(
    found: Details,
    subject: Subject,
    seen: _OverSplits,
    ratio: float,
    probes: Probes | None,
    along: list[Floats],
) -> Details:
    """Return the details with what splits tell."""
    evaluator = subject.evaluator
    errors = seen.standard_errors(subject.ends, ratio)
    notes = [errors] if along and isinstance(errors, str) else []
    found = replace(
        found,
        weights=Weights(probes.bars, np.stack(along), *errors)
        if probes and along and not isinstance(errors, str)
        else None,
        notes=tuple(dict.fromkeys([*found.notes, *notes])),
    )
    if len(seen.truths) < found.n_splits:  # the comparison's own fits tell more
        return found
    of_second = {}
    if len(evaluator.classes) == 2:
        of_second = {name: [p[:, 1] for p in every] for name, every in seen.posteriors.items()}
    return replace(
        found,
        n_splits=len(seen.truths),
        calibration={
            name: calibrate(posteriors, seen.truths, ratio)
            for name, posteriors in seen.posteriors.items()
        },
        ranking={name: rank(scores, seen.truths, ratio) for name, scores in of_second.items()},
        thresholds={
            name: costs_by_threshold(scores, seen.truths, evaluator.costs, ratio)
            for name, scores in of_second.items()
        },
    )


def _sampled(subject: Subject) -> tuple[Integers, list[Split]]:
    """Return the rows that are looked at and splits of them.

    With all rows they are the comparison's first splits.
    """
    codes = subject.evaluator.codes
    n, n_splits = len(codes), min(subject.n_splits, _MOST_SPLITS)
    if n <= _MOST_ROWS:
        sample, n_train = np.arange(n), subject.n_train
    else:
        sample = np.sort(_stratified(codes, _MOST_ROWS, subject.random_state))
        # A split needs two rows of a class.
        sample = sample[np.bincount(codes[sample])[codes[sample]] > 1]
        n_train = round(subject.n_train / n * len(sample))
    splits = repeated_splits(
        _consecutive(codes[sample]),
        n_splits=n_splits,
        n_train=n_train,
        random_state=subject.random_state,
    )
    return sample, [Split(sample[s.train], sample[s.test]) for s in splits]


def _stratified(codes: Integers, size: int, random_state: int) -> Integers:
    """Return so many row numbers, with the classes in the shares they have."""
    split = repeated_splits(
        _consecutive(codes), n_splits=1, n_train=size, random_state=random_state
    )
    return next(iter(split)).train


def _consecutive(codes: Integers) -> Integers:
    return np.unique(codes, return_inverse=True)[1]


def _fit_path(subject: Subject, rows: Integers) -> list[Any] | Failure | None:
    """Return the family's fits down the path, the first failure, or None without a family."""
    if subject.family is None:
        return None
    fits = []
    for tradeoff in TRADEOFFS:
        fitted = subject.evaluator.fit("path", subject.family.at(tradeoff), rows)
        if isinstance(fitted, Failure):
            return Failure(f"No view along λ: the fit at λ = {tradeoff:g} failed: {fitted.reason}")
        fits.append(fitted)
    return fits


def _fitted_path(model: Any) -> tuple[Mapping[str, Any], float, str] | None:
    """Return the path that a fitted model chose on, its choice, and where the losses are from."""
    last = model[-1] if isinstance(model, Pipeline) else model
    path, chosen = getattr(last, "tradeoff_path_", None), fitted_tradeoff(model)
    if path is None or chosen is None:
        return None
    return path, chosen, str(getattr(last, "selection_", ""))


def _assumption(family: ModelFamily | None) -> str | None:
    if family is None:
        return None
    return "independent" if type(family.model).__name__ == "NaiveBayes" else "density"


def _scores(evaluator: Evaluator, fitted: Any, X: Any) -> Floats:
    columns = evaluator.codes_of(np.asarray(fitted.classes_))
    return class_scores(fitted, X, columns, len(evaluator.classes))


def _weights(evaluator: Evaluator, probes: Probes, fitted: Any) -> Floats:
    return weights(_scores(evaluator, fitted, probes.X), probes)


def _words(evaluator: Evaluator, fitted: Any, rows: Integers) -> tuple[WordWeight, ...]:
    if fitted is None or isinstance(fitted, Failure):
        return ()
    return word_weights(fitted, evaluator.rows(rows), [str(name) for name in fitted.classes_])


def _density_fits(subject: Subject, rows: Integers) -> tuple[DensityFit, ...]:
    """Return how columns fit at the family's generative end."""
    name, model = next(iter(subject.ends.items()), ("", None))
    fitted = None if model is None else subject.evaluator.fit(name, model, rows)
    if not isinstance(fitted, TradeoffClassifier):
        return ()
    found = subject.evaluator.guarded(name, fitted.density_fits)
    if isinstance(found, Failure):
        return ()
    report = {one["column"]: one["density"] for one in getattr(fitted, "density_report_", ())}
    names = fitted.schema_.names
    return tuple(
        DensityFit(
            str(names[one.column]),
            str(fitted.classes_[one.code]),
            report.get(names[one.column], "gaussian"),
            one.n_rows,
            one.shares,
            one.statistic,
            one.p_value,
            one.complaint,
        )
        for one in found
    )


def _numbers(X: Any) -> Floats:
    """Return rows as numbers; of words the leading directions (latent semantic analysis)."""
    prepared = WithWords(drop_first=True).fit_transform(X)
    if not scipy.sparse.issparse(prepared):
        return np.asarray(prepared)
    size = min(_WORD_DIRECTIONS, *(side - 1 for side in prepared.shape))
    return np.asarray(TruncatedSVD(max(size, 1), random_state=0).fit_transform(prepared))


def _view(subject: Subject, rows: Integers, fits: list[Any]) -> View:
    evaluator = subject.evaluator
    codes = evaluator.codes
    if len(rows) > _VIEW_ROWS:
        rows = rows[_stratified(codes[rows], _VIEW_ROWS, subject.random_state)]
    X = evaluator.rows(rows)
    plane = discriminant_plane(_numbers(X), codes[rows])
    scores = [_scores(evaluator, fitted, X) for fitted in fits]
    surfaces = [posterior_surface(plane, s) for s in scores]
    low, high = np.quantile(plane, [0.005, 0.995], axis=0)
    margin = 0.06 * np.where(high > low, high - low, 2.0)
    low, high = low - margin, high + margin
    inside = np.flatnonzero(((plane >= low) & (plane <= high)).all(axis=1))
    # Evenly spread over the rows' own order: classes keep their shares, nearly.
    shown = inside[np.unique(np.linspace(0, len(inside) - 1, _SHOWN_ROWS).round().astype(int))]
    return View(
        np.round(plane[shown], 3),  # as far as can be seen
        codes[rows][shown],
        low,
        high,
        np.stack(surfaces),
        np.array([agreement(plane, f, s) for f, s in zip(surfaces, scores, strict=True)]),
    )


@dataclass(frozen=True)
class _OverSplits:
    """Posteriors of test rows, and weights of the two ends, split by split.

    `failure`: Why a model has none.
    `stopped`: What ended it before the last split.
    """

    truths: list[Integers]
    posteriors: dict[str, list[Floats]]
    weights: dict[str, list[Floats]]
    failure: str | None
    stopped: KeyboardInterrupt | None

    def standard_errors(
        self, ends: Mapping[str, Any], ratio: float
    ) -> tuple[Floats, Floats, Floats, float] | str:
        """Return the standard errors of both ends and of the change, or why there are none."""
        if any(name not in self.weights for name in ends) or len(ends) < 2:
            return f"No weights: {self.failure or 'no model has a tradeoff'}"
        if len(self.truths) < 2:
            return "No weights: how sure they are takes two splits to tell; the run ended before"
        first, second = (self.weights[name] for name in ends)
        change = [b - a for a, b in zip(first, second, strict=True)]
        (e1, half), (e2, _), (e3, _) = (jackknife(v, ratio) for v in (first, second, change))
        return e1, e2, e3, half


def _over_splits(
    subject: Subject, splits: list[Split], probes: Probes | None, step: Callable[[str], None]
) -> _OverSplits:
    evaluator = subject.evaluator
    models = dict([subject.best]) | dict(subject.ends)
    probed = tuple(subject.ends) if probes else ()
    known = {name: kept for name, kept in subject.posteriors.items() if len(kept) >= len(splits)}
    fitted = {name: model for name, model in models.items() if name in probed or name not in known}
    posteriors: dict[str, list[Floats]] = {name: [] for name in models}
    found: dict[str, list[Floats]] = {name: [] for name in probed}
    failure = stopped = None
    truths: list[Integers] = []
    looks = map_in_order(
        partial(_look, evaluator, fitted, probed, probes),
        splits,
        share=len(splits[0].train) < MANY_ROWS,
    )
    try:
        for split, (seen, weighed) in zip(splits, looks, strict=True):
            for kept, answers in ((posteriors, seen), (found, weighed)):
                for name in list(kept):
                    answer = answers.get(name)
                    if answer is None:
                        answer = known[name][len(truths)]
                    if isinstance(answer, Failure):
                        failure = answer.reason
                        del kept[name]
                    else:
                        kept[name].append(answer)
            truths.append(evaluator.codes[split.test])
            step(f"evidence {len(truths)} of {len(splits)}")
    except KeyboardInterrupt as stop:
        stopped = stop
        for kept in (posteriors, found):
            for name, answers_so_far in kept.items():
                kept[name] = answers_so_far[: len(truths)]
    return _OverSplits(truths, posteriors, found, failure, stopped)


def _look(
    evaluator: Evaluator,
    models: Mapping[str, Any],
    probed: tuple[str, ...],
    probes: Probes | None,
    split: Split,
) -> tuple[dict[str, Floats | Failure], dict[str, Floats | Failure]]:
    """Return the models' posteriors of a split's test rows, and the weights of those probed."""
    X_test = evaluator.rows(split.test)
    posteriors: dict[str, Floats | Failure] = {}
    weights: dict[str, Floats | Failure] = {}
    for name, model in models.items():
        fitted = evaluator.fit(name, model, split.train)

        def answer(look: Callable[[Any], Floats], name: str = name, fitted: Any = fitted) -> Any:
            if isinstance(fitted, Failure):
                return fitted
            return evaluator.guarded(name, partial(look, fitted))

        posteriors[name] = answer(partial(_posterior, evaluator, X_test))
        if name in probed and probes is not None:
            weights[name] = answer(partial(_weights, evaluator, probes))
    return posteriors, weights


def _posterior(evaluator: Evaluator, X: Any, fitted: Any) -> Floats:
    posterior = evaluator.predict(fitted, X)[1]
    if posterior is None:
        raise DataError("the model gives no probabilities")
    return posterior
