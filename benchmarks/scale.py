"""Rows in files and on a cluster: passes, their speed against a plain read, and peak memory.

    python -m benchmarks.scale --store scale.jsonl --scale 0.1
    python -m benchmarks.scale --store scale.jsonl --cases memory

Each case runs in a process of its own, so that its peak memory is its own. Its figures are kept in
the store when it is done, so that a run can be stopped and continued; `--report` prints them.
"memory", a file of some gigabytes in the folder for temporary files, runs only when it is named.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.memory import forget_peak, peak
from benchmarks.store import Store, add_store, run_and_report, say

TITLE = "scale"

#: Rows and columns of the files at --scale 1, and of the table on the cluster.
_ROWS, _COLUMNS = 1_000_000, 20
_CLUSTER_ROWS, _CLUSTER_COLUMNS = 2_000_000, 50
_MEMORY_ROWS, _MEMORY_COLUMNS = 100_000_000, 10

#: Rows of a row group, and of what is made at a time.
_GROUP = 1 << 17

#: Rows that are enough for all that is compiled to be so before the clock starts.
_WARM_ROWS = 40_000

#: Partitions of the table on the cluster, and the gradient norm of dask-ml's fit.
_PARTITIONS, _NORM = 16, 1e-6


def write(
    folder: Path,
    n_rows: int,
    n_columns: int,
    group: int = _GROUP,
    say: Callable[[str], None] = lambda text: None,
) -> None:
    """Write a generated table: normal columns whose means differ by class, labels 0 and 1."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, shift = np.random.default_rng(0), np.linspace(-0.3, 0.3, n_columns)
    schema = pa.schema([*((f"x{j}", pa.float64()) for j in range(n_columns)), ("y", pa.int64())])
    with pq.ParquetWriter(folder / "rows.parquet", schema, compression="zstd") as writer:
        for first in range(0, n_rows, group):
            y = rng.integers(2, size=min(group, n_rows - first))
            X = rng.standard_normal((y.size, n_columns)) + shift * y[:, None]
            X = X.astype(np.float32).astype(np.float64)
            writer.write_table(pa.table([*X.T, y], schema=schema))
            if first // group % 100 == 99:
                say(f"{first + y.size:,} rows written")


def read(folder: Path) -> tuple[float, float]:
    """Return the seconds in which pyarrow reads every column: its data set, and the fastest way.

    The fastest that was found is one file, mapped, in batches of a row group.
    """
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    start = time.perf_counter()
    for batch in ds.dataset(folder).to_batches():
        batch.num_rows  # noqa: B018
    middle = time.perf_counter()
    with pq.ParquetFile(folder / "rows.parquet", memory_map=True) as file:
        for batch in file.iter_batches(_GROUP):
            batch.num_rows  # noqa: B018
    return middle - start, time.perf_counter() - middle


def fit(folder: Path, tradeoff: Any, rounds: int = 3) -> dict[str, float]:
    """Return seconds, passes and megabytes of a fit to the files, the read's seconds beside it.

    Medians of reads and fits in turn; the megabytes are those of the first fit.
    """
    from crossfade import NaiveBayes
    from crossfade.io import scan

    with tempfile.TemporaryDirectory() as name:
        write(Path(name), 30_000, 4)
        small = NaiveBayes(tradeoff=tradeoff, shared_variance=True)
        small.fit(scan(name), "y")  # loads, and compiles
    forget_peak()
    before, megabytes, times = peak(), 0.0, []
    for number in range(rounds):
        start = time.perf_counter()
        model = NaiveBayes(tradeoff=tradeoff, shared_variance=True).fit(scan(folder), "y")
        own = time.perf_counter() - start
        megabytes = megabytes if number else peak() - before
        times.append([own, *read(folder)])
    seconds, plain, fastest = np.median(times, axis=0).tolist()
    return {
        "read": plain,
        "fastest read": fastest,
        "seconds": seconds,
        "passes": float(model.n_passes_),
        "megabytes": megabytes,
    }


def cluster(folder: Path, n_workers: int) -> dict[str, float]:
    """Return the seconds of a fit at λ = 0 on so many workers of one thread each.

    `busiest`: Processor seconds of the worker that had most to do.
    """
    import dask.dataframe as dd
    from distributed import Client, LocalCluster, wait

    from crossfade import NaiveBayes

    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as own,
        Client(own) as client,
    ):
        client.wait_for_workers(n_workers)  # else the first one gets all rows
        rows = dd.read_parquet(folder, split_row_groups=True).persist()
        wait(rows)
        client.rebalance(rows)  # else one may have twice the rows of the other, as it falls
        model = NaiveBayes(tradeoff=0.0, shared_variance=True)
        model.fit(rows, "y")  # loads, and compiles
        before, start = client.run(time.process_time), time.perf_counter()
        model.fit(rows, "y")
        seconds, after = time.perf_counter() - start, client.run(time.process_time)
        busiest = max(after[worker] - before[worker] for worker in after)
        return {"seconds": seconds, "busiest": busiest, "passes": float(model.n_passes_)}


def against(folder: Path) -> dict[str, float]:
    """Return seconds and gradient norms of logistic regression, ours and dask-ml's, two workers."""
    import dask.dataframe as dd
    from dask_ml.linear_model import LogisticRegression
    from distributed import Client, LocalCluster, wait

    from crossfade import BinomialRegression

    def norm(model: Any, X: Any, y: Any) -> float:
        residual = 1 / (1 + np.exp(-(X @ np.ravel(model.coef_) + float(model.intercept_)))) - y
        slopes = np.append((X * residual[:, None]).mean(axis=0), residual.mean())
        return float(np.abs(slopes).max())

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as own,
        Client(own) as client,
    ):
        client.wait_for_workers(2)  # else the first one gets all rows
        rows = dd.read_parquet(folder, split_row_groups=True)
        values = rows.to_dask_array(lengths=True)
        X, y = values[:, :-1].persist(), values[:, -1].astype(int).persist()
        wait([X, y])
        # Its tolerance is that of the summed gradient.
        theirs = LogisticRegression(C=1e12, solver="lbfgs", tol=_NORM * len(X), max_iter=500)
        # Ours comes with standard errors, and at this tolerance still with the smaller gradient.
        ours = BinomialRegression(tol_digits=4)
        found, every = {}, max(1, len(X) // _WARM_ROWS)
        for name, model in (("ours", ours), ("theirs", theirs)):
            model.fit(X[::every], y[::every])  # loads, and compiles
            start = time.perf_counter()
            model.fit(X, y)
            found[name] = time.perf_counter() - start
        at_hand = X.compute(), y.compute()  # not before: one worker would hold all rows from then
        return found | {"ours norm": norm(ours, *at_hand), "theirs norm": norm(theirs, *at_hand)}


def sent(n_columns: int) -> tuple[int, int, int]:
    """Return the bytes of the function and of the sums of a gradient's pass, and of the sample."""
    import cloudpickle

    from crossfade import NaiveBayes
    from crossfade.table.source import MemorySource

    class Weighing(MemorySource):
        def reduce_parts(self, function: Any, join: Any, columns: Any = None) -> Any:
            found = super().reduce_parts(function, join, columns)
            weights.append((len(cloudpickle.dumps(function)), len(cloudpickle.dumps(found))))
            return found

    weights: list[tuple[int, int]] = []
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30_000, n_columns))
    NaiveBayes(tradeoff=0.0, shared_variance=True).fit(Weighing(X, rng.integers(2, size=30_000)))
    return *weights[-1], max(sums for _, sums in weights)


def _apart(case: str, folder: Path | str, argument: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.scale", "--apart", case, str(folder), argument]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _in_this_process(case: str, folder: str, argument: str) -> dict[str, float]:
    if case == "against":
        return against(Path(folder))
    if case == "cluster":
        return cluster(Path(folder), int(argument))
    if case == "sent":
        names = ("function", "sums", "sample")
        return dict(zip(names, map(float, sent(int(argument))), strict=True))
    rounds = 1 if case == "memory" else 3
    return fit(Path(folder), argument if argument == "auto" else float(argument), rounds)


#: The table that cases are of: rows at --scale 1 and columns; and the arguments of each case.
_TABLES = {
    "fit": (_ROWS, _COLUMNS),
    "cluster": (_CLUSTER_ROWS, _CLUSTER_COLUMNS),
    "against": (_CLUSTER_ROWS, _CLUSTER_COLUMNS),
    "memory": (_MEMORY_ROWS, _MEMORY_COLUMNS),
}
_ARGUMENTS = {
    "fit": ("1.0", "0.0", "auto"),
    "cluster": ("1", "2"),
    "against": ("",),
    "sent": ("100",),
    "memory": ("1.0", "0.0"),
}

#: Bytes per cell that the folder for temporary files must have.
_BYTES = 8


def run(path: Path, scale: float, cases: Sequence[str], say: Callable[[str], None]) -> None:
    """Run what the store lacks of these cases."""
    store = Store(path)
    written: dict[tuple[int, int], Path] = {}
    with ExitStack() as folders:
        for case in cases:
            for argument in _ARGUMENTS[case]:
                if any(key[:3] == (case, argument, scale) for key in store):
                    continue
                if case == "against" and find_spec("dask_ml") is None:
                    say("against: left out, since dask-ml is not installed")
                    continue
                folder = Path()
                if case in _TABLES:
                    rows, columns = _TABLES[case]
                    n_rows = max(1_000, round(rows * scale))
                    if (n_rows, columns) not in written:
                        folder = Path(folders.enter_context(tempfile.TemporaryDirectory()))
                        free = shutil.disk_usage(folder).free
                        if free < _BYTES * n_rows * (columns + 1):
                            say(f"{case}: left out, since {folder} has only {free / 1e9:.0f} GB")
                            continue
                        say(f"writing {n_rows:,} rows x {columns} columns")
                        parts = (
                            -(-n_rows // _PARTITIONS) if case in ("cluster", "against") else _GROUP
                        )
                        write(folder, n_rows, columns, parts, say)
                        written[n_rows, columns] = folder
                    folder = written[n_rows, columns]
                found = _apart(case, folder, argument)
                for name, value in found.items():
                    store.add((case, argument, scale, name), [value])
                told = ", ".join(f"{name} {value:.4g}" for name, value in found.items())
                say(f"{case} {argument}: {told}")


def report(path: Path, scale: float) -> str:
    """Return what the store holds, in Markdown."""
    store, lines = Store(path), []

    def figures(case: str, argument: str) -> dict[str, float]:
        wanted = (case, argument, scale)
        return {key[3]: values[0] for key, values in store.items() if key[:3] == wanted}

    for case in ("fit", "memory"):
        rows, columns = _TABLES[case]
        goals = ("1.25", "8", "") if case == "fit" else ("", "")
        own = []
        for tradeoff, goal in zip(_ARGUMENTS[case], goals, strict=True):
            if found := figures(case, tradeoff):
                ratio, mapped = (found["seconds"] / found[one] for one in ("read", "fastest read"))
                own.append(
                    f"| λ = {tradeoff} | {found['passes']:.0f} | {ratio:.2f} | {goal} | "
                    f"{mapped:.2f} | {found['megabytes']:.0f} MB |"
                )
        if own:
            lines += [
                "",
                f"Parquet, {round(rows * scale):,} rows x {columns} columns; a read is that of "
                "these by pyarrow.dataset, or the fastest found, ParquetFile of one file, mapped"
                + ("" if case == "fit" else "; goal of the memory: 1,000 MB"),
                "",
                "| fit | passes | time in reads | goal | in the fastest reads | peak memory |",
                "|---|---|---|---|---|---|",
                *own,
            ]
    one, two = figures("cluster", "1"), figures("cluster", "2")
    if one and two:
        lines += [
            "",
            f"Dask, {round(_CLUSTER_ROWS * scale):,} rows x {_CLUSTER_COLUMNS} columns, λ = 0 in "
            f"{two['passes']:.0f} passes: two workers are {one['seconds'] / two['seconds']:.2f} "
            f"times as fast as one (goal 1.6); the busier one computes for {two['busiest']:.2f} s, "
            f"the only one for {one['busiest']:.2f} s",
        ]
    if other := figures("against", ""):
        lines += [
            "",
            f"Logistic regression, {round(_CLUSTER_ROWS * scale):,} rows x {_CLUSTER_COLUMNS} "
            f"columns, two workers: {other['theirs'] / other['ours']:.1f} times as fast as "
            f"dask-ml's (goal 5), gradient norms {other['ours norm']:.0e} and "
            f"{other['theirs norm']:.0e} per row",
        ]
    if found := figures("sent", "100"):
        lines += [
            "",
            f"100 columns, 2 classes, λ = 0: a gradient's pass sends {found['function'] / 1e3:.0f} "
            f"kB to a worker and {found['sums'] / 1e3:.1f} kB back; the sample is "
            f"{found['sample'] / 1e6:.0f} MB, once",
        ]
    return "\n".join(lines[1:]) or f"nothing of --scale {scale:g} is in {path} yet"


def table(scale: float, say: Callable[[str], None]) -> str:
    """Return the table, in Markdown."""
    with tempfile.TemporaryDirectory() as name:
        store = Path(name) / "scale.jsonl"
        run(store, scale, [case for case in _ARGUMENTS if case != "memory"], say)
        return report(store, scale)


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen cases, then print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    usual = [case for case in _ARGUMENTS if case != "memory"]
    parser.add_argument("--cases", nargs="+", default=usual, choices=list(_ARGUMENTS))
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full row numbers")
    add_store(parser, "scale.jsonl")
    parser.add_argument("--apart", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.apart:
        print(json.dumps(_in_this_process(*options.apart)))
        return 0
    chosen = options.store, options.scale, options.cases, say
    return run_and_report(options, lambda: run(*chosen), lambda store: report(store, options.scale))


if __name__ == "__main__":
    sys.exit(main())
