"""One comparison under way: splits dealt to models, then the learning curve and the evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from time import perf_counter
from typing import Any, Final

import numpy as np

from crossfade._typing import Floats
from crossfade.blocks import MANY_ROWS
from crossfade.comparison.details import (
    TRADEOFFS,
    Subject,
    count_steps,
    find_details,
    keeps_posteriors,
)
from crossfade.comparison.models import ModelFamily
from crossfade.comparison.results import ComparisonResult, Status
from crossfade.comparison.standings import Standings, lambda_of, n_chosen
from crossfade.comparison.stopping import FEWEST_SPLITS, TimeOver, needed_splits, time_limit
from crossfade.errors import DataError
from crossfade.evaluation.crossing import SLOPE_SIZES
from crossfade.evaluation.evaluation import Counts, Evaluation, Evaluator, Failure
from crossfade.evaluation.result import LearningCurve
from crossfade.evaluation.run import CurveRun
from crossfade.evaluation.splits import Split, curve_sizes
from crossfade.evaluation.tracing import KnownEnd, OneSize, Tracer, row_tracers
from crossfade.evidence.details import Details
from crossfade.processes import processes_kept, work_as_chosen
from crossfade.tradeoff.remembered import remembered

#: The learning curve is a summary: one split for each four of the table, and at least four, but
#: where curves are compiled.
_TABLE_SPLITS: Final = 4
_FEWEST_CURVE_SPLITS: Final = 4

#: Share of a time limit that the table may take; the rest is for what comes after it.
_TABLE_SHARE: Final = 0.75

#: A model and the number of a split.
Task = tuple[str, int]

#: What is fitted in one go: models whose grids have points in common, on one split.
Tasks = tuple[Task, ...]


@dataclass
class Run(Standings):
    """One comparison under way."""

    done: int = 0
    total: int = 0
    waiting: dict[Task, tuple[Evaluation | Failure, Counts]] = field(default_factory=dict)
    need: dict[str, int] = field(default_factory=dict)
    begun: dict[str, int] = field(default_factory=dict)
    finished: dict[str, int] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    under_way: dict[Task, float] = field(default_factory=dict)
    tradeoffs: dict[str, float | str | None] = field(default_factory=dict)
    kinds: dict[str, Any] = field(default_factory=dict)
    later: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.begun = dict.fromkeys(self.models, 0)
        self.finished = dict.fromkeys(self.models, 0)
        self.spent = dict.fromkeys(self.models, 0.0)
        least = FEWEST_SPLITS if self.settings.stop_early else len(self.splits)
        self.need = dict.fromkeys(self.models, min(least, len(self.splits)))
        self.total = len(self.models) * len(self.splits)
        # Closed forms first.
        first: dict[float | str | None, int] = {1.0: 0, None: 1, 0.0: 2}
        self.tradeoffs = {name: lambda_of(model) for name, model in self.models.items()}
        self.kinds = {name: _kind(name, model) for name, model in self.models.items()}
        self.order = sorted(self.models, key=lambda name: first.get(self.tradeoffs[name], 3))

    def result(self) -> ComparisonResult:
        with processes_kept():
            return self._result()

    def _result(self) -> ComparisonResult:
        limit = self.settings.time_limit
        try:
            with time_limit(None if limit is None else _TABLE_SHARE * limit):
                self._fill_table()
        except KeyboardInterrupt as stop:
            self.ended = "time limit" if isinstance(stop, TimeOver) else "keyboard"
            self.need = dict.fromkeys(self.models, len(self.splits))
            self.settings = replace(self.settings, stop_early=False)
            self._absorb()
        self.under_way.clear()
        self.finished_table = True
        if not any(self.results.values()):
            if self.ended == "time limit":
                raise DataError(
                    "time_limit: expected enough seconds for one split of at least one model, "
                    f"got {limit!r}; give more, or fewer models"
                )
            raise KeyboardInterrupt
        curve: LearningCurve | None = None
        details: Details | None = None
        best = self._best()
        family = self._best_family()
        if self.settings.curve and self.ended != "keyboard" and len(self.results[best]) > 1:
            left = None if limit is None else max(limit - (perf_counter() - self.started), 1e-3)
            try:
                with time_limit(left):
                    tracers = self._tracers(best, family)
                    n_splits = self._curve_splits(tracers)
                    self.total = self.done + n_splits
                    self.total += self.settings.evidence * count_steps(len(self.results[best]))
                    curve = self._trace(tracers, n_splits)
                    if not curve.complete:
                        raise TimeOver if self._is_over() else KeyboardInterrupt
                    if self.settings.evidence:
                        for found in self._find_details(best, family):
                            details = found  # and kept when the time ends
            except KeyboardInterrupt as stop:
                if isinstance(stop, TimeOver):
                    traced = curve is not None and curve.complete
                    what = "the evidence" if traced else "the learning curve"
                    self.later_notes.append(f"The time ran out before {what} was finished.")
                else:
                    self.ended = "keyboard"
        return self._assemble(best, family if curve is not None else None, curve, details)

    # -- the table -------------------------------------------------------------------------------

    def _fill_table(self) -> None:
        """Deal splits to models until each has as many as it needs."""
        # Of many rows a fit's sums use the threads already, and copies of the data cost time.
        share = len(self.splits[0].train) < MANY_ROWS
        work = partial(_fit_split, self.evaluator.afresh(), self.models, self.splits)
        for tasks, found in work_as_chosen(work, self._choose, self._seconds_known, share=share):
            for task, one in zip(tasks, found, strict=True):
                self._take(task, *one)
        if any(self.need[name] < len(self.splits) for name in self._fitted()):
            self.ended = "settled"

    def _take(
        self, task: Task, found: Evaluation | Failure, counts: Counts, seconds: float
    ) -> None:
        """Take what a model came to on a split."""
        name, number = task
        self.under_way.pop(task, None)
        self.spent[name] += seconds
        self.finished[name] += 1
        self.waiting[task] = found, counts
        self._absorb()
        if self.finished[name] == 1 and all(self.results[one] for one in self._fitted()):
            self._best()  # refuses a criterion that no model has, while that costs one split
        self._step(f"split {number + 1} of {len(self.splits)}, {name}")

    def _absorb(self) -> None:
        """Take what is finished into the table, in the order of splits, as far as it is needed."""
        for name in self._fitted():
            done = self.results[name]
            while len(done) < self.need[name] and (name, len(done)) in self.waiting:
                found, counts = self.waiting.pop((name, len(done)))
                self.evaluator.counts.add(counts)
                if isinstance(found, Failure):
                    self._fail(name, found)
                    break
                if not keeps_posteriors(self.problem.data.n_rows, len(done)):
                    found = replace(found, posterior=None)
                done.append(found)
        if self.settings.stop_early:
            scores = {name: self._scores(name)[self.criterion] for name in self._fitted()}
            before = self.need.copy()
            self.need |= needed_splits(scores, len(self.splits), self.ratio)
            if self.need != before:  # more of what is finished may be needed now
                self._absorb()

    def _fail(self, name: str, found: Failure) -> None:
        # One missing split would unpair it from the others: it is out.
        self.failures[name] = found.reason
        self.results[name] = []
        if len(self.failures) == len(self.models):
            first = next(iter(self.failures.items()))
            raise DataError(
                "models: expected at least one that can be fitted, but all "
                f"{len(self.failures)} failed; {first[0]}: {first[1]}"
            )

    def _choose(self) -> Tasks | None:
        """Return what is fitted next, None if nothing is."""
        limit = self.settings.time_limit
        now = perf_counter()
        if limit is not None and now - self.started > _TABLE_SHARE * limit:
            raise TimeOver
        open_ = [name for name in self.order if self.begun[name] < self.need.get(name, 0)]
        if not open_ and self.under_way:
            # Nothing is known to be needed: rather than wait, do what may be.
            top = max(self.need.values())
            open_ = [
                name
                for name in self.order
                if self.need[name] == top and self.begun[name] < len(self.splits)
            ]
        open_ = [name for name in open_ if name not in self.failures]
        if not open_:
            return None
        spent = self.spent.copy()
        for (name, _), begun in self.under_way.items():
            spent[name] += now - begun
        # Served alike in time, not in number: a slow model holds up the others for one fit only.
        name = min(open_, key=lambda name: (self._turn(name), spent[name]))
        number = self.begun[name]
        kin = [
            one
            for one in open_
            if self.kinds[one] == self.kinds[name] and self.begun[one] == number
        ]
        tasks = tuple((one, number) for one in kin)
        for task in tasks:
            self.begun[task[0]] += 1
            self.under_way[task] = now
        self._tell()
        return tasks

    def _turn(self, name: str) -> tuple[int, float]:
        """Return the round a model's next fit belongs to, and what orders the second splits.

        Those that choose λ begin after two rounds of the others: they take longest, and two fits
        make a verdict. Second splits begin with the models whose first was best.
        """
        begun = self.begun[name]
        if begun > 1:
            return 4, 0.0
        order = 0.0
        if begun:
            first: Any = self.results[name][0] if self.results[name] else None
            order = inf if first is None else first.scores[self.criterion]
        return begun + 2 * (self.tradeoffs[name] == "auto"), order

    def _seconds_left(self) -> float | None:
        """Return how long the table will take at most; None before every model was fitted."""
        return self._seconds_known() if all(map(self.finished.get, self._fitted())) else None

    def _seconds_known(self) -> float:
        """Return how long the models that were fitted already will take at most."""
        fitted = [name for name in self._fitted() if self.finished[name]]
        top = max((self.need[name] for name in fitted), default=0)
        left = 0.0
        for name in fitted:
            most = len(self.splits) if self.need[name] == top else self.need[name]
            left += self.spent[name] / self.finished[name] * max(most - self.finished[name], 0)
        limit = self.settings.time_limit
        if limit is not None:
            left = min(left, _TABLE_SHARE * limit - (perf_counter() - self.started))
        return max(left, 0.0)

    def _seconds_after(self) -> float | None:
        """Return about how long what follows the table takes; None before every model was fitted.

        The steps of the curve and of the evidence, by what the table's fits took.
        """
        fitted = self._fitted()
        if self.finished_table:
            left = sum(self.later[max(len(self.later) - (self.total - self.done), 0) :])
        elif not all(self.results[name] for name in fitted) or not fitted:
            return None
        else:
            self.later = self._later_steps() if self.settings.curve else []
            left = sum(self.later)
        limit = self.settings.time_limit
        return left if limit is None else min(left, limit - (perf_counter() - self.started))

    def _later_steps(self) -> list[float]:
        fit = {name: self.spent[name] / max(self.finished[name], 1) for name in self.models}
        best, family = self._best(), self._best_family()
        ends = [] if family is None else [fit.get(name, 0.0) for name in self._ends(family)]
        sizes = curve_sizes(len(self.splits[0].train), len(self.evaluator.classes))
        # Each end at all sizes but the last, and the best model at one of half the rows.
        split = sum(ends) * sum(sizes[:-1]) / sizes[-1] + 0.5 * fit[best]
        steps = [split] * max(_FEWEST_CURVE_SPLITS, self.need[best] // _TABLE_SPLITS)
        if self.settings.evidence:
            chosen = [fit[name] for name in self._choosing(family)]
            path = sum(chosen) + len(TRADEOFFS) * max(ends, default=0.0)
            n_splits = count_steps(self.need[best]) - 1
            steps += [path * (1.0 + self.ratio), *[sum(ends)] * n_splits]
        return steps

    def _step(self, text: str, done: int | None = None) -> None:
        self.done = self.done + 1 if done is None else done
        if self.settings.progress is not None:
            self.settings.progress(self.done, self.total, text)
        self._tell(text)

    def _tell(self, text: str = "") -> None:
        if self.settings.watch is None:
            return
        doing = [f"{name}, split {number + 1}" for name, number in self.under_way]
        left = self._seconds_left() if doing else None
        # Models of one kind are fitted in one go.
        workers = max(1, len({(self.kinds[name], number) for name, number in self.under_way}))
        self.settings.watch(
            Status(
                done=self.done,
                total=self.total,
                doing=" and ".join(doing) or text,
                seconds=perf_counter() - self.started,
                seconds_left=None if left is None else left / workers,
                seconds_after=self._seconds_after() if left is not None or not doing else None,
                n_splits=len(self.splits),
                partial=self._partial,
            )
        )

    def _partial(self) -> ComparisonResult | None:
        """Return what the table holds by now."""
        if not any(self.results.values()):
            return None
        try:
            return self._assemble(self._best(), None, None, None)
        except DataError:  # no model has the criterion yet
            return None

    # -- after the table -------------------------------------------------------------------------

    def _curve_splits(self, tracers: Mapping[str, Tracer]) -> int:
        known = [len(self.results[name]) for name in tracers if name in self._fitted()]
        most = len(self.splits)
        if not all(tracer.compiled for tracer in tracers.values()):
            most = max(_FEWEST_CURVE_SPLITS, max(known) // _TABLE_SPLITS)
        return min(most, *known)

    def _tracers(self, best: str, family: ModelFamily | None) -> dict[str, Tracer]:
        """Return tracers of the best model and of the ends of the best family."""
        ends = {} if family is None else self._ends(family)
        models = {best: self.models[best]} | ends
        tracers = row_tracers(models, self.problem.table, self.settings.random_state)
        if best not in ends:
            # What more rows promise is read from the ends of the last sizes, of which the very last
            # is known from the table.
            tracers[best] = OneSize(tracers[best], SLOPE_SIZES - 1)
        for name in tracers:
            if name in self._fitted():
                scores = self._scores(name)
                at_end = np.column_stack([scores[metric] for metric in self.evaluator.metrics])
                tracers[name] = KnownEnd(tracers[name], at_end)
        return tracers

    def _trace(self, tracers: Mapping[str, Tracer], n_splits: int) -> LearningCurve:
        sizes = curve_sizes(len(self.splits[0].train), len(self.evaluator.classes))
        before = self.done
        run = CurveRun(
            tracers=tracers,
            splits=self.splits[:n_splits],
            sizes=sizes,
            evaluator=self.evaluator,
            progress=lambda done, total, text: self._step(
                f"learning curve, split {done} of {total}", before + done
            ),
        )
        self._tell("learning curve")
        split = self.splits[0]
        seed = self.settings.random_state
        return run.result(n_train=len(split.train), n_test=len(split.test), seed=seed)

    def _is_over(self) -> bool:
        """Return whether it was the time that ended what was just ended."""
        limit = self.settings.time_limit
        return limit is not None and perf_counter() - self.started > 0.99 * limit

    def _choosing(self, family: ModelFamily | None) -> list[str]:
        """Return the models that choose λ and are fitted to all rows for the evidence."""
        members = () if family is None else family.members
        return [
            name
            for name in self._fitted()
            if self.tradeoffs[name] == "auto"
            and (name in members or hasattr(self.models[name], "density"))
        ]

    def _find_details(self, best: str, family: ModelFamily | None) -> Iterator[Details]:
        """Yield the evidence so far, ever more of it."""
        self._tell("naive Bayes on all rows")
        everything = np.arange(self.problem.data.n_rows)
        automatic = None
        for name in self._choosing(family):
            fitted = self.evaluator.fit(name, self.models[name], everything)
            if isinstance(fitted, Failure):
                continue
            automatic = fitted if family is not None and name in family.members else automatic
            own = getattr(fitted, "density_report_", ())
            self.report = max(self.report, tuple(own), key=n_chosen)
        subject = Subject(
            evaluator=self.evaluator.afresh(),
            schema=self.problem.table.schema,
            best=(best, self.models[best]),
            ends={} if family is None else self._ends(family),
            family=family,
            automatic=automatic,
            n_splits=len(self.results[best]),
            n_train=len(self.splits[0].train),
            random_state=self.settings.random_state,
            posteriors=self._posteriors(),
        )
        yield from find_details(subject, self._step)

    def _posteriors(self) -> dict[str, list[Floats]]:
        """Return what was kept of the models' posteriors, split by split."""
        return {
            name: [one.posterior for one in found if one.posterior is not None]
            for name, found in self.results.items()
        }


def _kind(name: str, model: Any) -> Any:
    """Return what models have in common whose grids of tradeoffs share points; else the name."""
    if lambda_of(model) != "auto" or not hasattr(model, "covariance"):
        return name
    others = {key: value for key, value in model.get_params().items() if key != "covariance"}
    return type(model), repr(others)


def _fit_split(
    evaluator: Evaluator, models: Mapping[str, Any], splits: Sequence[Split], tasks: Tasks
) -> list[tuple[Evaluation | Failure, Counts, float]]:
    """Return what models came to on a split, what they said, and the seconds they took."""
    results = []
    with remembered() if len(tasks) > 1 else nullcontext():
        for name, number in tasks:
            started = perf_counter()
            with evaluator.counted() as counts:
                split = splits[number]
                found = evaluator.evaluate({name: models[name]}, split.train, split.test)[name]
            results.append((found, counts, perf_counter() - started))
    return results
