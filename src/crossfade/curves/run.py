"""One run of learning curves: splits shared out, records kept, Ctrl-C and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from crossfade.blocks import MANY_ROWS, for_each_block, single_threaded_blas
from crossfade.curves.checkpoint import Checkpoint, SplitRecord
from crossfade.curves.evaluation import Counts, Evaluator
from crossfade.curves.result import LearningCurve
from crossfade.curves.scores import METRICS
from crossfade.curves.splits import Split
from crossfade.curves.tracing import Tracer
from crossfade.densities.base import Floats, Integers
from crossfade.processes import map_in_order

__all__ = ["CurveRun"]

#: Splits whose compiled curves are shared out to the threads together.
_BATCH = 16


class CurveRun:
    """One run under way.

    Parameters
    ----------
    tracers : mapping of str to Tracer
        By model name.
    splits : sequence of Split
    sizes : sequence of int
        Ascending.
    evaluator : Evaluator
        Counts warnings and failures.
    progress : callable or None
        Told (splits done, splits in all, what is being done).
    """

    def __init__(
        self,
        *,
        tracers: Mapping[str, Tracer],
        splits: Sequence[Split],
        sizes: Sequence[int],
        evaluator: Evaluator,
        progress: Callable[[int, int, str], None] | None = None,
    ) -> None:
        self._tracers, self._splits = tracers, splits
        self._sizes = np.asarray(sizes, dtype=np.int64)
        self._evaluator, self._progress = evaluator, progress
        self._records: list[SplitRecord] = []
        self._file: Checkpoint | None = None

    def open(self, path: Path, fingerprint: Mapping[str, str]) -> None:
        """Continue from a checkpoint, or begin one."""
        self._file = Checkpoint(path, fingerprint)
        self._records = self._file.records[: len(self._splits)]

    def result(
        self, *, n_train: int, n_test: int, seed: int, unit: str = "rows", notes: Sequence[str] = ()
    ) -> LearningCurve:
        """Do what is left of the run and return the curves."""
        complete = True
        try:
            with single_threaded_blas():
                self._work()
        except KeyboardInterrupt:
            if not self._records:
                raise
            complete = False
        names = tuple(self._tracers)
        scores = {
            name: {
                metric: np.array([record.scores[name][:, i] for record in self._records])
                for i, metric in enumerate(METRICS)
            }
            for name in names
        }
        return LearningCurve(
            models=names,
            sizes=tuple(self._sizes.tolist()),
            scores=scores,
            n_train=n_train,
            n_test=n_test,
            random_state=seed,
            unit=unit,
            complete=complete,
            notes=(*notes, *self._notes()),
        )

    @property
    def counts(self) -> Counts:
        """Warnings and failures of models in all splits done."""
        total = Counts()
        for record in self._records:
            total.add(record.counts)
        return total

    def _work(self) -> None:
        while (done := len(self._records)) < len(self._splits):
            batch = self._splits[done : done + _BATCH]
            compiled = {
                name: self._trace_compiled(tracer, batch)
                for name, tracer in self._tracers.items()
                if tracer.compiled
            }
            if len(compiled) == len(self._tracers):
                self._keep([SplitRecord(_one(compiled, i), Counts()) for i in range(len(batch))])
                continue
            others = {n: tracer for n, tracer in self._tracers.items() if n not in compiled}
            work = partial(_trace, others, self._evaluator, self._sizes)
            share = int(self._sizes[-1]) < MANY_ROWS
            for i, record in enumerate(map_in_order(work, batch, share=share)):
                scores = dict(record.scores) | _one(compiled, i)
                in_order = {name: scores[name] for name in self._tracers}
                self._keep([SplitRecord(in_order, record.counts)])

    def _trace_compiled(self, tracer: Tracer, batch: Sequence[Split]) -> list[Floats]:
        scores: list[Floats] = [np.empty(0)] * len(batch)

        def work(block: slice) -> None:
            for i in range(*block.indices(len(batch))):
                scores[i] = tracer.trace(batch[i], self._sizes)

        for_each_block(work, len(batch), block_rows=1)
        return scores

    def _keep(self, records: list[SplitRecord]) -> None:
        if self._file is not None:
            self._file.add(records)
        self._records = self._records + records
        if self._progress is not None:
            done, total = len(self._records), len(self._splits)
            self._progress(done, total, f"split {done} of {total}")

    def _notes(self) -> list[str]:
        """Return what the reader should know of how models fared."""
        notes, counts = [], self.counts
        for name, (times, reason) in counts.failures.items():
            fits = "1 fit" if times == 1 else f"{times} fits"
            notes.append(f"{name}: {fits} failed: {reason}")
        for (name, category), (times, message) in counts.warnings.items():
            fits = "1 fit" if times == 1 else f"{times} fits, the first"
            notes.append(f"{name}: {category} in {fits}: {message}")
        return notes


def _one(compiled: Mapping[str, list[Floats]], i: int) -> dict[str, Floats]:
    """Return what was traced of one split."""
    return {name: scores[i] for name, scores in compiled.items()}


def _trace(
    tracers: Mapping[str, Tracer], evaluator: Evaluator, sizes: Integers, split: Split
) -> SplitRecord:
    """Trace one split; the tracers' warnings and failures are the evaluator's."""
    with evaluator.counted() as counts:
        scores = {name: tracer.trace(split, sizes) for name, tracer in tracers.items()}
    return SplitRecord(scores, counts)
