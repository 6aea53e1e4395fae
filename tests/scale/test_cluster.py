"""The same fits on a Dask cluster of two workers; of two processes, one is killed."""

from __future__ import annotations

import operator
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from crossfade import (
    BinomialRegression,
    ClusterError,
    DataError,
    NaiveBayes,
    PoissonRegression,
)
from crossfade.classifiers import reading as reading_module
from crossfade.glm import source_data as source_data_module
from crossfade.io import scan
from crossfade.io.reading import read_table
from crossfade.table import cluster as cluster_module
from crossfade.table.source import MemorySource
from crossfade.tradeoff import source_rows as source_rows_module
from tests.scale.tables import mixed_table

# Imported when the first of these tests runs: they take a second.
dask = dd = da = distributed = None

pytestmark = pytest.mark.filterwarnings("ignore")  # what Dask says of itself


@pytest.fixture(scope="module", params=[False, pytest.param(True, marks=pytest.mark.slow)])
def client(request):
    """Two workers: threads of this process, which start at once; or processes, a slow test."""
    with (
        warnings.catch_warnings(),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=request.param,
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        warnings.simplefilter("ignore")
        yield client


@pytest.fixture(scope="module", autouse=True)
def few_in_the_sample():
    """A sample of few rows, so that few are more than it has."""
    global dask, dd, da, distributed
    dask = pytest.importorskip("dask")
    dd, da = pytest.importorskip("dask.dataframe"), pytest.importorskip("dask.array")
    distributed = pytest.importorskip("distributed")
    with pytest.MonkeyPatch.context() as patch:
        for module in (reading_module, source_rows_module, source_data_module):
            patch.setattr(module, "SAMPLE_ROWS", 2_000)
        yield


@pytest.fixture(scope="module")
def frame():
    return mixed_table(3_000).to_pandas()


@pytest.fixture(scope="module")
def collection(client, frame):
    """Unknown divisions, and an empty partition among the others."""
    parts = [dd.from_pandas(frame[a:b], npartitions=1) for a, b in ((0, 1_200), (1_200, 1_200))]
    parts.append(dd.from_pandas(frame[1_200:], npartitions=3, sort=False))
    return dd.concat(parts).clear_divisions()


@pytest.mark.parametrize(
    "tradeoff",
    [1.0, pytest.param(0.0, marks=pytest.mark.slow), pytest.param("auto", marks=pytest.mark.slow)],
)
def test_a_data_frame_on_the_cluster(collection, frame, tradeoff):
    X, y = frame.drop(columns="y"), frame["y"]
    fitted = NaiveBayes(tradeoff=tradeoff).fit(collection[list(X.columns)], collection["y"])
    same = NaiveBayes(tradeoff=tradeoff).fit(MemorySource(X, y))
    tolerance = 1e-10 if tradeoff == 1.0 else 1e-6
    assert fitted.schema_ == same.schema_
    np.testing.assert_allclose(fitted.predict_proba(X), same.predict_proba(X), atol=tolerance)
    if tradeoff == 1.0:
        whole = NaiveBayes(tradeoff=1).fit(X, y)
        np.testing.assert_allclose(fitted.predict_proba(X), whole.predict_proba(X), atol=1e-10)
        assert fitted.n_passes_ == 1
    # Its posteriors are lazy, and those of each partition on its own.
    lazy = fitted.predict_proba(collection[list(X.columns)])
    assert hasattr(lazy, "__dask_graph__")
    np.testing.assert_allclose(lazy.compute(), fitted.predict_proba(X), atol=1e-12)
    decided = fitted.predict(collection[list(X.columns)]).compute()
    np.testing.assert_array_equal(decided, fitted.predict(X))


def test_regressions_on_the_cluster(collection, frame):
    columns = ["tail", "grade", "flag"]
    for model, target, beside in (
        (BinomialRegression(), "flag", {"sample_weight": "count"}),
        (PoissonRegression(), "count", {"exposure": "tail"}),
    ):
        used = [name for name in columns if name not in (target, *beside.values())]
        lazy = collection[[*used, target, *beside.values()]]
        arrays = {name: frame[column].to_numpy() for name, column in beside.items()}
        fitted = clone(model).fit(lazy, target, **beside)
        whole = clone(model).fit(frame[used], frame[target], **arrays)
        np.testing.assert_allclose(fitted.coef_, whole.coef_, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(fitted.standard_errors_, whole.standard_errors_, rtol=1e-8)
        assert fitted.null_deviance_ == pytest.approx(whole.null_deviance_, rel=1e-10)
        assert fitted.n_passes_ <= 8
        np.testing.assert_allclose(
            fitted.predict(collection[used]).compute(), whole.predict(frame[used]), rtol=1e-6
        )
    # The workers have let go of the rows: they are read again where more is asked.
    ours, theirs = fitted.robust_covariance("HC3"), whole.robust_covariance("HC3")
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_weights_are_a_column_on_the_cluster(collection, frame):
    # 'count' is 0 in many rows, which then are none.
    X, y = frame.drop(columns=["y", "count"]), frame["y"]
    fitted = NaiveBayes(tradeoff=1).fit(collection, "y", sample_weight="count")
    whole = NaiveBayes(tradeoff=1).fit(X, y, sample_weight=frame["count"])
    np.testing.assert_allclose(fitted.predict_proba(X), whole.predict_proba(X), atol=1e-10)


def test_an_array_on_the_cluster(client):
    rng = np.random.default_rng(1)
    codes = rng.integers(2, size=4_000)
    X = rng.normal(size=(4_000, 6)) + codes[:, None]
    chunked = da.from_array(X, chunks=(900, 4))
    fitted = NaiveBayes(tradeoff=1).fit(chunked, da.from_array(codes, chunks=900))
    whole = NaiveBayes(tradeoff=1).fit(X, codes)
    np.testing.assert_allclose(fitted.predict_proba(X), whole.predict_proba(X), atol=1e-10)
    np.testing.assert_allclose(
        fitted.predict_proba(chunked).compute(), whole.predict_proba(X), atol=1e-10
    )


@pytest.mark.slow
def test_titanic_in_files_that_workers_read(client, shared_data, tmp_path):
    frame = read_table(shared_data / "mixed" / "titanic.csv")
    for number, start in enumerate(range(0, frame.height, 400)):
        frame[start : start + 400].write_parquet(tmp_path / f"{number}.parquet")
    X = frame.drop("target")
    fitted = NaiveBayes().fit(scan(tmp_path, "target").on_cluster())
    whole = NaiveBayes().fit(X, frame["target"])
    np.testing.assert_allclose(fitted.predict_proba(X), whole.predict_proba(X), atol=1e-6)


def test_classes_and_categories_of_one_partition_only(client):
    import pandas as pd

    parts = [
        pd.DataFrame({"c": ["u", "v"], "x": [1, 2], "y": [0, 0]}),
        pd.DataFrame({"c": ["u", "w"], "x": [0.5, 4.0], "y": [1, 0]}),
    ]
    lazy = dd.concat([dd.from_pandas(part, npartitions=1) for part in parts])
    fitted = NaiveBayes(tradeoff=1).fit(lazy, "y")
    whole = pd.concat(parts)
    same = NaiveBayes(tradeoff=1).fit(whole[["c", "x"]], whole["y"])
    np.testing.assert_allclose(
        fitted.predict_proba(whole[["c", "x"]]), same.predict_proba(whole[["c", "x"]]), atol=1e-12
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda part: part[["tail", "level", "y"]], "they have another order"),
        (lambda part: part.drop(columns="tail"), "'tail' is missing"),
        (lambda part: part.rename(columns={"tail": "Tail"}), "'tail' is missing, 'Tail' is new"),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_a_partition_with_other_columns_is_told(frame, change, told, together):
    part = frame[["level", "tail", "y"]][:200]
    parts = [dask.delayed(change(part) if number == 2 else part) for number in range(4)]
    lazy = dd.from_delayed(parts, meta=part[:0], verify_meta=False)
    data = (lazy, "y") if together else (lazy[["level", "tail"]], lazy["y"])
    if not together and "order" in told:
        NaiveBayes(tradeoff=1).fit(*data)  # they are selected by name
        return
    with pytest.raises((DataError, KeyError), match=told if together else "tail"):
        NaiveBayes(tradeoff=1).fit(*data)


def test_collections_that_do_not_belong_together_are_refused(collection, frame):
    with pytest.raises(DataError, match=r"^y: expected a Dask collection where X is one"):
        NaiveBayes().fit(collection[["level"]], frame["y"])
    with pytest.raises(DataError, match=r"^X: expected a Dask collection where y is one"):
        NaiveBayes().fit(frame[["level"]], collection["y"])
    with pytest.raises(DataError, match=r"^y: expected the 5 partitions of X, got 2"):
        NaiveBayes().fit(collection[["level"]], collection["y"].repartition(npartitions=2))
    with pytest.raises(DataError, match=r"^y: expected a column of the table, got 'z'"):
        NaiveBayes().fit(collection, "z")
    # As many partitions, but other rows in them.
    with pytest.raises(DataError, match=r"^y: expected [\d,]+ labels in a partition, got \d+"):
        NaiveBayes().fit(collection[["level"]], collection[collection["tail"] < 1.0]["y"])


@pytest.mark.parametrize("kind", ["frame", "array"])
def test_rows_of_a_client_that_was_closed_are_said_to_be_gone(client, kind):
    frame = pd.DataFrame({"a": np.arange(20.0), "y": np.arange(20) % 2})
    own = distributed.Client(client.cluster, set_as_default=False)
    if kind == "frame":
        X, y = own.persist(dd.from_pandas(frame, npartitions=2)), "y"
    else:
        X, y = own.persist(
            [da.from_array(frame[["a"]].to_numpy(), 10), da.from_array(frame["y"].to_numpy(), 10)]
        )
    model = NaiveBayes(tradeoff=1).fit(frame[["a"]], frame["y"])
    own.close()
    for ask in (lambda: clone(model).fit(X, y), lambda: model.predict_proba(X)):
        with pytest.raises(ClusterError, match=r"^X, y: expected partitions .* that was closed;"):
            ask()


def test_the_scheduler_is_given_no_frames_to_write_out(client, collection, monkeypatch):
    # One in this process did so in its thread, and each waited for a lock that the other held.
    own, given = dask.persist, []
    monkeypatch.setattr(dask, "persist", lambda *parts: given.extend(parts) or own(*parts))
    NaiveBayes(tradeoff=1).fit(collection[["level"]], collection["y"])
    NaiveBayes(tradeoff=1).fit(collection, "y")
    assert len(given) == 15
    assert {type(part).__name__ for part in given} == {"Delayed"}


@pytest.mark.slow
@pytest.mark.parametrize("client", [True], indirect=True)
def test_a_worker_killed_in_the_middle_of_a_fit_changes_nothing(client, collection, frame):
    X = frame.drop(columns="y")
    columns = list(X.columns)
    fitted = NaiveBayes(tradeoff=0.5).fit(collection[columns], collection["y"])
    own, passes = cluster_module.DaskSource.reduce_parts, []

    def killing(source, function, join, columns=None):
        passes.append(1)
        if len(passes) == 3:
            processes = client.run(os.getpid)
            victim = sorted(processes.values())[0]
            # While the sums are under way.
            threading.Timer(0.05, os.kill, (victim, signal.SIGKILL)).start()
        return own(source, function, join, columns)

    cluster_module.DaskSource.reduce_parts = killing
    try:
        again = NaiveBayes(tradeoff=0.5).fit(collection[columns], collection["y"])
    finally:
        cluster_module.DaskSource.reduce_parts = own
    assert len(passes) > 3
    # The sums of partitions that lie on one worker are added up there; where they lie has changed.
    np.testing.assert_allclose(again.predict_proba(X), fitted.predict_proba(X), rtol=1e-11)
    client.wait_for_workers(2, timeout=30)


@pytest.mark.slow
def test_a_scheduler_that_goes_away_is_said_and_nothing_is_half_fitted(tmp_path, frame):
    file = tmp_path / "scheduler.json"
    start = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
    scheduler = subprocess.Popen(
        [*start, "--port", "0", "--scheduler-file", str(file)],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            if file.exists() and file.read_text():
                break
            time.sleep(0.1)
        with distributed.Client(scheduler_file=str(file), set_as_default=True) as client:
            address = client.scheduler.address
            worker = subprocess.Popen(
                [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny"],
                stderr=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
            try:
                client.wait_for_workers(1, timeout=60)
                X = frame.drop(columns="y")
                model = NaiveBayes(tradeoff=1).fit(X[:500], frame["y"][:500])
                before = vars(model).copy()
                lazy = dd.from_pandas(frame, npartitions=3)
                own = cluster_module.DaskSource.reduce_parts

                def killing(source, function, join, columns=None):
                    scheduler.kill()
                    return own(source, function, join, columns)

                cluster_module.DaskSource.reduce_parts = killing
                try:
                    with pytest.raises(ClusterError, match=r"^the cluster: expected the sums of"):
                        model.fit(lazy, "y")
                finally:
                    cluster_module.DaskSource.reduce_parts = own
                assert vars(model) == before
            finally:
                worker.kill()
                worker.wait()
    finally:
        scheduler.kill()
        scheduler.wait()


def test_a_pass_is_a_few_tasks_that_fetch_no_rows(client, frame):
    """Tasks cost milliseconds, and rows that travel much more: both are counted."""
    X, y = frame[["tail", "grade"]], frame["y"]
    lazy = dd.concat([dd.from_pandas(X.assign(y=y), npartitions=24, sort=False)]).persist()
    source = cluster_module.DaskSource(lazy, "y").mapped(lambda part: part._replace(labels=None))
    source.reduce_parts(lambda part: len(part.table), operator.add)

    def summed(dask_scheduler):
        events = dask_scheduler.transition_log
        return {str(key) for key, _, to, *_ in events if to == "memory" and "_sums" in str(key)}

    def moved(dask_worker):
        return [e["total"] for e in dask_worker.transfer_incoming_log]

    tasks, bytes_before = client.run_on_scheduler(summed), client.run(moved)
    assert source.reduce_parts(lambda part: len(part.table), operator.add) == len(frame)
    # One group for each of two threads, whatever the number of partitions.
    assert len(client.run_on_scheduler(summed) - tasks) == 2
    for address, after in client.run(moved).items():
        assert sum(after[len(bytes_before[address]) :]) < 10_000


def test_the_first_rows_come_with_the_start(client, frame, monkeypatch):
    """They are asked for before all else, and a round takes as long as a pass over few rows."""
    source = cluster_module.DaskSource(dd.from_pandas(frame, npartitions=3), "y")
    rounds, own = [], dask.compute
    monkeypatch.setattr(dask, "compute", lambda *many, **how: rounds.append(1) or own(*many, **how))
    monkeypatch.setattr(cluster_module, "_first_of_some", None)
    assert len(source.head().table) == 64
    assert len(rounds) == 1


def test_rows_that_lie_on_one_worker_are_shared_out_before_the_passes_and_not_in_them(client):
    """Else one worker does all, or rows travel at every pass: the time of a fit is then twice."""
    one, other = sorted(client.scheduler_info(n_workers=-1)["workers"])
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((4_000, 3)), rng.integers(2, size=4_000)
    blocks = [slice(first, first + 500) for first in range(0, 4_000, 500)]
    for n_there in (8, 7, 6):
        at = [one] * n_there + [other] * (8 - n_there)
        parts = [
            client.scatter((X[rows], y[rows]), workers=[worker], hash=False)
            for rows, worker in zip(blocks, at, strict=True)
        ]
        delayed = [dask.delayed(part) for part in parts]
        table = da.concatenate([da.from_delayed(p[0], (500, 3), float) for p in delayed])
        labels = da.concatenate([da.from_delayed(p[1], (500,), int) for p in delayed])
        source = cluster_module.DaskSource(table, labels)
        kept = source.mapped(lambda part: part)
        distributed.wait(client.futures_of(kept._started()))

        def moved(dask_worker):
            return sum(len(e["keys"]) for e in dask_worker.transfer_incoming_log)

        before = sum(client.run(moved).values())
        found = kept.reduce_parts(
            lambda part: [(distributed.get_worker().address, len(part.table))], operator.add
        )
        assert {worker: sum(n for at, n in found if at == worker) for worker, _ in found} == {
            one: 2_000,
            other: 2_000,
        }
        found = kept.reduce_parts(lambda part: part.table.sum(axis=0), operator.add)
        np.testing.assert_allclose(found, X.sum(axis=0), atol=1e-10)
        assert sum(client.run(moved).values()) - before == 0


def test_parts_are_dealt_to_workers_by_rows_and_lie_where_they_lay_where_that_is_fair():
    dealt, two = cluster_module._dealt, {"a": 1, "b": 1}
    same = [10] * 8
    # As they lie: a part more than the other has is not worth a journey.
    assert dealt("abababab", same, two, 1.2) == [("a", [0, 2, 4, 6]), ("b", [1, 3, 5, 7])]
    assert dealt("aaaaabbbb", [10] * 9, two, 1.2) == [("a", [0, 1, 2, 3, 4]), ("b", [5, 6, 7, 8])]
    # Or all on one worker; none is moved where nothing may be.
    assert dealt("aaaaaaab", same, two, 1.2) == [("a", [0, 1, 2, 3]), ("b", [4, 5, 6, 7])]
    assert dealt("aaaaaaab", same, two, np.inf) == [("a", [*range(7)]), ("b", [7])]
    # Rows are what counts, by thread; a part that is half of all is not moved to and fro.
    assert dealt("aaab", [10, 10, 10, 30], two, 1.2) == [("a", [0, 1, 2]), ("b", [3])]
    assert dealt("aa", [30, 0], two, 1.2) == [("a", [0])]
    threads = {"a": 3, "b": 1}
    assert dealt("aaaaaabb", same, threads, 1.2) == [
        *[("a", [first, first + 1]) for first in (0, 2, 4)],
        ("b", [6, 7]),
    ]
    # Of a worker that is gone, or nowhere yet; and no more at a time than memory has room for.
    assert dealt(["c", None, "a"], [10] * 3, two, 1.6) == [("a", [0, 2]), ("b", [1])]
    assert dealt([None] * 5, [10] * 5, {None: 1}, np.inf, 20) == [
        (None, [0, 1]),
        (None, [2]),
        (None, [3, 4]),
    ]
    assert dealt("ab", [0, 0], two, 1.2) == []


def test_polars_parts_survive_the_journey():
    # Parts read from files by workers are polars frames, which travel by pickle.
    import cloudpickle

    part = pl.DataFrame({"x": [1.0, None]})
    assert cloudpickle.loads(cloudpickle.dumps(part)).equals(part)
