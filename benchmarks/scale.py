"""Rows in files and on a cluster: passes, their speed against a plain read, and peak memory.

Each case runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.memory import peak

__all__ = ["TITLE", "table"]

TITLE = "scale"

#: Rows and columns of the files at --scale 1, and of the table on the cluster.
_ROWS, _COLUMNS = 1_000_000, 20
_CLUSTER_ROWS, _CLUSTER_COLUMNS = 2_000_000, 50

#: Rows of a row group, and of what is made at a time.
_GROUP = 1 << 17

#: Partitions of the table on the cluster, and the gradient norm of dask-ml's fit.
_PARTITIONS, _NORM = 16, 1e-6


def write(folder: Path, n_rows: int, n_columns: int, group: int = _GROUP) -> None:
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


def read(folder: Path) -> float:
    """Return the seconds in which pyarrow reads every column, batch by batch."""
    import pyarrow.parquet as pq

    start = time.perf_counter()
    with pq.ParquetFile(folder / "rows.parquet", memory_map=True) as file:
        for batch in file.iter_batches(_GROUP):
            batch.num_rows  # noqa: B018
    return time.perf_counter() - start


def fit(folder: Path, tradeoff: Any) -> dict[str, float]:
    """Return seconds, passes and megabytes of a fit to the files, the read's seconds beside it."""
    from crossfade import NaiveBayes
    from crossfade.io import scan

    reads = [read(folder) for _ in range(3)]
    small = NaiveBayes(tradeoff=tradeoff, shared_variance=True)
    rng = np.random.default_rng(1)
    small.fit(rng.standard_normal((30_000, 4)), rng.integers(2, size=30_000))  # compiles
    before, start = peak(), time.perf_counter()
    model = NaiveBayes(tradeoff=tradeoff, shared_variance=True).fit(scan(folder), "y")
    seconds = time.perf_counter() - start
    return {
        "read": float(np.median(reads)),
        "seconds": seconds,
        "passes": float(model.n_passes_),
        "megabytes": peak() - before,
    }


def cluster(folder: Path, n_workers: int) -> dict[str, float]:
    """Return the seconds of a fit at λ = 0 on so many workers of one thread each.

    `busiest`: Processor seconds of the worker that had most to do.
    """
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    from crossfade import NaiveBayes

    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as own,
        Client(own) as client,
    ):
        client.wait_for_workers(n_workers)  # else the first one gets all rows
        rows = dd.read_parquet(folder, split_row_groups=True).persist()
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
    from distributed import Client, LocalCluster

    from crossfade import BinomialRegression

    def norm(model: Any, X: Any, y: Any) -> float:
        residual = 1 / (1 + np.exp(-(X @ np.ravel(model.coef_) + float(model.intercept_)))) - y
        slopes = np.append((X * residual[:, None]).mean(axis=0), residual.mean())
        return float(np.abs(slopes).max())

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as own,
        Client(own),
    ):
        rows = dd.read_parquet(folder, split_row_groups=True)
        values = rows.to_dask_array(lengths=True)
        X, y = values[:, :-1].persist(), values[:, -1].astype(int).persist()
        at_hand = X.compute(), y.compute()
        # Its tolerance is that of the summed gradient.
        theirs = LogisticRegression(C=1e12, solver="lbfgs", tol=_NORM * len(X), max_iter=500)
        found = {}
        for name, model in (("ours", BinomialRegression()), ("theirs", theirs)):
            model.fit(X[::50], y[::50])  # loads, and compiles
            start = time.perf_counter()
            model.fit(X, y)
            found[name] = time.perf_counter() - start
            found[f"{name} norm"] = norm(model, *at_hand)
        return found


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


def _apart(case: str, folder: Path, *arguments: Any) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.scale", case, str(folder), *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(scale: float, say: Callable[[str], None]) -> str:
    """Return the table, in Markdown."""
    n_rows, n_cluster = round(_ROWS * scale), round(_CLUSTER_ROWS * scale)
    lines = [
        f"Parquet, {n_rows:,} rows x {_COLUMNS} columns; a read is pyarrow's of the same columns",
        "",
        "| fit | passes | time in reads | goal | peak memory |",
        "|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        say(f"writing {n_rows:,} rows")
        write(folder, n_rows, _COLUMNS)
        for tradeoff, goal in (("1.0", "1.25"), ("0.0", "8"), ("auto", "")):
            say(f"λ = {tradeoff}")
            found = _apart("fit", folder, tradeoff)
            ratio = found["seconds"] / found["read"]
            lines.append(
                f"| λ = {tradeoff} | {found['passes']:.0f} | {ratio:.2f} | {goal} | "
                f"{found['megabytes']:.0f} MB |"
            )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, n_cluster, _CLUSTER_COLUMNS, -(-n_cluster // _PARTITIONS))
        say("one worker, two workers")
        one, two = (_apart("cluster", folder, workers) for workers in (1, 2))
        other = None
        if find_spec("dask_ml") is not None:
            say("dask-ml")
            other = _apart("against", folder, "")
    lines += [
        "",
        f"Dask, {n_cluster:,} rows x {_CLUSTER_COLUMNS} columns, λ = 0 in {two['passes']:.0f} "
        f"passes: two workers are {one['seconds'] / two['seconds']:.2f} times as fast as one "
        f"(goal 1.6); the busier one computes for {two['busiest']:.2f} s, the only one for "
        f"{one['busiest']:.2f} s",
    ]
    if other is not None:
        lines += [
            "",
            "Logistic regression of the same rows on two workers: "
            f"{other['theirs'] / other['ours']:.1f} times as fast as dask-ml's (goal 5), gradient "
            f"norms {other['ours norm']:.0e} and {other['theirs norm']:.0e} per row",
        ]
    function, sums, sample = sent(100)
    lines += [
        "",
        f"100 columns, 2 classes, λ = 0: a gradient's pass sends {function / 1000:.0f} kB to a "
        f"worker and {sums / 1000:.1f} kB back; the sample is {sample / 1e6:.0f} MB, once",
    ]
    return "\n".join(lines)


def _main(case: str, folder: str, argument: str) -> dict[str, float]:
    if case == "against":
        return against(Path(folder))
    if case == "cluster":
        return cluster(Path(folder), int(argument))
    return fit(Path(folder), argument if argument == "auto" else float(argument))


if __name__ == "__main__":
    print(json.dumps(_main(*sys.argv[1:])))
