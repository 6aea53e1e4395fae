"""Does ``tradeoff="auto"`` earn its place? Held-out losses against what an analyst would tune.

    python -m benchmarks.selection --splits 50 --sizes 30 100 300 1000 --store auto.jsonl

Every cell is a data set and a number of training rows; all models see the same stratified splits.
The default pool, its members, its rivals (LightGBM and EBM where they are installed) and
scikit-learn's stack of the same members: `--models pool "NB auto" "GD full" forest boosting
LightGBM EBM stacking --sizes 50 200 1000`.
Results are kept in the store, one line per split, so that a run can be stopped and continued,
and `--report` prints the tables of the splits on which all of the `--models` were scored that are
in the store at all. Data sets that scikit-learn brings are always
there; others are read from the folder that ``CROSSFADE_DATA`` names, ``../shared/data`` by default.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import StackingClassifier
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.store import Store, add_store, run_and_report
from crossfade import GaussianDiscriminant, NaiveBayes, PooledClassifier
from crossfade.pools.members import MEMBERS, boosting, default_names, random_forest
from crossfade.table import Schema
from crossfade.table.preparation import Indicators, Preparation

TITLE = "held-out losses of the choice among tradeoffs"

_BUNDLED = {"iris": load_iris, "wine": load_wine, "wdbc": load_breast_cancer, "digits": load_digits}

_FILES = {
    "pima": "ng_jordan/pima.csv",
    "ionosphere": "ng_jordan/ionosphere.csv",
    "sonar": "ng_jordan/sonar.csv",
    "liver": "ng_jordan/liver.csv",
    "heart": "statlog/heart.csv",
    "australian": "statlog/australian.csv",
    "vehicle": "statlog/vehicle.csv",
    "satimage": "statlog/satimage.csv",
    "votes": "ng_jordan/house_votes_84.csv",
    "credit": "mixed/credit_g.csv",
    "hepatitis": "mixed/hepatitis.csv",
    "titanic": "mixed/titanic.csv",
    "horse-colic": "mixed/horse_colic.csv",
    "recurrence": "ng_jordan/breast_cancer.csv",
    "adult": "ng_jordan/adult.csv.gz",
}

SETS = (*_BUNDLED, *_FILES)

#: Read where they are asked for: of "sick" one column has a threshold.
_FURTHER = {"sick": "ng_jordan/sick.csv"}

#: Rows of a class that a training part must have in the mean, for five folds to mean anything.
_FEWEST_OF_A_CLASS = 3

_MOST_TEST_ROWS = 2_000

#: Points of the grid of NaiveBayes, both variants of a Gaussian.
_CANDIDATES = 18


def _prepared(model: Any, *, scaled: bool = True) -> Any:
    steps = [Preparation(drop_first=True), *([StandardScaler()] if scaled else []), model]
    return make_pipeline(*steps)


MODELS: dict[str, Callable[[], Any]] = {
    "NB auto": lambda: NaiveBayes(),
    "NB best": lambda: NaiveBayes(tradeoff="best"),
    "NB 1": lambda: NaiveBayes(tradeoff=1),
    "NB 0": lambda: NaiveBayes(tradeoff=0),
    "GD auto": lambda: _prepared(GaussianDiscriminant(), scaled=False),
    "GD best": lambda: _prepared(GaussianDiscriminant(tradeoff="best"), scaled=False),
    "GD 1": lambda: _prepared(GaussianDiscriminant(tradeoff=1), scaled=False),
    "GD 0": lambda: _prepared(GaussianDiscriminant(tradeoff=0), scaled=False),
    "GD full": lambda: GaussianDiscriminant("full"),
    "LR CV": lambda: _prepared(
        LogisticRegressionCV(
            Cs=_CANDIDATES,
            cv=5,
            scoring="neg_log_loss",
            max_iter=1000,
            l1_ratios=(0,),
            use_legacy_attributes=False,
        )
    ),
    "LR C=1": lambda: _prepared(LogisticRegression(max_iter=1000)),
    "NB pairs": lambda: NaiveBayes(interactions="auto"),
    "NB steps": lambda: NaiveBayes(thresholds="auto"),
    "pool": lambda: PooledClassifier(),
    "forest": random_forest,
    "boosting": boosting,
    "GNB cal.": lambda: _prepared(CalibratedClassifierCV(GaussianNB(), cv=5), scaled=False),
}


def _lightgbm() -> Any:
    from lightgbm import LGBMClassifier

    return make_pipeline(Indicators(), LGBMClassifier(verbose=-1, n_jobs=1, random_state=0))


def _additive_trees() -> Any:
    from interpret.glassbox import ExplainableBoostingClassifier

    return make_pipeline(Indicators(), ExplainableBoostingClassifier(n_jobs=1, random_state=0))


class _Stacking(BaseEstimator):
    """scikit-learn's stack of the default pool's members for a table."""

    def fit(self, X: Any, y: Any) -> Any:
        names = default_names(Schema.learn(X), len(X))
        members = [(name, MEMBERS[name](0)) for name in names]
        return StackingClassifier(members, LogisticRegression(max_iter=1000)).fit(X, y)


MODELS["stacking"] = _Stacking
for _package, _name, _make in (
    ("lightgbm", "LightGBM", _lightgbm),
    ("interpret", "EBM", _additive_trees),
):
    if find_spec(_package) is not None:
        MODELS[_name] = _make

#: Members of the default pool, by the names that they have here.
_MEMBERS = ("NB auto", "GD full", "forest", "boosting")

METRICS = ("log-loss", "Brier", "error", "seconds")


def data_set(name: str) -> tuple[Any, Any] | None:
    """Return columns and labels, None where the file is not there."""
    if name in _BUNDLED:
        bunch = _BUNDLED[name]()
        names = [f"x{j}" for j in range(bunch.data.shape[1])]
        return pl.DataFrame(bunch.data, schema=names), bunch.target
    here = Path(__file__).parents[2] / "shared" / "data"
    path = Path(os.environ.get("CROSSFADE_DATA", here)) / (_FILES | _FURTHER)[name]
    if not path.exists():
        return None
    frame = pl.read_csv(path, infer_schema_length=None)
    return frame.drop("target"), frame["target"].to_numpy()


def _splits(y: Any, n: int, n_splits: int, seed: int = 0) -> Iterator[tuple[Any, Any]]:
    n_test = min(_MOST_TEST_ROWS, len(y) - n)
    split = StratifiedShuffleSplit(n_splits, train_size=n, test_size=n_test, random_state=seed)
    return iter(split.split(np.zeros(len(y)), y))


def _large_enough(y: Any, n: int) -> bool:
    rarest = np.unique(y, return_counts=True)[1].min() / len(y)
    return bool(n <= 0.75 * len(y) and n * rarest >= _FEWEST_OF_A_CLASS)


def scores(model: Any, X: Any, y: Any, train: Any, test: Any) -> list[float]:
    """Return log-loss, Brier score, error and fit time of one split."""
    start = time.process_time()
    fitted = model.fit(X[train], y[train])
    seconds = time.process_time() - start
    posterior = np.clip(fitted.predict_proba(X[test]), 1e-15, None)
    posterior /= posterior.sum(axis=1, keepdims=True)
    codes = np.searchsorted(fitted.classes_, y[test])
    own = posterior[np.arange(len(codes)), codes]
    brier = (posterior**2).sum(axis=1) - 2.0 * own + 1.0
    wrong = posterior.argmax(axis=1) != codes
    return [float(-np.log(own).mean()), float(brier.mean()), float(wrong.mean()), seconds]


def run(
    sets: Iterable[str],
    sizes: Iterable[int],
    n_splits: int,
    store: Path,
    models: Iterable[str],
    seed: int = 0,
) -> None:
    """Score what the store lacks, one split of all cells after the other."""
    found = Store(store)
    chosen = [(name, data_set(name)) for name in sets]
    for split in range(n_splits):
        for n in sizes:
            for name, data in chosen:
                if data is None or not _large_enough(data[1], n):
                    continue
                X, y = data
                train, test = list(_splits(y, n, split + 1, seed))[split]
                for model in [m for m in models if (name, n, split, m) not in found]:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        values = scores(MODELS[model](), X, y, train, test)
                    found.add((name, n, split, model), values)
                print(name, n, split, file=sys.stderr, flush=True)


def report(store: Path, models: Iterable[str] = tuple(MODELS)) -> str:
    """Return the tables of what the store holds of these models, as far as all were scored."""
    splits: dict[tuple[str, int], dict[int, dict[str, list[float]]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for (name, n, split, model), values in Store(store).items():
        splits[name, n][split][model] = values
    if not splits:
        return f"nothing is in {store} yet"
    names = [m for m in models if any(m in at for cell in splits.values() for at in cell.values())]
    names.sort(key=lambda name: name != "pool")  # which is what is asked about, where it is there
    cells: dict[tuple[str, int], Any] = {}
    for cell, by_split in splits.items():
        whole = [at for _, at in sorted(by_split.items()) if all(m in at for m in names)]
        if whole:
            cells[cell] = np.array([[at[m] for m in names] for at in whole])
    sizes = sorted({n for _, n in cells})
    parts = [{cell: found for cell, found in cells.items() if cell[1] == n} for n in sizes]
    tables = [_by_cell(names, cells, metric) for metric in range(len(METRICS))]
    means = [_means(names, part) for part in (parts if len(parts) > 1 else []) + [cells]]
    return "\n\n".join([*means, *_shortfalls(names, cells), *tables])


def _head(*columns: str) -> list[str]:
    return [f"| {' | '.join(columns)} |", f"|---|{'---:|' * (len(columns) - 1)}"]


def _means(names: list[str], cells: dict[tuple[str, int], Any]) -> str:
    """Return means over cells, and the paired difference of the first model to each."""
    means = np.array([values.mean(axis=0) for values in cells.values()])
    splits = sorted({len(values) for values in cells.values()})
    rows = ", ".join(map(str, sorted({n for _, n in cells})))
    lines = [
        f"{rows} rows: means over {len(cells)} cells (a data set and a number of training rows) of "
        f"{' to '.join(map(str, dict.fromkeys((splits[0], splits[-1]))))} splits; differences of "
        f"{names[0]} to each, paired over cells, ± standard error; of seconds its ratio to each",
        "",
        *_head("model", *(part for metric in METRICS for part in (metric, "difference"))),
    ]
    lines[-2] = lines[-2].removesuffix("difference |") + "ratio |"
    for m, name in enumerate(names):
        row = [name]
        for k, metric in enumerate(METRICS):
            gap = means[:, 0, k] - means[:, m, k]
            error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.nan
            shown = f"{gap.mean():+.4f} ± {error:.4f}"
            if metric == "seconds":
                shown = f"{np.exp(np.log(means[:, 0, k] / means[:, m, k]).mean()):.2f}"
            row += [f"{means[:, m, k].mean():.4f}", "" if m == 0 else shown]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def _by_cell(names: list[str], cells: dict[tuple[str, int], Any], metric: int) -> str:
    """Return one metric's means by cell, and the first model's paired differences to each."""
    lines = [
        f"{METRICS[metric]} by cell; in brackets the difference of {names[0]}, paired over splits, "
        "± standard error",
        "",
        *_head("data set", "rows", "splits", *names),
    ]
    for (name, n), values in sorted(cells.items()):
        losses = values[:, :, metric]
        means, least = losses.mean(axis=0), losses.mean(axis=0).min()
        shown = []
        for m, mean in enumerate(means):
            text = f"**{mean:.4f}**" if mean == least else f"{mean:.4f}"
            if m:
                gap = losses[:, 0] - losses[:, m]
                error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.nan
                text += f" ({gap.mean():+.4f} ± {error:.4f})"
            shown.append(text)
        lines.append(f"| {name} | {n} | {len(values)} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _shortfalls(names: list[str], cells: dict[tuple[str, int], Any]) -> list[str]:
    """List the cells where the first model's log-loss is clearly above another's."""
    others = names[1:]
    asked = [(5, "the best other", others)]
    if names[0] == "pool":
        asked.append((2, "its best member", [name for name in others if name in _MEMBERS]))
    return [_above(names, cells, *one) for one in asked if one[2]]


def _above(
    names: list[str], cells: dict[tuple[str, int], Any], percent: int, what: str, others: list[str]
) -> str:
    lines = []
    for (name, n), values in sorted(cells.items()):
        losses = values[:, :, 0]
        means = losses.mean(axis=0)
        best = min(map(names.index, others), key=means.__getitem__)
        gap = losses[:, 0] - losses[:, best]
        error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.inf
        if gap.mean() > max(0.01 * percent * means[best], 2.0 * error):
            lines.append(
                f"- {name}, {n} rows: {means[0]:.4f} against {means[best]:.4f} of {names[best]} "
                f"({100 * gap.mean() / means[best]:+.1f} ± {100 * error / means[best]:.1f} %)"
            )
    title = f"cells where {names[0]} is over {percent} % and two standard errors worse than {what}"
    return "\n".join([title, "", *(lines or ["none"])])


def honesty(sets: Iterable[str], sizes: Iterable[int], n_splits: int) -> str:
    """Return the out-of-fold loss that naive Bayes reports against its loss on fresh rows."""
    lines = ["reported out-of-fold log-loss of NaiveBayes() / log-loss of fresh rows", ""]
    lines += _head("data set", "rows", "splits", "reported", "fresh", "ratio", "from")
    ratios: dict[int, list[float]] = defaultdict(list)
    for n in sizes:
        for name, data in ((name, data_set(name)) for name in sets):
            if data is None or not _large_enough(data[1], n):
                continue
            X, y = data
            found = []
            for train, test in _splits(y, n, n_splits):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = NaiveBayes().fit(X[train], y[train])
                    log_posterior = model.predict_log_proba(X[test])
                codes = np.searchsorted(model.classes_, y[test])
                said = re.search(r"log-loss ([0-9.e+-]+)", model.selection_)
                fresh = -log_posterior[np.arange(len(codes)), codes].mean()
                found.append((float(said[1]) if said else np.nan, fresh))
            reported, fresh = np.mean(found, axis=0)
            ratios[n].append(reported / fresh)
            how = "folds" if "refits on" in model.selection_ else "leave-one-out"
            cells = f"{reported:.4f} | {fresh:.4f} | {reported / fresh:.3f} | {how}"
            lines.append(f"| {name} | {n} | {n_splits} | {cells} |")
            print(lines[-1], file=sys.stderr, flush=True)
    for n, each in ratios.items():
        error = np.std(each, ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.nan
        lines.append(f"\n{n} rows: mean ratio {np.mean(each):.3f} ± {error:.3f}")
    return "\n".join(lines)


def timing(rounds: int = 5) -> str:
    """Return the processor time of "auto" next to its rivals on drawn rows of 30 columns."""

    def seconds(model: Any, X: Any, y: Any) -> float:
        start = time.process_time()
        model.fit(X, y)
        return time.process_time() - start

    lines = ["processor time of a fit, median, 30 continuous columns, two classes", ""]
    for n, name, rival in (
        (1_000, f"LogisticRegressionCV of {_CANDIDATES} strengths", MODELS["LR CV"]),
        (100_000, "NaiveBayes(tradeoff=0)", MODELS["NB 0"]),
    ):
        rng = np.random.default_rng(0)
        y = rng.integers(2, size=n)
        X = rng.normal(size=(n, 30)) + 0.3 * y[:, None] * rng.normal(size=30)
        X[:, 1:] += 0.4 * X[:, :-1]
        for model in (NaiveBayes(), rival()):
            model.fit(X[:600], y[:600])
        pairs = [(seconds(NaiveBayes(), X, y), seconds(rival(), X, y)) for _ in range(rounds)]
        own, other = np.median(pairs, axis=0)
        lines.append(f"- {n} rows: auto {own:.3f} s, {name} {other:.3f} s, ratio {own / other:.2f}")
    return "\n".join(lines)


def table(n_splits: int = 20) -> str:
    """Return the means of some small cells, scored anew."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "scores.jsonl"
        sets = ("iris", "wine", "wdbc", "pima", "australian", "votes")
        run(sets, (100,), n_splits, store, MODELS)
        return report(store)


def main(arguments: list[str] | None = None) -> int:
    """Score, then print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.selection", description=__doc__)
    parser.add_argument("--splits", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0, help="of the splits; one store a seed")
    parser.add_argument("--sizes", type=int, nargs="+", default=[30, 100, 300, 1000])
    parser.add_argument(
        "--sets", nargs="+", default=list(SETS), choices=(*SETS, *_FURTHER), metavar="SET"
    )
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    add_store(parser, "selection.jsonl")
    parser.add_argument("--honesty", action="store_true", help="only reported against fresh loss")
    parser.add_argument("--timing", action="store_true", help="only time drawn rows")
    options = parser.parse_args(arguments)
    if options.timing or options.honesty:
        chosen = options.sets, options.sizes, options.splits
        print(timing() if options.timing else honesty(*chosen))
        return 0
    chosen = options.sets, options.sizes, options.splits, options.store, options.models
    return run_and_report(
        options, lambda: run(*chosen, options.seed), lambda store: report(store, options.models)
    )


if __name__ == "__main__":
    sys.exit(main())
