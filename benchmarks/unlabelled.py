"""Do rows without a label help, and can they hurt?

    python -m benchmarks.unlabelled --splits 5 --store unlabelled.jsonl

Of each table 20, 50 and 200 rows keep their label; up to 2,000 others have none, and the rest is
predicted. A model of the labelled rows alone is held against the same model with `unlabelled=`, by
log-loss on the same rows. Beside them: scikit-learn's SelfTrainingClassifier and LabelSpreading,
which get the same columns as numbers (categories as indicators, all standardised; tf-idf of text),
and in whose favour no probability counts as less than 1e-4.

Each split is kept in the store, one line, so that a run can be stopped and continued, with more
splits, other `--sets` and `--sizes`; a cell's line is printed when it is done, and `--report` shows
what there is.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from benchmarks.store import Store, add_store, run_and_report, say
from crossfade import GaussianDiscriminant, NaiveBayes
from crossfade.table.preparation import Preparation

TITLE = "unlabelled: rows without a label in fit"
_OWN: dict[str, Any] = {
    "iris": load_iris,
    "wine": load_wine,
    "breast-cancer": load_breast_cancer,
    "digits": load_digits,
}
_FILES = {
    "votes": "ng_jordan/house_votes_84.csv",
    "heart": "statlog/heart.csv",
    "vehicle": "statlog/vehicle.csv",
    "australian": "statlog/australian.csv",
    "titanic": "mixed/titanic.csv",
    "credit-g": "mixed/credit_g.csv",
    "satimage": "statlog/satimage.csv",
    "adult": "ng_jordan/adult.csv.gz",
    "sms_spam": "text/sms_spam.csv",
    "subj": "text/subj.csv",
    "cr": "text/cr.csv",
    "rt_polarity": "text/rt_polarity.csv",
}
_TEXT = ("sms_spam", "subj", "cr", "rt_polarity")
SETS = (*_OWN, *_FILES)

_SIZES = (20, 50, 200)
_MOST_UNLABELLED, _MOST_TESTED, _LARGEST_SHARE = 2_000, 1_000, 0.4

#: The rule by which their weight is chosen was settled on splits with smaller seeds.
_FIRST_SEED = 100

_OF_TEXT, _RIVALS, _AND_OTHERS = "naive Bayes", "rivals", " and others"
_MODELS: dict[str, Callable[..., Any]] = {
    _OF_TEXT: NaiveBayes,
    "shared Gaussian": GaussianDiscriminant,
}


class _Split(NamedTuple):
    """Rows with a label, rows without one, and rows to predict."""

    labelled: Any
    unlabelled: Any
    test: Any


def table(n_splits: int = 5, sets: Sequence[str] = SETS, say: Callable[[str], None] = print) -> str:
    """Return log-losses with and without unlabelled rows, a line per set, size and model."""
    with TemporaryDirectory() as folder:
        store = Path(folder) / "unlabelled.jsonl"
        run(store, n_splits, sets, _SIZES, say)
        return report(store)


def run(
    path: Path,
    n_splits: int,
    sets: Sequence[str],
    sizes: Sequence[int],
    say: Callable[[str], None],
    first_seed: int = _FIRST_SEED,
    tradeoff: str | float = "auto",
) -> None:
    """Do the splits that the store lacks."""
    store = Store(path)
    for name in sets:
        found = _read(name)
        if found is None:
            say(f"{name} is not there")
            continue
        X, y = found
        models = [_RIVALS]
        for model in [_OF_TEXT] if name in _TEXT else _MODELS:
            models += [model, model + _AND_OTHERS]
        for size in sizes:
            if size > _LARGEST_SHARE * len(y):
                continue
            new = False
            for seed in range(first_seed, first_seed + n_splits):
                split = _split(y, size, seed)
                for model in models:
                    key = (name, size, model, seed)
                    if key not in store:
                        store.add(key, _scores(model, X, y, split, name in _TEXT, tradeoff))
                        new = True
            if new:
                for line in _cells(store, name, size):
                    say(line)


def report(path: Path) -> str:
    """Return the log-losses that the store holds, as a Markdown table, and a verdict."""
    store = Store(path)
    lines = [
        "| data set | labels | splits | model | log-loss | with the others | difference "
        "| weighed above 0 | self-training | label spreading |",
        "|---|---:|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    cells = [(key[0], key[1]) for key in store]
    cells = sorted(set(cells), key=lambda cell: (SETS.index(cell[0]), cell[1]))
    gaps: list[float] = []
    changes: list[tuple[float, str]] = []
    for name, size in cells:
        lines += _cells(store, name, size)
        for model, scored in _scored(store, name, size).items():
            if model != _RIVALS:
                gaps.extend(scored[:, 1] - scored[:, 0])
                plain, whole = scored[:, :2].mean(axis=0)
                change = 100.0 * (whole / plain - 1.0)
                changes.append((change, f"{name}, {size} labels, {model}"))
    if changes:
        lines += ["", _verdict(np.array(gaps), changes)]
    return "\n".join(lines)


def _scored(store: Store, name: str, size: int) -> dict[str, Any]:
    """Return what a cell's models scored without and with others, and the rivals, by split."""
    cell = {
        (who, seed): one for (of, n, who, seed), one in store.items() if (of, n) == (name, size)
    }
    found: dict[str, Any] = {}
    for model in _MODELS:
        seeds = [seed for who, seed in cell if who == model + _AND_OTHERS]
        if seeds:
            rows = [cell[model, seed] + cell[model + _AND_OTHERS, seed] for seed in seeds]
            found[model] = np.array(rows)
    found[_RIVALS] = np.array([one for (who, _), one in cell.items() if who == _RIVALS])
    return found


def _cells(store: Store, name: str, size: int) -> list[str]:
    scored = _scored(store, name, size)
    rivals = scored.pop(_RIVALS)
    return [_line(name, size, model, each, rivals) for model, each in scored.items()]


def _line(name: str, size: int, model: str, scored: Any, rivals: Any) -> str:
    plain, whole = scored[:, :2].mean(axis=0)
    gap = scored[:, 1] - scored[:, 0]
    error = gap.std(ddof=1) / np.sqrt(gap.size) if gap.size > 1 else np.nan
    change = 100.0 * (whole / plain - 1.0)
    taught, spread = np.mean(rivals, axis=0)
    return (
        f"| {name} | {size} | {gap.size} | {model} | {plain:.3f} | {whole:.3f} ({change:+.1f} %) "
        f"| {gap.mean():+.4f} ±{error:.4f} | {int((scored[:, 2] > 0).sum())} of {gap.size} "
        f"| {taught:.3f} | {spread:.3f} |"
    )


def _verdict(gaps: Any, cells: Sequence[tuple[float, str]]) -> str:
    changes = np.array([change for change, _ in cells])
    error = gaps.std(ddof=1) / np.sqrt(gaps.size)
    worst = max(cells)
    return (
        f"log-loss with unlabelled rows less that without, {gaps.size} pairs: {gaps.mean():+.4f} "
        f"±{error:.4f} ({gaps.mean() / error:+.1f} standard errors); mean of {changes.size} cells "
        f"{changes.mean():+.1f} %, {int((changes > 2.0).sum())} of them more than 2 % worse; worst "
        f"{worst[0]:+.1f} % ({worst[1]}), best {changes.min():+.1f} %"
    )


def _read(name: str) -> tuple[Any, Any] | None:
    if name in _OWN:
        X, y = _OWN[name](return_X_y=True)
        return pl.DataFrame(X), y
    path = Path(os.environ.get("CROSSFADE_DATA", "")) / _FILES[name]
    if not path.exists():
        return None
    frame = pl.read_csv(path, infer_schema_length=None)
    frame = frame.filter(pl.col("target").is_not_null())
    X = frame.select("text") if name in _TEXT else frame.drop("target")
    return X, frame["target"].to_numpy()


def _split(y: Any, size: int, seed: int) -> _Split:
    """Return a random split with two labelled rows of each class at least."""
    order = np.random.default_rng(seed).permutation(len(y))
    n_test = min(len(y) // 3, _MOST_TESTED)
    test, rest = order[:n_test], order[n_test:]
    first = np.concatenate([rest[y[rest] == label][:2] for label in np.unique(y)])
    others = rest[~np.isin(rest, first)]
    n_more = max(size - first.size, 0)
    labelled = np.append(first, others[:n_more])
    return _Split(labelled, others[n_more : n_more + _MOST_UNLABELLED], test)


def _scores(
    model: str, X: Any, y: Any, split: _Split, is_text: bool, tradeoff: str | float
) -> list[float]:
    """Return log-losses: of a model (with others and what each counts), or of both rivals."""
    if model == _RIVALS:
        return _rivals(X, y, split, is_text)
    of, others = _MODELS[model.removesuffix(_AND_OTHERS)], model.endswith(_AND_OTHERS)
    rows, labels = split.labelled, y[split.labelled]
    if others:
        rows = np.append(rows, split.unlabelled)
        labels = [*labels.tolist(), *[None] * len(split.unlabelled)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        marked = "missing" if others else None
        fitted = of(tradeoff=tradeoff, unlabelled=marked).fit(X[rows], labels)
        loss = _loss(fitted.classes_, fitted.predict_proba(X[split.test]), y[split.test])
    return [loss, fitted.unlabelled_weight_] if others else [loss]


def _rivals(X: Any, y: Any, split: _Split, is_text: bool) -> list[float]:
    """Return the log-loss of self-training and of label spreading."""
    rows = X[np.append(split.labelled, split.unlabelled)]
    if is_text:
        cut = TfidfVectorizer(sublinear_tf=True).fit(rows["text"].to_list())
        Z, T = (cut.transform(one["text"].to_list()) for one in (rows, X[split.test]))
    else:
        prepared = Preparation().fit(rows)
        Z, T = prepared.transform(rows), prepared.transform(X[split.test])
    classes, codes = np.unique(y, return_inverse=True)
    labels = np.append(codes[split.labelled], np.full(len(split.unlabelled), -1))
    found: list[float] = []
    for model in (
        SelfTrainingClassifier(LogisticRegression(max_iter=1_000)),
        LabelSpreading(kernel="knn", n_neighbors=7),
    ):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            own, new = Z, T
            if is_text and isinstance(model, LabelSpreading):
                axes = TruncatedSVD(50, random_state=0).fit(Z)
                own, new = axes.transform(Z), axes.transform(T)
            posterior = model.fit(own, labels).predict_proba(new)
        known = classes[getattr(model, "classes_", np.arange(classes.size))]
        found.append(_loss(known, np.nan_to_num(posterior), y[split.test], least=1e-4))
    return found


def _loss(classes: Any, posterior: Any, truth: Any, least: float = 1e-15) -> float:
    """Return the mean log-loss, in which no probability counts as less than `least`."""
    posterior = np.maximum(posterior, least)
    posterior = posterior / posterior.sum(axis=1, keepdims=True)
    return float(-np.log(posterior[np.arange(len(truth)), np.searchsorted(classes, truth)]).mean())


def _tradeoff(text: str) -> str | float:
    return text if text in ("auto", "best") else float(text)


def main(arguments: list[str] | None = None) -> int:
    """Do the splits and print the table, also of a run that is stopped."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.unlabelled", description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS, metavar="SET")
    parser.add_argument("--sizes", nargs="+", type=int, default=_SIZES, metavar="N")
    parser.add_argument("--first-seed", type=int, default=_FIRST_SEED, help="of the splits")
    told = "auto, best or a number; a store of its own for each"
    parser.add_argument("--tradeoff", type=_tradeoff, default="auto", help=told)
    add_store(parser, "unlabelled.jsonl")
    options = parser.parse_args(arguments)
    chosen = options.splits, options.sets, options.sizes, say, options.first_seed, options.tradeoff
    return run_and_report(options, lambda: run(options.store, *chosen), report)


if __name__ == "__main__":
    sys.exit(main())
