"""One comparison under way: fits, the small learning curve, and what they come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any, Final

import numpy as np

from crossfade._typing import Floats, Progress
from crossfade.blocks import MANY_ROWS
from crossfade.classifiers.naive_bayes import BY_TYPE, DENSITY_OF_KIND
from crossfade.comparison.details import (
    Details,
    Subject,
    count_steps,
    find_details,
    keeps_posteriors,
)
from crossfade.comparison.inputs import Problem
from crossfade.comparison.models import Family, families, model_notes, tradeoff_parameter
from crossfade.comparison.results import (
    ComparisonResult,
    EndsResult,
    ModelResult,
    TradeoffChoice,
)
from crossfade.errors import DataError
from crossfade.evaluation.crossing import find_crossing, gain_per_doubling
from crossfade.evaluation.evaluation import (
    Counts,
    Evaluation,
    Evaluator,
    Failure,
    fitted_tradeoff,
)
from crossfade.evaluation.result import LearningCurve
from crossfade.evaluation.run import CurveRun
from crossfade.evaluation.scores import METRICS, Estimate, difference, estimate
from crossfade.evaluation.splits import Split, curve_sizes
from crossfade.evaluation.tracing import KnownEnd, row_tracers
from crossfade.processes import map_in_order

__all__ = ["Progress", "Run"]


#: The learning curve is a summary; so many splits are enough for it, and fewer where the best
#: model's tradeoff is chosen anew at every size.
_CURVE_SPLITS: Final = 20
_CURVE_SPLITS_CHOOSING: Final = 4

#: Rows of the untimed first fit that loads compiled code.
_WARM_ROWS: Final = 600


#: Holds something once this process has loaded the code that fits take.
_warmed: list[bool] = []


@dataclass
class Run:
    """One comparison under way."""

    problem: Problem
    models: dict[str, Any]
    splits: list[Split]
    criterion: str
    random_state: int
    progress: Progress | None
    done: int = 0
    total: int = 0
    results: list[dict[str, Evaluation | Failure]] = field(default_factory=list)
    all_rows: dict[str, Any] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def evaluator(self) -> Evaluator:
        return self.problem.evaluator

    @property
    def ratio(self) -> float:
        """Test rows to training rows, for the corrected standard error."""
        return self.splits[0].ratio

    def result(self, started: float) -> ComparisonResult:
        curve: LearningCurve | None = None
        details: Details | None = None
        groups = families(self.models)
        automatic = [name for name, model in self.models.items() if _asked(model) == "auto"]
        self.total = len(automatic) + len(self.models) * len(self.splits)
        self.total += min(len(self.splits), _CURVE_SPLITS) + count_steps(len(self.splits))
        family: Family | None = None
        try:
            self._fit_all_rows(automatic)
            self._fit_splits()
            best = self._best()
            family = self._best_family(groups)
            curve = self._trace(best, family)
            details = find_details(self._subject(best, family), self._step)
        except KeyboardInterrupt:
            # Half a comparison is worth having once a spread can be told.
            if len(self.results) < 2:
                raise
            self.interrupted = True
            best = self._best()
            family = curve = None
        return self._assemble(best, groups, family, curve, details, perf_counter() - started)

    # -- the work --------------------------------------------------------------------------------

    def _step(self, text: str, done: int | None = None) -> None:
        self.done = self.done + 1 if done is None else done
        if self.progress is not None:
            self.progress(self.done, self.total, text)

    def _fit_all_rows(self, automatic: list[str]) -> None:
        """Load compiled code before anything is timed, and choose tradeoffs on all rows."""
        _warmed.append(True)
        few = self.splits[0].train[:_WARM_ROWS]
        everything = np.arange(self.problem.data.n_rows)
        for name, model in self.models.items():
            if name in automatic:
                fitted = self.evaluator.fit(name, model, everything)
                self.all_rows[name] = None if isinstance(fitted, Failure) else fitted
                self._step(f"{name}, all rows")
            else:
                self.evaluator.fit(name, model, few)
        self.evaluator.counts.warnings.clear()

    def _densities(self) -> tuple[dict[str, str], ...]:
        """Return the columns' densities as the naive Bayes has them that chose most itself."""
        data = self.problem.data
        report = [
            {"column": name, "density": DENSITY_OF_KIND[kind], "reason": BY_TYPE}
            for name, kind in zip(data.column_names, data.column_kinds, strict=True)
        ]
        for fitted in self.all_rows.values():
            own: list[dict[str, str]] = getattr(fitted, "density_report_", report)
            if _n_chosen(own) > _n_chosen(report):
                report = own
        return tuple(report)

    def _fit_splits(self) -> None:
        remaining, n_splits = dict(self.models), len(self.splits)
        # Of many rows a fit's sums use the threads already, and copies of the data are dear.
        share = len(self.splits[0].train) < MANY_ROWS
        work = partial(_fit_split, self.evaluator.afresh(), remaining)

        def here(split: Split) -> tuple[dict[str, Evaluation | Failure], Counts]:
            place = f"split {len(self.results) + 1} of {n_splits}"
            return work(split, step=lambda name: self._step(f"{place}, {name}"))

        before = self.done
        found = map_in_order(work, self.splits, here=here, share=share)
        for number, (every, counts) in enumerate(found, start=1):
            self.evaluator.counts.add(counts)
            results = {name: result for name, result in every.items() if name in remaining}
            if not keeps_posteriors(self.problem.data.n_rows, number - 1):
                results = {name: _without_posterior(found) for name, found in results.items()}
            self.results.append(results)
            before += len(results)
            if self.done != before:
                self._step(f"split {number} of {n_splits}", before)
            for name, result in results.items():
                if isinstance(result, Failure):
                    # One missing split would unpair it from the others: it is out.
                    self.failures[name] = result.reason
                    del remaining[name]
                    self.total -= n_splits - number
            if not remaining:
                first = next(iter(self.failures.items()))
                raise DataError(
                    "models: expected at least one that can be fitted, but all "
                    f"{len(self.failures)} failed; {first[0]}: {first[1]}"
                )

    def _trace(self, best: str, family: Family | None) -> LearningCurve:
        most = _CURVE_SPLITS_CHOOSING if _asked(self.models[best]) == "auto" else _CURVE_SPLITS
        n_curve = min(len(self.splits), most)
        self.total += n_curve - min(len(self.splits), _CURVE_SPLITS)
        models = {best: self.models[best]}
        if family is not None:
            models |= self._ends(family)
        sizes = curve_sizes(len(self.splits[0].train), len(self.evaluator.classes))
        tracers = row_tracers(models, self.problem.table, self.random_state)
        for name in tracers:
            if name in self.models and name not in self.failures:
                scores = self._scores(name)
                at_end = np.column_stack([scores[metric] for metric in METRICS])
                tracers[name] = KnownEnd(tracers[name], at_end)
        before = self.done
        run = CurveRun(
            tracers=tracers,
            splits=self.splits[:n_curve],
            sizes=sizes,
            evaluator=self.evaluator,
            progress=lambda done, total, text: self._step("learning curve", before + done),
        )
        split = self.splits[0]
        curve = run.result(n_train=len(split.train), n_test=len(split.test), seed=self.random_state)
        if not curve.complete:
            raise KeyboardInterrupt
        return curve

    def _ends(self, family: Family) -> dict[str, Any]:
        """Return the family's generative and discriminative fit, in this order, by name."""
        ends: dict[str, Any] = {}
        for word, tradeoff in (("generative", 1.0), ("discriminative", 0.0)):
            member = next((m for m in family.members if _asked(self.models[m]) == tradeoff), None)
            if member is not None and member not in self.failures:
                ends[member] = self.models[member]
            else:
                ends[f"{family.label}, {word} end"] = family.at(tradeoff)
        return ends

    def _subject(self, best: str, family: Family | None) -> Subject:
        members = family.members if family is not None else ()
        automatic = (self.all_rows.get(name) for name in members if name not in self.failures)
        return Subject(
            evaluator=self.evaluator.afresh(),
            schema=self.problem.table.schema,
            best=(best, self.models[best]),
            ends={} if family is None else self._ends(family),
            family=family,
            automatic=next((fitted for fitted in automatic if fitted is not None), None),
            n_splits=len(self.splits),
            n_train=len(self.splits[0].train),
            random_state=self.random_state,
            posteriors=self._posteriors(),
        )

    def _posteriors(self) -> dict[str, list[Floats]]:
        """Return what was kept of the models' posteriors, split by split."""
        found: dict[str, list[Floats]] = {}
        for results in self.results:
            for name, result in results.items():
                if isinstance(result, Evaluation) and result.posterior is not None:
                    found.setdefault(name, []).append(result.posterior)
        return found

    # -- what it came to -------------------------------------------------------------------------

    def _scores(self, name: str) -> dict[str, Floats]:
        """Return the model's scores by metric, one value a finished split."""
        rows = [result[name] for result in self.results]
        return {
            metric: np.array([row.scores[metric] for row in rows if isinstance(row, Evaluation)])
            for metric in METRICS
        }

    def _ranked(self) -> list[str]:
        """Return the models that have the criterion, best first."""
        means = {
            name: float(np.mean(self._scores(name)[self.criterion]))
            for name in self.models
            if name not in self.failures
        }
        finite = [name for name in means if np.isfinite(means[name])]
        if not finite:
            raise DataError(
                f"criterion: expected one that a model has, got {self.criterion!r}, but no model "
                'gives probabilities; use criterion="error"'
            )
        return sorted(finite, key=lambda name: means[name])

    def _best(self) -> str:
        return self._ranked()[0]

    def _best_family(self, groups: list[Family]) -> Family | None:
        """Return the family of the best model that has a tradeoff."""
        for name in self._ranked():
            for family in groups:
                if name in family.members:
                    return family
        return None

    def _assemble(
        self,
        best: str,
        groups: list[Family],
        family: Family | None,
        curve: LearningCurve | None,
        details: Details | None,
        seconds: float,
    ) -> ComparisonResult:
        label = {
            name: group.label
            for group in groups
            if len(group.members) > 1
            for name in group.members
        }
        return ComparisonResult(
            models=tuple(self._model_result(name, label.get(name), best) for name in self.models),
            best=best,
            criterion=self.criterion,
            data=replace(self.problem.data, density_report=self._densities()),
            n_splits=len(self.results),
            n_train=len(self.splits[0].train),
            n_test=len(self.splits[0].test),
            random_state=self.random_state,
            complete=not self.interrupted,
            curve=curve,
            ends=None if curve is None or family is None else self._compare_ends(family, curve),
            doubling={} if curve is None else self._doubling(best, curve),
            details=details,
            notes=tuple(self._notes()),
            seconds=seconds,
        )

    def _model_result(self, name: str, family: str | None, best: str) -> ModelResult:
        asked = _asked(self.models[name])
        if name in self.failures:
            return ModelResult(
                name, family, asked, {}, {}, {}, None, None, failure=self.failures[name]
            )
        scores, reference = self._scores(name), self._scores(best)
        has = [metric for metric in METRICS if np.isfinite(scores[metric]).all()]
        rows = [result[name] for result in self.results]
        fits = [row for row in rows if isinstance(row, Evaluation)]
        return ModelResult(
            name=name,
            family=family,
            tradeoff=asked,
            scores=scores,
            estimates={metric: estimate(scores[metric], self.ratio) for metric in has},
            differences={}
            if name == best
            else {m: difference(scores[m], reference[m], self.ratio) for m in has},
            # Times of separate fits are as good as independent.
            fit_seconds=estimate(np.array([fit.seconds for fit in fits]), 0.0),
            chosen=self._choice(name, fits) if asked == "auto" else None,
            failure=None,
        )

    def _choice(self, name: str, fits: list[Evaluation]) -> TradeoffChoice | None:
        chosen = np.array([fit.tradeoff for fit in fits if fit.tradeoff is not None])
        if not len(chosen):
            return None
        return TradeoffChoice(
            float(np.median(chosen)),
            float(chosen.min()),
            float(chosen.max()),
            fitted_tradeoff(self.all_rows.get(name)),
        )

    def _compare_ends(self, family: Family, curve: LearningCurve) -> EndsResult | None:
        generative, discriminative = self._ends(family)
        gaps: dict[str, Estimate] = {}
        crossings = {}
        for metric in METRICS:
            sizes, (first, second) = curve.usable([generative, discriminative], metric)
            if not sizes or sizes[-1] != curve.sizes[-1]:
                continue
            at_end = second[:, -1] - first[:, -1]
            if all(name in self.models for name in (generative, discriminative)):
                # Both are in the table, with all its splits.
                at_end = self._scores(discriminative)[metric] - self._scores(generative)[metric]
            gaps[metric] = estimate(at_end, self.ratio)
            crossings[metric] = find_crossing(first, second, sizes, self.random_state)
        if self.criterion not in gaps:
            return None
        return EndsResult(family.label, generative, discriminative, gaps, crossings)

    def _doubling(self, best: str, curve: LearningCurve) -> dict[str, Estimate]:
        gains = {}
        for metric in METRICS:
            sizes, (scores,) = curve.usable([best], metric)
            gain = gain_per_doubling(scores, sizes, self.ratio)
            if gain is not None:
                gains[metric] = gain
        return gains

    def _notes(self) -> list[str]:
        notes = list(self.problem.notes)
        for name, reason in self.failures.items():
            notes.append(f"{name} could not be fitted: {reason}")
        for (name, category), (times, message) in self.evaluator.counts.warnings.items():
            if name not in self.failures and name in self.models:
                fits = "1 fit" if times == 1 else f"{times} fits, the first"
                notes.append(f"{name}: {category} in {fits}: {message}")
        fitted = {name: one for name, one in self.models.items() if name not in self.failures}
        data = self.problem.data
        mixed = "categorical" in data.column_kinds or any(data.column_missing)
        return notes + model_notes(fitted, mixed=mixed)


def _asked(model: Any) -> float | str | None:
    """Return the tradeoff that a model was constructed with, None for a model without one."""
    parameter = tradeoff_parameter(model)
    if parameter is None:
        return None
    value = model.get_params()[parameter]
    return value if isinstance(value, str) else float(value)


def _without_posterior(result: Evaluation | Failure) -> Evaluation | Failure:
    return replace(result, posterior=None) if isinstance(result, Evaluation) else result


def _n_chosen(report: Sequence[Mapping[str, str]]) -> int:
    return sum(one["reason"] != BY_TYPE for one in report)


def _fit_split(
    evaluator: Evaluator,
    models: dict[str, Any],
    split: Split,
    step: Callable[[str], None] = lambda name: None,
) -> tuple[dict[str, Evaluation | Failure], Counts]:
    """Return what the models came to on one split, and what they said."""
    if not _warmed:
        # A process of its own has not loaded compiled code yet.
        _warmed.append(True)
        for name, model in models.items():
            evaluator.afresh().fit(name, model, split.train[:_WARM_ROWS])
    with evaluator.counted() as counts:
        results = evaluator.evaluate(models, split.train, split.test, step)
    return results, counts
