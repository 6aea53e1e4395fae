"""``crossfade fit DATA``: the model to take home, in a file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crossfade.commands.options import (
    Batches,
    Data,
    Drop,
    Encoding,
    Missing,
    Seed,
    Separator,
    Target,
    Text,
)

if TYPE_CHECKING:
    from crossfade.commands.tables import OpenTable
    from crossfade.io.file_source import FileSource

#: Rows of a table read in parts by which its columns are judged.
_FIRST_ROWS = 20_000


def fit(
    data: Data,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", help="The model file to write, name.skops."),
    ],
    target: Target = None,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help="best (of Crossfade's own, by held-out log-loss as crossfade compare finds it), "
            "or naive-bayes, gaussian-shared, gaussian-full (nb:0.5 is --model naive-bayes "
            "--tradeoff 0.5); or pool, several weighted by "
            "held-out log-loss (pool:nb,forest: of these; nb, shared, full, forest, boosting).",
        ),
    ] = "best",
    tradeoff: Annotated[
        str | None,
        typer.Option(
            help="λ of a named model: 0 (discriminative) to 1 (generative), or auto.  "
            "[default: auto]"
        ),
    ] = None,
    handle_unknown: Annotated[
        str | None,
        typer.Option(
            help="What naive-bayes does with a category that is new in crossfade predict: "
            "ignore (take it as missing) or error.  [default: ignore]"
        ),
    ] = None,
    splits: Annotated[int, typer.Option(help="Number of random splits for best.")] = 20,
    seed: Seed = 0,
    drop: Drop = None,
    missing: Missing = None,
    text: Text = None,
    separator: Separator = None,
    encoding: Encoding = None,
    batches: Batches = False,
    unlabelled: Annotated[
        bool,
        typer.Option(
            "--unlabelled",
            help="Learn from rows whose target is empty, too: as much as held-out labels say.",
        ),
    ] = False,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="COL",
            help="Column that tells which rows belong together, such as patient; no feature. They "
            "are held out together, and standard errors sum over them.",
        ),
    ] = None,
    intervals: Annotated[
        bool,
        typer.Option(
            "--intervals",
            help="Keep what crossfade explain, predict --interval and --coverage need, also of a "
            "pool (ten more fits of each member) and of a model with more than 300 parameters.",
        ),
    ] = False,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Sum on a Dask cluster: the address of its scheduler (tcp://...), or local for "
            "processes on this machine.",
        ),
    ] = None,
) -> None:
    """Fit a model to all rows of a table and write it to a file.

    The file holds the columns with their kinds and categories, the classes and how the model was
    trained; crossfade predict, explain and export read it.
    """
    from sklearn.utils import _safe_indexing

    from crossfade import datasets
    from crossfade._checks import counted, listed
    from crossfade.commands.output import check_outputs, console, live_progress, plain
    from crossfade.commands.tables import open_table
    from crossfade.comparison.problem import read_problem
    from crossfade.errors import DataError
    from crossfade.evaluation.evaluation import fitted_tradeoff
    from crossfade.io import save_model
    from crossfade.io.saved import import_skops

    import_skops()  # before hours of work and not after
    check_outputs({"--out": out}, data, endings={"--out": (".skops",)})
    if model == "best":
        _refuse_tradeoff(tradeoff, "best")
        _refuse_unknown(handle_unknown, "best")
        if groups is not None:
            raise DataError(
                "--groups: expected a named model, got --model best, which is compared on rows one "
                "by one; name a model, for example --model naive-bayes"
            )
    else:
        label, estimator = _named(model, tradeoff, handle_unknown)
        if unlabelled and "unlabelled" not in estimator.get_params(deep=False):
            raise DataError(
                "--unlabelled: expected best, naive-bayes, gaussian-shared, gaussian-full or pool, "
                f"got --model {model}; name one of these"
            )
    table = open_table(
        data,
        target,
        drop=drop,
        missing=missing,
        text=text,
        separator=separator,
        encoding=encoding,
        batches=batches or cluster is not None,
        sampled=model == "best",
        unlabelled=unlabelled,
    ).named()
    beside: dict[str, Any] = {}
    if groups is not None:
        beside["groups"] = groups
        if table.source is None:
            table, beside["groups"] = table.grouped(groups)
    training: dict[str, Any] = table.to_dict() | ({} if groups is None else {"groups": groups})
    lines = list(table.notes)
    if model == "best":
        with live_progress(table.name) as progress:
            label, estimator, comparison, verdict = _best(table, splits, seed, progress)
        training["comparison"] = comparison
        lines.append(verdict)
    if unlabelled:
        estimator.set_params(unlabelled="missing")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if table.source is None:
            task = read_problem(table.X, table.y)
            # Those that a comparison leaves out are learnt from here.
            notes = task.notes[1:] if unlabelled and task.data.n_dropped else task.notes
            lines += [note for note in notes if note not in task.table.notes]
            if alone := task.table.alone:
                lines.append(
                    f"Learnt from a single row, so that no row left out can check it: "
                    f"{'class' if len(alone) == 1 else 'classes'} {listed(alone)}."
                )
            with live_progress(table.name, f"fitting {label}") as progress:
                tells = {"verbose"} & estimator.get_params(deep=False).keys()
                estimator.set_params(**dict.fromkeys(tells, progress))
                estimator.fit(table.X, table.y, **beside)
                estimator.set_params(**dict.fromkeys(tells, False))
            n_rows = len(table.y)
            if unlabelled and (empty := task.data.n_dropped - estimator.n_unlabelled_):
                has = "row has" if empty == 1 else "rows have"
                lines.append(f"{empty:,} {has} neither label nor cells and no part in the fit.")
                n_rows -= empty
        else:
            told = _notes_on_first_rows(table.source)
            _fit_in_passes(estimator, table, cluster, **beside)
            lines += [note for note in table.source.notes if note not in lines] + told
            n_rows = int(estimator.class_count_.sum())
    training["rows"] = n_rows
    written = table.written if table.source is None else table.source.written
    if written is not None:
        training["written"] = {k: how for k, how in written.items() if k in table.names}
    others = ""
    if getattr(estimator, "n_unlabelled_", 0):
        n_others, weight = estimator.n_unlabelled_, getattr(estimator, "unlabelled_weight_", None)
        training |= {"unlabelled_rows": n_others, "unlabelled_weight": weight}
        others = f", {n_others:,} of them without a label"
        others += "" if weight is None else f" (which count {weight:.2g} each)"
    lines += [f"{warning.category.__name__}: {warning.message}" for warning in caught]
    chosen = fitted_tradeoff(estimator)
    training |= {"tradeoff": chosen, "warnings": [str(warning.message) for warning in caught]}
    how = f"λ={chosen:.3g}" if chosen is not None else _weights(estimator)
    if chosen is None:
        training["pool"] = {
            "pooling": estimator.pooling_,
            "weights": estimator.weights_,
            "losses": estimator.pool_losses_,
            "member_losses": estimator.member_losses_,
        }
        if intervals:
            # A pool fits them when they are first asked for.
            with live_progress(table.name, "refitting for intervals"):
                estimator.predict_proba(_safe_indexing(table.X, [0]), interval=0.95)
            if estimator.__getstate__()["_jackknife"] is None:
                lines.append("The file keeps no intervals: they would take more than 128 MB.")
    elif intervals:
        lines += _keep_errors(estimator, table, **beside)
    else:
        lines += _without_errors(estimator)
    if set(estimator.classes_.tolist()) == {False, True} and data not in datasets.bundled():
        training["spelling"] = _spelling(data, table.target, separator, encoding)
    terminal = console()
    for line in lines:
        terminal.print(plain(line), soft_wrap=True)
    about = save_model(
        estimator,
        out,
        model=label,
        target=table.target,
        missing_values=missing or (),
        training=training,
    )
    unused = [one["name"] for one in about["columns"] if one["kind"] == "identifier"]
    left_out = f" (left out as identifier or date: {listed(unused)})" if unused else ""
    terminal.print(
        plain(
            f"{label}, {how}, fitted to {n_rows:,} rows{others} of "
            f"{counted(len(about['columns']), 'column')}{left_out}, "
            f"{len(about['classes'])} classes{_passes(estimator)}; written to {out} "
            f"({out.stat().st_size / 1000:,.0f} kB)"
        ),
        soft_wrap=True,
    )


def _spelling(
    data: str, target: str, separator: str | None, encoding: str | None
) -> dict[str, str]:
    """Return how a text file writes the truth values of its target, by how Python does."""
    from crossfade.io.batches import file_format, read_batches, table_files
    from crossfade.io.cells import TRUTH

    found: dict[str, str] = {}
    if file_format(table_files(data)[0]) == "text":
        for batch in read_batches(data, separator=separator, encoding=encoding):
            for cell in batch.frame[target].str.strip_chars().unique(maintain_order=True):
                if cell in TRUTH:
                    found.setdefault(str(TRUTH[cell]), cell)
            if len(found) == 2:
                break
    return found


def _named(model: str, tradeoff: str | None, handle_unknown: str | None) -> tuple[str, Any]:
    """Return a named model's label, and itself, unfitted."""
    from crossfade.comparison.models import choose_model
    from crossfade.errors import DataError

    family, colon, _ = model.partition(":")
    if family == "pool":
        _refuse_tradeoff(tradeoff, model)
    if colon and tradeoff is not None:
        raise DataError(
            f"--tradeoff: expected none with --model {model}, which names it, got {tradeoff}; "
            f"write --model {family} --tradeoff {tradeoff}, or leave --tradeoff out"
        )
    label, estimator = choose_model(model, _number(tradeoff))
    if handle_unknown is not None:
        if "handle_unknown" not in estimator.get_params(deep=False):
            _refuse_unknown(handle_unknown, model)
        estimator.set_params(handle_unknown=handle_unknown)
    return label, estimator


def _fit_in_passes(estimator: Any, table: OpenTable, cluster: str | None, **beside: Any) -> None:
    """Fit to rows that are read some at a time, here or on the workers of a cluster."""
    from crossfade.classifiers.base import TradeoffClassifier
    from crossfade.commands.output import live_progress
    from crossfade.errors import DataError
    from crossfade.table.cluster import joined_cluster

    assert table.source is not None
    if not isinstance(estimator, TradeoffClassifier):
        raise DataError(
            "--model: expected best, naive-bayes, gaussian-shared or gaussian-full for rows that "
            f"are read some at a time, got {type(estimator).__name__}; name one of these"
        )
    if cluster is not None:
        with joined_cluster(cluster):
            estimator.fit(table.source.on_cluster(), **beside)
        return
    with live_progress(table.name) as progress:
        table.source.progress = progress
        estimator.fit(table.source, **beside)


def _notes_on_first_rows(source: FileSource) -> list[str]:
    """Return what the first rows tell of columns that are not what they seem."""
    import numpy as np

    from crossfade.errors import DataError
    from crossfade.evaluation.column_notes import column_notes
    from crossfade.evaluation.inputs import read_table
    from crossfade.table.source import rows_of

    part = source.peek(lambda part: part)  # the first pass goes on from here
    some = slice(0, _FIRST_ROWS)
    try:
        read = read_table(part.table[some], part.labels[some])
    except DataError:
        return []  # rows of one class, or what the fit itself will refuse
    n_rows = min(_FIRST_ROWS, rows_of(part.table))
    notes = column_notes(read, np.asarray(read.schema.encode(read.columns)))
    return [f"In the first {n_rows:,} rows: {note}" for note in notes]


def _without_errors(estimator: Any) -> list[str]:
    """Return that the file will keep no intervals, and how to have them, where that is so."""
    from crossfade.classifiers.standard_errors import options_that_keep

    options = options_that_keep(estimator) if hasattr(estimator, "_fitted") else None
    if options is None:
        return []
    return [
        "The file keeps no intervals (crossfade predict --interval), which take long for so many "
        f"parameters or rows; to have them: crossfade fit {options}."
    ]


def _keep_errors(estimator: Any, table: OpenTable, **beside: Any) -> list[str]:
    """Compute standard errors, also those that no fit keeps unasked; return what is to be said."""
    from crossfade.errors import DataError

    said = []
    of_fit = [] if table.source is not None else [{"X": table.X, "y": table.y} | beside]
    for rows in ({}, *of_fit):
        try:
            estimator.summary(**rows)
        except DataError as error:
            said = [f"The file keeps no intervals: {error}."]
        else:
            said = []
            break
    try:
        estimator.rows_left_out()
    except DataError as error:
        said.append(f"The file keeps no rows left out: {error}.")
    return said


def _passes(estimator: Any) -> str:
    passes = getattr(estimator, "n_passes_", None)
    if passes is None:
        return ""
    return f", in {passes} pass{'' if passes == 1 else 'es'} over the rows"


def _weights(pool: Any) -> str:
    """Return what a pool is made of and, out of fold, how good it is."""
    used = ", ".join(f"{name} {w:.2f}" for name, w in pool.weights_.items() if w > 0.0)
    loss = pool.pool_losses_.get("log_loss")
    told = "" if loss is None else f" (log-loss {loss:.3f} on rows left out)"
    return f"{pool.pooling_}, of {used or 'no member'}{told}"


def _refuse_tradeoff(tradeoff: str | None, model: str) -> None:
    from crossfade.errors import DataError

    if tradeoff is not None:
        raise DataError(
            f"--tradeoff: expected none with --model {model}, which chooses it, got {tradeoff}; "
            "name a model as well, for example --model naive-bayes"
        )


def _refuse_unknown(handle_unknown: str | None, model: str) -> None:
    from crossfade.errors import DataError

    if handle_unknown is not None:
        raise DataError(
            f"--handle-unknown: expected none with --model {model}, got {handle_unknown}; "
            "only naive-bayes can refuse new categories: name it with --model naive-bayes"
        )


def _number(tradeoff: str | None) -> float | str | None:
    """Return a tradeoff as a number; what is none is left to the model, which says so."""
    try:
        return None if tradeoff is None else float(tradeoff)
    except ValueError:
        return tradeoff


def _best(
    table: OpenTable, splits: int, seed: int, progress: Any
) -> tuple[str, Any, dict[str, Any], str]:
    """Return the best model's name, the unfitted model, the scores, and the verdict's sentence."""
    from crossfade.comparison import compare
    from crossfade.comparison.models import affordable, own_models
    from crossfade.comparison.problem import read_problem

    problem = read_problem(table.X, table.y)
    models, note = affordable(own_models(), problem.data.column_kinds, len(problem.data.classes))
    result = compare(
        table.X,
        table.y,
        models=models,
        n_splits=splits,
        random_state=seed,
        evidence=False,
        curve=False,
        progress=progress,
    )
    if not result.complete:
        raise KeyboardInterrupt
    found = result.to_dict()
    kept = {key: found[key] for key in ("criterion", "best", "splits", "verdict")}
    kept["log_loss"] = {one["name"]: one["log_loss"] for one in found["models"]}
    verdict = (
        result.verdict_sentences[0] if note is None else f"{result.verdict_sentences[0]} {note}."
    )
    return result.best, models[result.best], kept, verdict
