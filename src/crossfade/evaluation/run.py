"""One run of learning curves: splits shared out, records kept, Ctrl-C and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.blocks import MANY_ROWS, for_each_block, n_threads, single_threaded_blas
from crossfade.evaluation.checkpoint import Checkpoint, SplitRecord
from crossfade.evaluation.evaluation import Counts, Evaluator
from crossfade.evaluation.result import LearningCurve
from crossfade.evaluation.splits import Split
from crossfade.evaluation.tracing import Tracer
from crossfade.processes import apart, map_in_order

#: Splits whose compiled curves are shared out to the threads together take about so long.
_BATCH_SECONDS = 0.5


class CurveRun:
    """A run; `progress` is called with (splits done, splits in all, what is being done)."""

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
        finally:
            if self._file is not None:
                self._file.close()
        names = tuple(self._tracers)
        scores = {
            name: {
                metric: np.array([record.scores[name][:, i] for record in self._records])
                for i, metric in enumerate(self._evaluator.metrics)
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
        splits = self._splits[len(self._records) :]
        fast = {name: tracer for name, tracer in self._tracers.items() if tracer.compiled}
        others = {name: tracer for name, tracer in self._tracers.items() if not tracer.compiled}
        batches = _trace_compiled(fast, splits, self._sizes)
        if not others:
            for batch in batches:
                self._keep([SplitRecord(scores, Counts()) for scores in batch])
            return
        work = partial(_trace, others, self._evaluator, self._sizes)
        share = int(self._sizes[-1]) < MANY_ROWS
        compiled = chain.from_iterable(batches)
        for record, scores in zip(map_in_order(work, splits, share=share), compiled, strict=True):
            every = dict(record.scores) | scores
            in_order = {name: every[name] for name in self._tracers}
            self._keep([SplitRecord(in_order, record.counts)])

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
        return notes + counts.warning_notes()


def _trace_compiled(
    tracers: Mapping[str, Tracer], splits: Sequence[Split], sizes: Integers
) -> Iterator[list[dict[str, Floats]]]:
    """Yield what tracers give on each split, in batches of half a second: what Ctrl-C can lose."""
    size = n_threads()
    done = 0
    while done < len(splits):
        start = perf_counter()
        batch = splits[done : done + size]
        scores: list[dict[str, Floats]] = [{} for _ in batch]

        def work(block: slice, batch: Any = batch, scores: Any = scores) -> None:
            for i in range(*block.indices(len(batch))):
                scores[i] = {name: one.trace(batch[i], sizes) for name, one in tracers.items()}

        apart(partial(for_each_block, work, len(batch), block_rows=1))
        seconds = perf_counter() - start
        if seconds < 0.5 * _BATCH_SECONDS:
            size *= 2
        elif seconds > 2.0 * _BATCH_SECONDS:
            size = max(size // 2, n_threads())
        done += len(batch)
        yield scores


def _trace(
    tracers: Mapping[str, Tracer], evaluator: Evaluator, sizes: Integers, split: Split
) -> SplitRecord:
    """Trace one split; the tracers' warnings and failures are the evaluator's."""
    with evaluator.counted() as counts:
        scores = {name: tracer.trace(split, sizes) for name, tracer in tracers.items()}
    return SplitRecord(scores, counts)
