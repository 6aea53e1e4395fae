"""Regressions do not know where their rows are either; what needs rows one by one is refused."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from crossfade import BinomialRegression, DataError, PoissonRegression
from crossfade.errors import AliasedColumnsWarning, IgnoredRowsWarning, SeparationWarning
from crossfade.glm import MultinomialRegression
from crossfade.glm import source_data as source_data_module
from crossfade.io import scan
from crossfade.table.matrix import as_floats
from crossfade.table.source import MemorySource
from tests.scale.test_sources import write

COLUMNS = ["a", "b", "c", "d"]
WHOLE = {
    "labels": (BinomialRegression(), "y", {}),
    "probit": (BinomialRegression("probit", fit_intercept=False), "y", {"offset": "push"}),
    "weights": (BinomialRegression(l2=2.0), "y", {"sample_weight": "often"}),
    "grouped": (BinomialRegression("cloglog"), "deaths", {"trials": "trials"}),
    "shares": (BinomialRegression(), "share", {"trials": "trials", "sample_weight": "often"}),
    "counts": (PoissonRegression(), "n", {"exposure": "years", "offset": "push"}),
    "root": (PoissonRegression("sqrt"), "n", {"sample_weight": "often"}),
}


@pytest.fixture(scope="module")
def table():
    """Columns of unequal units, one of them far from zero; some rows without weight or trials."""
    rng = np.random.default_rng(0)
    n = 24_000
    X = rng.standard_normal((n, 4)) * [1.0, 5.0, 0.1, 1.0] + [0.0, 3.0, 0.0, 1e3]
    X[:, 3] = X[:, 3].round()
    eta = (X - [0.0, 3.0, 0.0, 1e3]) @ [0.5, -0.1, 3.0, 0.2] - 1.0
    chance, trials = 1 / (1 + np.exp(-eta)), rng.integers(0, 5, size=n)
    deaths, years = rng.binomial(trials, chance), rng.random(n) + 0.5
    return pl.DataFrame(
        dict(zip(COLUMNS, X.T, strict=True))
        | {
            "d": X[:, 3].astype(int),
            "y": np.where(rng.random(n) < chance, "yes", "no"),
            "often": rng.integers(0, 3, size=n),
            "push": 0.2 * rng.standard_normal(n),
            "trials": trials,
            "deaths": deaths,
            "share": deaths / np.maximum(trials, 1),
            "years": years,
            "n": rng.poisson(years * np.exp(0.5 * eta)),
        }
    )


def same(fitted, whole):
    """Compare coefficients in standard errors: that is what a difference means."""
    errors = whole.standard_errors_
    found = np.append(fitted.intercept_, fitted.coef_)[-errors.size :]
    wanted = np.append(whole.intercept_, whole.coef_)[-errors.size :]
    finite = np.isfinite(wanted) & np.isfinite(errors)
    np.testing.assert_array_equal(found[~finite], wanted[~finite])
    np.testing.assert_allclose((found / errors)[finite], (wanted / errors)[finite], atol=1e-6)
    np.testing.assert_allclose(found[finite], wanted[finite], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(fitted.standard_errors_, errors, rtol=1e-8)
    for name in ("log_likelihood_", "deviance_", "null_deviance_", "aic_", "n_observations_"):
        assert getattr(fitted, name) == pytest.approx(getattr(whole, name), rel=1e-10), name
    assert (fitted.names_, fitted.df_residual_) == (whole.names_, whole.df_residual_)
    assert (fitted.separated_, fitted.aliased_) == (whole.separated_, whole.aliased_)


def both(model, table, target, beside, source):
    """Return the fit to the source, and that to the table."""
    from sklearn.base import clone

    arrays = {name: table[column].to_numpy() for name, column in beside.items()}
    whole = clone(model).fit(table.select(COLUMNS), table[target].to_numpy(), **arrays)
    return clone(model).fit(source, target, **beside), whole


@pytest.mark.parametrize("case", WHOLE)
@pytest.mark.filterwarnings("ignore::crossfade.errors.IgnoredRowsWarning")
def test_a_source_gives_the_regression_of_the_table(table, case):
    model, target, beside = WHOLE[case]
    columns = table.select([*COLUMNS, target, *beside.values()])
    fitted, whole = both(model, table, target, beside, MemorySource(columns, size=7_001))
    same(fitted, whole)
    assert fitted.n_passes_ <= 8
    for kind in ("HC1", "HC3"):
        ours, theirs = fitted.robust_covariance(kind), whole.robust_covariance(kind)
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert fitted.pearson_dispersion_ == pytest.approx(whole.pearson_dispersion_, rel=1e-8)
    summary = fitted.summary()
    np.testing.assert_allclose(summary.p_values, whole.summary().p_values, atol=1e-8)
    assert str(summary).splitlines()[0] == str(whole.summary()).splitlines()[0]


def test_a_ridge_on_columns_that_others_determine(table):
    rows = table.select(*COLUMNS, "n").with_columns(e=pl.col("a") - 2.0 * pl.col("b"))
    fitted = PoissonRegression(l2=2.0).fit(MemorySource(rows, size=7_001), "n")
    whole = PoissonRegression(l2=2.0).fit(rows.drop("n"), table["n"].to_numpy())
    same(fitted, whole)
    assert (fitted.rank_, fitted.coef_.size) == (5, 5)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_files_give_the_regression_of_the_table(table, tmp_path, suffix):
    rows = table.select([*COLUMNS, "n", "years"])
    source = scan(write(rows, tmp_path / "parts", 3, suffix=suffix))
    fitted, whole = both(PoissonRegression(), table, "n", {"exposure": "years"}, source)
    same(fitted, whole)
    few = scan(write(rows[:500], tmp_path / "few", 2, suffix=suffix), drop=["n"])
    np.testing.assert_allclose(
        fitted.predict(few, exposure="years"),
        whole.predict(rows[:500].select(COLUMNS), exposure=rows["years"][:500].to_numpy()),
        rtol=1e-8,
    )
    # Tests by sums take further passes, and say the same.
    before = fitted._training.data.n_passes
    for name in ("likelihood_ratio_test", "score_test"):
        ours, theirs = getattr(fitted, name)("a"), getattr(whole, name)("a")
        assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-6)
    assert fitted._training.data.n_passes > before
    assert fitted.n_passes_ <= 8


LAYOUTS = {
    "by columns": np.asfortranarray,
    "some columns": lambda X: np.column_stack([X, X[:, :1]])[:, :-1],
    "some columns of columns": lambda X: np.asfortranarray(np.column_stack([X, X[:, :1]]))[:, :-1],
    "every second": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "backwards": lambda X: np.asfortranarray(X[::-1, ::-1])[::-1, ::-1],
    "one value": lambda X: np.broadcast_to(X[:, :1], X.shape),
    "float32": lambda X: np.asfortranarray(X, dtype=np.float32),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.filterwarnings("ignore::crossfade.errors.AliasedColumnsWarning")
def test_arrays_are_read_as_they_lie(table, layout):
    dask = pytest.importorskip("dask.array")
    X = LAYOUTS[layout](table.select(COLUMNS).to_numpy())
    assert not X.flags.c_contiguous
    y, kept = table["n"].to_numpy(), X.copy()
    chunks = [np.array_split(values, [9_000, 9_001]) for values in (X, y)]
    # dask.array.from_array would copy; what is concatenated keeps the layout of its parts.
    apart = [
        dask.concatenate([dask.from_array(one, chunks=-1, asarray=False) for one in parts])
        for parts in chunks
    ]
    fitted = PoissonRegression().fit(*apart)
    same(fitted, PoissonRegression().fit(np.ascontiguousarray(X, dtype=np.float64), y))
    np.testing.assert_array_equal(X, kept)
    in_place = layout in ("by columns", "some columns", "some columns of columns")
    assert np.shares_memory(as_floats(X, in_place=True), X) == in_place


def test_a_fault_among_the_first_rows_is_named_by_its_own_row(table):
    dask = pytest.importorskip("dask.array")
    X, y = table.select(COLUMNS).to_numpy(), table["n"].to_numpy().astype(float)
    messages = []
    for row in (0, len(y) // 2 - 1):  # the head of a part holds its first and its last row
        wrong = y.copy()
        wrong[row] = -1.0
        parts = dask.from_array(X, chunks=(12_000, 4)), dask.from_array(wrong, chunks=12_000)
        for rows in ((X, wrong), parts):
            with pytest.raises(DataError, match=f"-1 in row {row};") as caught:
                PoissonRegression().fit(*rows)
            messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert messages[2] == messages[3]


def test_rows_without_trials_are_counted(table):
    source = MemorySource(table.select([*COLUMNS, "deaths", "trials"]), size=5_000)
    n_empty = int((table["trials"] == 0).sum())
    with pytest.warns(IgnoredRowsWarning, match=f"^{n_empty} rows with zero trials ignored"):
        BinomialRegression().fit(source, "deaths", trials="trials")


def separated_tables():
    """Return tables whose optimum is infinite, or nearly: along a rare column, everywhere, …"""
    rng = np.random.default_rng(1)
    n = 9_000
    X = rng.standard_normal((n, 4))
    rare = np.zeros(n)
    rare[rng.choice(n, 12, replace=False)] = 1.0
    odds = X[:, 0] - 0.5 * X[:, 1]
    y = (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int)
    along = np.column_stack([X[:, :3], rare])
    yield "rare", along, np.where(rare > 0, 1, y)
    first = np.flatnonzero(rare)[0]
    yield (
        "rare but finite",
        along,
        np.where((rare > 0) & (np.arange(n) != first), 1, y * (rare < 1)),
    )
    yield "complete", X, (odds > 0.3).astype(int)
    broken = (odds > 0.3).astype(int)
    broken[np.argmax(odds)] = 0
    yield "one row against it", X, broken
    tails = 3.0 * rng.standard_t(2, (n, 4))
    yield "faint rows", tails, (rng.random(n) < 1 / (1 + np.exp(-tails[:, 0]))).astype(int)
    twice = np.column_stack([X[:, :3], X[:, 0] - 2 * X[:, 1] + 5])
    yield "aliased", twice, y
    yield "constant", np.column_stack([X[:, :3], np.full(n, 7.0)]), y


@pytest.mark.parametrize("case", list(separated_tables()), ids=lambda case: case[0])
@pytest.mark.parametrize("size", [20_000, 200])
def test_separation_and_aliasing_are_those_of_the_table(case, size, monkeypatch):
    """A sample of all rows sees everything; one of few rows must find the others."""
    monkeypatch.setattr(source_data_module, "SAMPLE_ROWS", size)
    monkeypatch.setattr(source_data_module, "_OF_A_KIND", 20)
    _, X, y = case
    frame = pl.DataFrame(X, schema=COLUMNS, orient="row").with_columns(y=pl.Series(y))
    import warnings

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fitted = BinomialRegression().fit(MemorySource(frame, "y", size=1_000))
        n_told = len(told)
        whole = BinomialRegression().fit(frame.drop("y"), y)
    kinds = [one.category for one in told]
    assert kinds[:n_told] == kinds[n_told:]
    assert (SeparationWarning in kinds) == bool(whole.separated_)
    assert (AliasedColumnsWarning in kinds) == bool(whole.aliased_)
    assert fitted.separated_ == whole.separated_
    assert fitted.aliased_ == whole.aliased_
    finite = np.isfinite(whole.standard_errors_)
    np.testing.assert_allclose(
        fitted.standard_errors_[finite], whole.standard_errors_[finite], rtol=1e-5
    )
    np.testing.assert_array_equal(fitted.standard_errors_[~finite], whole.standard_errors_[~finite])
    np.testing.assert_allclose(fitted.coef_, whole.coef_, rtol=1e-5, atol=1e-7)
    assert fitted.deviance_ == pytest.approx(whole.deviance_, rel=1e-8, abs=1e-8)


def hard_tables():
    """Return tables that single precision may find hard, and whether it serves the first steps."""
    rng = np.random.default_rng(2)
    n = 9_000
    X, often = rng.standard_normal((n, 4)), np.ones(n)
    yield "plain", X, often, True
    yield "far from zero", X * [1.0, 1.0, 1e-3, 50.0] + [0.0, 1e9, 30.0, 1e9], often, True
    yield "units", X * [1e-120, 1e120, 1e30, 1.0], often, True
    yield "weights", X, 10.0 ** rng.integers(0, 13, n), True
    yield "huge weights", X, 2.0**200 * rng.integers(1, 4, n), True
    yield "nearly collinear", np.column_stack([X[:, :3], X[:, 0] + 3e-3 * X[:, 3]]), often, False
    yield "hardly apart", np.column_stack([X[:, :3], X[:, 0] + 1e-5 * X[:, 3]]), often, False


@pytest.mark.parametrize("case", list(hard_tables()), ids=lambda case: case[0])
def test_steps_in_single_precision_lead_to_the_same_end(case, monkeypatch):
    """Where it does not serve, every further pass is in double precision; the last one always."""
    from crossfade.glm.irls import GlmProblem

    _, X, often, serves = case
    rng = np.random.default_rng(3)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    y = (rng.random(len(X)) < 1 / (1 + np.exp(-Z @ [0.5, -0.3, 0.2, 0.1]))).astype(int)
    taken, old = [], GlmProblem._pass

    def taking(problem, theta, **options):
        before, found = problem._known, old(problem, theta, **options)
        if found is not before and len(theta) > 1:
            taken.append(found.exact)
        return found

    monkeypatch.setattr(GlmProblem, "_pass", taking)
    frame = pl.DataFrame(np.column_stack([X, often]), schema=[*COLUMNS, "often"])
    source = MemorySource(frame.with_columns(y=pl.Series(y)), size=4_000)
    fitted = BinomialRegression().fit(source, "y", sample_weight="often")
    same(fitted, BinomialRegression().fit(frame.select(COLUMNS), y, sample_weight=often))
    assert taken[-1]
    assert taken.count(False) == (taken.index(True) if serves else min(1, taken.index(True)))
    assert len(taken) <= 5


def test_single_precision_keeps_its_digits():
    """Products of weighted rows, columns in any units and far from 0, to six digits."""
    from crossfade.glm.design import measure

    rng = np.random.default_rng(4)
    X = rng.standard_normal((3_000, 5)) * [1e-100, 1.0, 1e100, 1e-3, 1.0] + [0, 1e9, 0, 1e3, 2]
    X[:, 4] = np.arange(3_000) < 3
    weights = 10.0 ** rng.uniform(-80.0, -68.0, 3_000)
    for intercept in (True, False):
        design = measure(X, intercept, list("abcde"))
        block = design.block(slice(None))
        exact = design.cross_products(slice(None), weights)
        rough = design.standardised_products(design.rough_products(block, weights), rough=True)
        lengths = np.sqrt(np.diagonal(exact))
        apart = np.abs(rough - exact) / np.outer(lengths, lengths)
        assert apart.max() < 1e-6
        assert apart.max() > 1e-10  # or nothing was saved
    assert (design.rough_products(block, np.zeros(3_000)) == 0.0).all()


def test_a_group_without_counts_is_separated(table):
    frame = table.select("a", "b", "n").with_columns(
        g=(pl.int_range(pl.len()) % 500 == 3).cast(int)
    )
    frame = frame.with_columns(n=pl.col("n") * (1 - pl.col("g")))
    with pytest.warns(SeparationWarning, match=r"columns 'g' separate"):
        fitted = PoissonRegression().fit(MemorySource(frame, "n", size=3_000))
    with pytest.warns(SeparationWarning, match=r"columns 'g' separate"):
        whole = PoissonRegression().fit(frame.drop("n"), frame["n"].to_numpy())
    np.testing.assert_allclose(fitted.coef_, whole.coef_, rtol=1e-7)
    assert fitted.coef_[2] == -np.inf


def test_what_sums_cannot_give_is_refused_by_name(table):
    rows = table.select([*COLUMNS, "y"])[:900]
    fitted = BinomialRegression().fit(MemorySource(rows, "y", size=300))
    for what, ask in (
        ("residuals", fitted.residuals),
        ("influence", fitted.influence),
        ("dispersion_test", fitted.dispersion_test),
        ("groups", lambda: fitted.robust_covariance("cluster", groups=np.arange(900) // 9)),
        ("added", lambda: fitted.score_test(added=np.ones(900))),
    ):
        with pytest.raises(DataError, match=rf"^{what}: expected a model .* fit to a table in mem"):
            ask()
    source = MemorySource(rows, "y", size=300)
    with pytest.raises(DataError, match=r"^method: expected 'irls' for rows that are read"):
        BinomialRegression(method="firth").fit(source)
    with pytest.raises(DataError, match=r"^X: expected a table in memory, got MemorySource"):
        MultinomialRegression().fit(source, rows["y"])
    with pytest.raises(DataError, match=r"^data: expected a data frame, got MemorySource"):
        BinomialRegression.from_formula("y ~ a", source)
    with pytest.raises(DataError, match=r"^offset: expected the name of a column, .* got array"):
        BinomialRegression().fit(source, offset=np.ones(900))
    with pytest.raises(DataError, match=r"^sample_weight: expected the name of a column.*'often'"):
        BinomialRegression().fit(source, sample_weight="often")
    counts = MemorySource(table.select("a", "n"), "n")
    with pytest.raises(DataError, match=r"^fit_intercept: expected True with link='sqrt' for rows"):
        PoissonRegression("sqrt", fit_intercept=False).fit(counts)


def test_faults_in_a_later_part_are_named():
    frame = pl.DataFrame({"x": np.arange(60.0), "y": [0, 1] * 30, "w": 1.0, "t": [2] * 60})
    frame = frame.with_columns(
        hole=pl.when(pl.col("x") == 47).then(None).otherwise(pl.col("x")),
        less=pl.when(pl.col("x") == 47).then(-1.0).otherwise(1.0),
        few=pl.when(pl.col("x") == 47).then(0).otherwise(pl.col("t")),
        three=pl.when(pl.col("x") == 47).then(3).otherwise(pl.col("y")),
    )

    def fit(*columns, **options):
        model = options.pop("model", BinomialRegression())
        return model.fit(MemorySource(frame.select(columns), size=20), **options)

    with pytest.raises(DataError, match=r"got 1 NaN or inf in column 'hole' \(first in row 47\)"):
        fit("hole", "y", y="y")
    with pytest.raises(DataError, match=r"^sample_weight: expected weights of at least 0, got -1"):
        fit("x", "y", "less", y="y", sample_weight="less")
    with pytest.raises(DataError, match=r"^y: Only binary .* got 3 \(0, 1, 3\)"):
        fit("x", "three", y="three")
    with pytest.raises(DataError, match=r"^exposure: .* -1 in row 7; .* \(rows counted from"):
        fit("x", "y", "less", y="y", exposure="less", model=PoissonRegression())
    with pytest.raises(DataError, match=r"^y: expected at most as many successes .* got 1 of 0 in"):
        fit("x", "y", "few", y="y", trials="few")
    weightless = MemorySource(frame.select("x", "y", w=0.0), size=20)
    with pytest.raises(DataError, match=r"^sample_weight: expected some weight above 0, got 60 z"):
        BinomialRegression().fit(weightless, "y", sample_weight="w")


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("sort", [False, True])
def test_the_sample_stands_for_all_rows_of_each_kind(known, sort):
    """It is drawn evenly within each kind of response, wherever the parts lie."""
    rng = np.random.default_rng(5)
    n = 120_000
    y = (rng.random(n) < 0.01).astype(int)
    if sort:  # all of the rare kind in one part
        y = np.sort(y)
    frame = pl.DataFrame({"x": rng.random(n), "y": y})
    source, moved = MemorySource(frame, "y", size=n // 16), []
    source.n_rows = n if known else None
    own = MemorySource.reduce_parts

    def weighing(self, function, join, columns=None):
        def weighed(part):
            found = function(part)
            if hasattr(found, "sample"):
                moved.append(len(found.sample.keys))
            return found

        return own(self, weighed, join, columns)

    MemorySource.reduce_parts = weighing
    try:
        fitted = BinomialRegression().fit(source)
    finally:
        MemorySource.reduce_parts = own
    some = fitted._training.data.sample
    weights, labels = some.weights, some.y
    for label in (0, 1):
        own_rows = y == label
        assert weights[labels == label].sum() == pytest.approx(own_rows.sum())
        assert len(np.unique(weights[labels == label])) == 1
        mean = frame["x"].to_numpy()[own_rows].mean()
        assert some.X[labels == label, 0].mean() == pytest.approx(mean, abs=0.03)
    # Where the kind is rare in its parts it is drawn more often than the other.
    assert (labels == 1).sum() >= (150 if sort and known else 1_000)
    assert 19_000 < (labels == 0).sum() < 42_000
    if known:  # hardly more rows than the sample has leave their parts
        assert sum(moved) < 26_000
