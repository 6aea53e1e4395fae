"""Where the models of a comparison stand, from the splits that are done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier

from crossfade._typing import Floats, Progress
from crossfade.choice import Reason, by_type, report_of
from crossfade.classifiers import NaiveBayes
from crossfade.comparison.interactions import find_interactions, interaction_note
from crossfade.comparison.models import ModelFamily, families, model_notes, tradeoff_parameter
from crossfade.comparison.pooling import pool_over_splits
from crossfade.comparison.problem import ComparisonTask
from crossfade.comparison.results import ComparisonResult, Status
from crossfade.errors import DataError
from crossfade.evaluation.crossing import find_crossing, gain_per_doubling
from crossfade.evaluation.evaluation import Evaluation, Evaluator
from crossfade.evaluation.result import LearningCurve
from crossfade.evaluation.scores import Estimate, difference, estimate
from crossfade.evaluation.splits import Split
from crossfade.evidence.comparison import (
    ColumnDensity,
    EndsResult,
    ModelResult,
    PoolResult,
    TradeoffChoice,
)
from crossfade.evidence.details import Details
from crossfade.evidence.interactions import Interaction


@dataclass(frozen=True)
class Settings:
    """How a comparison is run; see :func:`crossfade.compare`."""

    criterion: str = "log_loss"
    random_state: int = 0
    stop_early: bool = True
    time_limit: float | None = None
    evidence: bool = True
    curve: bool = True
    progress: Progress | None = None
    watch: Callable[[Status], None] | None = None


@dataclass
class Standings:
    """Models, and what they came to on the splits that are done."""

    problem: ComparisonTask
    models: dict[str, Any]
    splits: list[Split]
    settings: Settings
    started: float = field(default_factory=perf_counter)
    results: dict[str, list[Evaluation]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    later_notes: list[str] = field(default_factory=list)
    report: tuple[Mapping[str, str], ...] = ()
    ended: str = "all splits"
    finished_table: bool = False

    def __post_init__(self) -> None:
        self.groups = families(self.models)
        self.results = {name: [] for name in self.models}

    @property
    def evaluator(self) -> Evaluator:
        return self.problem.evaluator

    @property
    def criterion(self) -> str:
        return self.settings.criterion

    @property
    def ratio(self) -> float:
        """Test rows to training rows, for the corrected standard error."""
        return self.splits[0].ratio

    def _fitted(self) -> list[str]:
        """Return the models that did not fail."""
        return [name for name in self.models if name not in self.failures]

    def _scores(self, name: str) -> dict[str, Floats]:
        """Return the model's scores by metric, one value per finished split."""
        return {
            metric: np.array([one.scores[metric] for one in self.results[name]])
            for metric in self.evaluator.metrics
        }

    def _common(self, name: str, other: str, metric: str) -> tuple[Floats, Floats]:
        """Return the scores of two models on the splits that both have."""
        first, second = self._scores(name)[metric], self._scores(other)[metric]
        number = min(len(first), len(second))
        return first[:number], second[:number]

    def _ranked(self) -> list[str]:
        """Return the models that have the criterion, best first.

        Two are compared on the splits that both have, and each is placed by how far it is behind
        the one that is most ahead of it.
        """
        known = {
            name: self._scores(name)[self.criterion]
            for name in self._fitted()
            if self.results[name]
        }
        finite = {name: scores for name, scores in known.items() if np.isfinite(scores).all()}
        if not finite:
            raise DataError(
                f"criterion: expected one that a model has, got {self.criterion!r}, but no model "
                'gives probabilities; use criterion="error"'
            )
        most = max(map(len, finite.values()))
        if most > 1 and self.finished_table:  # a single split has no spread
            finite = {name: scores for name, scores in finite.items() if len(scores) > 1}

        def behind(name: str) -> float:
            gaps = []
            for other in finite.keys() - {name}:
                both = min(len(finite[name]), len(finite[other]))
                gaps.append(float(np.mean(finite[name][:both] - finite[other][:both])))
            return max(gaps, default=0.0)

        return sorted(finite, key=behind)

    def _best(self) -> str:
        return self._ranked()[0]

    def _best_family(self) -> ModelFamily | None:
        """Return the family of the best model that has a tradeoff."""
        for name in self._ranked():
            for family in self.groups:
                if name in family.members:
                    return family
        return None

    def _assemble(
        self,
        best: str,
        family: ModelFamily | None,
        curve: LearningCurve | None,
        details: Details | None,
    ) -> ComparisonResult:
        label = {
            name: group.label
            for group in self.groups
            if len(group.members) > 1
            for name in group.members
        }
        report = self.report or self._report_of_kinds()
        densities = tuple(ColumnDensity(**one) for one in report)
        interactions = self._interactions() if self.finished_table else None
        return ComparisonResult(
            models=tuple(self._model_result(name, label.get(name), best) for name in self.models),
            best=best,
            criterion=self.criterion,
            costs=self.evaluator.costs,
            data=replace(self.problem.data, densities=densities),
            n_splits=len(self.results[best]),
            n_splits_asked=len(self.splits),
            ended=self.ended,
            n_train=len(self.splits[0].train),
            n_test=len(self.splits[0].test),
            random_state=self.settings.random_state,
            curve=curve,
            ends=None if family is None or curve is None else self._compare_ends(family, curve),
            doubling={} if curve is None else self._doubling(best, curve),
            details=details,
            notes=tuple(self._notes(interactions)),
            interactions=() if interactions is None else interactions[1],
            pool=self._pool(best) if self.finished_table else None,
            seconds=perf_counter() - self.started,
        )

    def _report_of_kinds(self) -> tuple[dict[str, str], ...]:
        data = self.problem.data
        return tuple(report_of(by_type(data.column_names, data.column_kinds, {})))

    def _model_result(self, name: str, family: str | None, best: str) -> ModelResult:
        asked = lambda_of(self.models[name])
        fits = self.results[name]
        if name in self.failures or not fits:
            return ModelResult(name, family, asked, failure=self.failures.get(name))
        scores, reference = self._scores(name), self._scores(best)
        has = [metric for metric in self.evaluator.metrics if np.isfinite(scores[metric]).all()]
        differences: dict[str, Estimate] = {}
        if name != best:
            differences = {m: difference(*self._common(name, best, m), self.ratio) for m in has}
        estimates = {metric: estimate(scores[metric], self.ratio) for metric in has}
        if len(fits) != len(self.results[best]):
            estimates |= _beside(reference, differences, estimates)
        return ModelResult(
            name=name,
            family=family,
            tradeoff=asked,
            n_splits=len(fits),
            scores=scores,
            estimates=estimates,
            differences=differences,
            # The first fit of a process compiles and loads; the median does not see it.
            fit_seconds=float(np.median([fit.seconds for fit in fits])),
            chosen=_choice(fits) if asked == "auto" else None,
            guesses=isinstance(self.models[name], DummyClassifier),
        )

    def _pool(self, best: str) -> PoolResult | None:
        """Return the pool of the models; of a family, the member that chooses its tradeoff."""
        passed_over = {
            name
            for group in self.groups
            if any(lambda_of(self.models[name]) == "auto" for name in self._fitted_of(group))
            for name in group.members
            if lambda_of(self.models[name]) != "auto"
        }
        posteriors = {
            name: [one.posterior for one in self.results[name] if one.posterior is not None]
            for name in self._fitted()
            if name not in passed_over and not isinstance(self.models[name], DummyClassifier)
        }
        posteriors = {name: found for name, found in posteriors.items() if found}
        codes = self.evaluator.codes
        costs = self.evaluator.costs
        found = pool_over_splits(posteriors, self.splits, codes, self.criterion, costs)
        if found is None:
            return None
        n_splits, ratio = len(found.losses[self.criterion]), self.ratio
        own = {name: self._scores(name)[self.criterion][:n_splits] for name in found.weights}
        rival = min(own, key=lambda name: float(np.mean(own[name])))
        scores = {metric: found.losses[metric] for metric in self.evaluator.metrics}
        reference, member = self._scores(best), self._scores(rival)
        both = min(n_splits, len(self.results[best]))
        differences = {
            metric: difference(one[:both], reference[metric][:both], ratio)
            for metric, one in scores.items()
            if np.isfinite(reference[metric]).all()
        }
        estimates = {metric: estimate(one, ratio) for metric, one in scores.items()}
        estimates |= _beside(reference, differences, estimates)
        return PoolResult(
            name="pool of these",
            family=None,
            tradeoff=None,
            n_splits=n_splits,
            scores=scores,
            estimates=estimates,
            differences=differences,
            weights=found.weights,
            rival=rival,
            gain={m: difference(one, member[m][:n_splits], ratio) for m, one in scores.items()},
        )

    def _interactions(self) -> tuple[str, tuple[Interaction, ...]] | None:
        """Return naive Bayes' name and which columns interact, where another model beats it.

        Another is one without a tradeoff.
        """
        for name in self._fitted():
            own = [one.posterior for one in self.results[name]]
            if not isinstance(self.models[name], NaiveBayes) or not own:
                continue
            if lambda_of(self.models[name]) != "auto" or any(one is None for one in own):
                continue
            others = [m for m in self._fitted() if lambda_of(self.models[m]) is None]
            gaps = [
                difference(*self._common(other, name, self.criterion), self.ratio)
                for other in others
                if len(self.results[other]) > 1 and len(own) > 1
            ]
            if any(gap.excludes_zero and gap.mean < 0.0 for gap in gaps):
                seen = [one for one in own if one is not None]
                found = find_interactions(seen, self.splits, self.problem.table)
                return (name, found) if found else None
        return None

    def _fitted_of(self, group: ModelFamily) -> list[str]:
        return [name for name in group.members if self.results[name]]

    def _ends(self, family: ModelFamily) -> dict[str, Any]:
        """Return the family's generative and discriminative fit, in this order, by name."""
        ends: dict[str, Any] = {}
        for word, tradeoff in (("generative", 1.0), ("discriminative", 0.0)):
            member = next(
                (m for m in family.members if lambda_of(self.models[m]) == tradeoff), None
            )
            if member is not None and member in self._fitted():
                ends[member] = self.models[member]
            else:
                ends[f"{family.label}, {word} end"] = family.at(tradeoff)
        return ends

    def _compare_ends(self, family: ModelFamily, curve: LearningCurve) -> EndsResult | None:
        generative, discriminative = self._ends(family)
        gaps: dict[str, Estimate] = {}
        crossings = {}
        for metric in self.evaluator.metrics:
            sizes, (first, second) = curve.usable([generative, discriminative], metric)
            if not sizes or sizes[-1] != curve.sizes[-1]:
                continue
            at_end = second[:, -1] - first[:, -1]
            if all(name in self.models for name in (generative, discriminative)):
                # Both are in the table, with all its splits.
                at_end = np.subtract(*self._common(discriminative, generative, metric))
            gaps[metric] = estimate(at_end, self.ratio)
            crossings[metric] = find_crossing(
                first, second, sizes, self.ratio, self.settings.random_state
            )
        if self.criterion not in gaps:
            return None
        return EndsResult(family.label, generative, discriminative, gaps, crossings)

    def _doubling(self, best: str, curve: LearningCurve) -> dict[str, Estimate]:
        gains = {}
        for metric in self.evaluator.metrics:
            sizes, (scores,) = curve.usable([best], metric)
            gain = gain_per_doubling(scores, sizes, self.ratio)
            if gain is not None:
                gains[metric] = gain
        return gains

    def _notes(self, interactions: tuple[str, tuple[Interaction, ...]] | None) -> list[str]:
        notes = list(self.problem.notes)
        for name, reason in self.failures.items():
            notes.append(f"{name} could not be fitted: {reason}")
        # One split is in the verdict only where no model has two.
        needed = min(2, max(map(len, self.results.values())))
        late = [name for name in self._fitted() if len(self.results[name]) < needed]
        if late:
            are, its = ("is", "its") if len(late) == 1 else ("are", "their")
            which = "second" if needed == 2 else "first"
            named = " and ".join([*filter(None, [", ".join(late[:-1])]), late[-1]])
            notes.append(
                f"{named} {are} not in the verdict: the run ended before {its} {which} split."
            )
        if interactions is not None:
            notes.append(interaction_note(*interactions))
        known = self.models.keys() - self.failures.keys()
        notes += self.evaluator.counts.warning_notes(known)
        data = self.problem.data
        mixed = "categorical" in data.column_kinds or any(data.column_missing)
        fitted = {name: self.models[name] for name in self._fitted()}
        return notes + model_notes(fitted, mixed=mixed) + self.later_notes


def _beside(
    reference: Mapping[str, Floats],
    differences: Mapping[str, Estimate],
    estimates: Mapping[str, Estimate],
) -> dict[str, Estimate]:
    """Return means that lie by the paired difference above the reference's.

    Means of other splits are not to be set beside each other.
    """
    return {
        metric: estimates[metric].shifted(
            float(np.mean(reference[metric])) + gap.mean - estimates[metric].mean
        )
        for metric, gap in differences.items()
    }


def lambda_of(model: Any) -> float | str | None:
    """Return the tradeoff that a model was constructed with, None for a model without one."""
    parameter = tradeoff_parameter(model)
    if parameter is None:
        return None
    value = model.get_params()[parameter]
    return value if isinstance(value, str) else float(value)


def _choice(fits: Sequence[Evaluation]) -> TradeoffChoice | None:
    chosen = np.array([fit.tradeoff for fit in fits if fit.tradeoff is not None])
    if not len(chosen):
        return None
    return TradeoffChoice(float(np.median(chosen)), float(chosen.min()), float(chosen.max()))


def n_chosen(report: Sequence[Mapping[str, str]]) -> int:
    return sum(one["by"] != Reason.TYPE.value for one in report)
