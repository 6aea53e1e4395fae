"""``crossfade predict MODEL DATA``: probabilities for new rows, however many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from crossfade.commands.options import Cost, Encoding, ModelFile, NewData, Separator, read_cost

_PARQUET = (".parquet", ".pq")

#: Rows of predictions that are written to Parquet at a time.
_GROUP_ROWS = 1 << 18


def predict(
    model: ModelFile,
    data: NewData,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="A .csv or .parquet file; CSV on stdout by default."
        ),
    ] = None,
    separator: Separator = None,
    encoding: Encoding = None,
    batch: Annotated[
        float, typer.Option(metavar="MB", help="How much of the file to read at a time.")
    ] = 16.0,
    adapt: Annotated[
        bool,
        typer.Option(
            "--adapt", help="Estimate the class shares of these rows first, and predict with those."
        ),
    ] = False,
    class_prior: Annotated[
        str | None,
        typer.Option(
            "--class-prior",
            metavar="CLASS=SHARE,...",
            help="Predict for rows among which the classes have these shares, or 'uniform'.",
        ),
    ] = None,
    cost: Cost = None,
    coverage: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Add a column per class: is it in a set that holds the true one so often?",
        ),
    ] = None,
    by_class: Annotated[
        bool,
        typer.Option(
            "--by-class", help="Hold --coverage for the rows of every class, not for all together."
        ),
    ] = False,
    outliers: Annotated[
        bool,
        typer.Option(
            "--outliers", help="Add two columns: how unlike the rows of fit, and its p-value."
        ),
    ] = False,
    reject: Annotated[
        float | None,
        typer.Option(
            metavar="P", help="Leave the prediction empty where the outlier p-value is at most P."
        ),
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Add two columns per class: limits that chance in the training rows leaves.",
        ),
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Write all digits of the numbers, not the first six.")
    ] = False,
    spreadsheet_safe: Annotated[
        bool,
        typer.Option(
            "--spreadsheet-safe",
            help="Write ' before a class that a spreadsheet would run as a formula, such as =A1.",
        ),
    ] = False,
) -> None:
    """Predict the class of each row and the probability of every class.

    The first column is the prediction, then comes one column P(class) for every class. Columns
    are matched by name, whatever their order; those that the model does not know are ignored and
    named on stderr. Files are read in batches, those of a folder or pattern in the order of their
    names. Numbers have six significant digits in CSV (probabilities above a half: six of what is
    left to 1), all of them with --exact and in Parquet, which also keeps the type of the classes.
    The predictions are written whole or not at all, to stdout too: they appear when the last row
    is done.

    With --adapt the rows are read twice: the shares of the classes among them are estimated, told
    on stderr with 95 % intervals, and the probabilities follow. With --class-prior ill=0.2,well=0.8
    they follow from shares that you know. With --cost 1,5 the prediction is the class of least
    expected cost, where a false negative (the second class taken for the first) costs five false
    positives. With --coverage 0.9 a column in_set(class) per class
    tells whether the class belongs to a set that holds the true class of 90 of 100 rows. With
    --interval 0.95 columns low(class) and high(class) tell how sure each probability is; they are
    empty where missing cells leave that open. With --outliers, outlier_score tells how unlike the
    rows of fit a row is, and outlier_p which share of those is no less so; with --reject 0.01, rows
    with outlier_p of 0.01 or less get no prediction.
    """
    import numpy as np

    from crossfade._checks import check_number, counted
    from crossfade.commands.new_rows import NewRows
    from crossfade.commands.output import check_outputs, check_writable, say
    from crossfade.errors import DataError
    from crossfade.io import load_model
    from crossfade.tradeoff.criteria import decisions

    if not batch > 0:
        raise DataError(f"--batch: expected megabytes above 0, got {batch:g}; 16 is the default")
    if out is not None:
        check_outputs({"--out": out}, model, data, endings={"--out": (".csv", *_PARQUET)})
    parquet = out is not None and out.suffix.lower() in _PARQUET
    if adapt and class_prior is not None:
        raise DataError(
            f"--class-prior: expected no shares beside --adapt, which estimates them, got "
            f"{class_prior!r}; leave one of the two out"
        )
    if by_class and coverage is None:
        raise DataError("--by-class: expected --coverage beside it, got none; 0.9 is usual")
    saved = load_model(model)
    estimator = saved.estimator
    texts = _texts(estimator.classes_, saved.about["training"].get("spelling", {}))
    labels = _Labels(estimator.classes_, texts, spreadsheet_safe, exact, parquet)
    selection = estimator.selection
    if cost is not None:
        from crossfade.comparison.problem import read_costs

        selection = read_costs(read_cost(cost), estimator.classes_.tolist())

    def read() -> NewRows:
        return NewRows(
            saved, data, separator=separator, encoding=encoding, size=max(1, int(batch * 1e6))
        )

    def answer(estimator: Any, table: Any) -> tuple[Any, list[bool] | None, Any, dict[str, Any]]:
        """Return decisions, which of them are rejected, probabilities, and further columns."""
        if interval is None:
            probabilities = estimator.predict_proba(table)
        else:
            probabilities, *limits = estimator.predict_proba(table, interval=interval)
        more: dict[str, Any] = {}
        if coverage is not None:
            sets = estimator.predict_set(table, coverage, by_class=by_class)
            more |= labels.by_class("in_set", sets)
        if interval is not None:
            more |= labels.by_class("low", limits[0]) | labels.by_class("high", limits[1])
        if outliers:
            more["outlier_score"] = estimator.outlier_score(table)
            more["outlier_p"] = estimator.outlier_p_value(table)
        rejected = None
        if reject is not None:
            rejected = [one is None for one in estimator.predict(table, reject=reject).tolist()]
        decided = estimator.classes_[decisions(probabilities, selection)]
        return decided, rejected, probabilities, more

    rows = read()
    if out is not None:
        check_writable(out, "--out", *rows.files)
    if coverage is not None:
        check_number("--coverage", coverage, above=0.0, below=1.0, remedy="0.9 is usual")
        _check_has(estimator, "--coverage", "predict_set")
    if reject is not None:
        check_number(
            "--reject", reject, above=0.0, below=1.0, remedy="0.01 is one row in a hundred"
        )
    if outliers or reject is not None:
        _check_has(estimator, "--outliers" if outliers else "--reject", "outlier_p_value")
    if interval is not None:
        check_number("--interval", interval, above=0.0, below=1.0, remedy="0.95 is usual")
        _check_has(estimator, "--interval", "summary")
    if class_prior is not None:
        _check_has(estimator, "--class-prior", "with_class_prior")
        estimator = estimator.with_class_prior(
            _shares(
                class_prior, {str(one): one for one in texts} | {texts[one]: one for one in texts}
            )
        )
    if adapt or interval is not None:  # before long work, what the model cannot be asked
        for table, _ in read().batches():
            answer(estimator, table[:1])
            break
    if adapt:
        estimator = _adapted(estimator, read())  # notes on cells are those of one reading
    n_rows = n_rejected = n_without = 0
    with _output(out, parquet) as write:
        for table, first in rows.batches():
            decided, rejected, probabilities, more = answer(estimator, table)
            n_rejected += sum(rejected or ())
            write(labels.frame(decided, rejected, probabilities, more), header=first == 1)
            n_rows += len(decided)
            lows = [column for name, column in more.items() if name.startswith("low(")]
            n_without += int(np.isnan(lows).any(axis=0).sum())
    for note in [*rows.notes(), *labels.notes()]:
        say(f"note: {note}", stderr=True)
    if rows.empty:
        say(
            f"note: {counted(rows.empty, 'row')} without any cell that the model uses: the "
            "prediction says nothing of such a row",
            stderr=True,
        )
    if n_without:
        rows_have = "1 row has" if n_without == 1 else f"{n_without:,} rows have"
        say(
            f"note: {rows_have} no limits: cells are missing, as of no row of fit; a fit to rows "
            "with such gaps has limits",
            stderr=True,
        )
    if reject is not None:
        say(
            f"{n_rejected:,} of {counted(n_rows, 'row')} rejected, outlier_p at most {reject:g}",
            stderr=True,
        )
    if out is not None:
        say(f"{counted(n_rows, 'row')} written to {out}", stderr=True)


def _check_has(estimator: Any, option: str, method: str) -> None:
    """Refuse an option that this model has no method for."""
    from crossfade.errors import DataError

    if not hasattr(estimator, method):
        raise DataError(
            f"{option}: expected a model of naive Bayes or a Gaussian discriminant or a pool, got "
            f"{type(estimator).__name__}; leave {option} out"
        )


def _adapted(estimator: Any, rows: Any) -> Any:
    """Return the model for the class shares of these rows, and tell them."""
    import numpy as np

    from crossfade.commands.output import say

    _check_has(estimator, "--adapt", "adapt_to_posteriors")
    found = [estimator.predict_log_proba(table) for table, _ in rows.batches()]
    adapted = estimator.adapt_to_posteriors(np.concatenate(found) if found else np.empty((0, 0)))
    say(str(adapted.class_shares_), stderr=True)
    return adapted


def _texts(classes: Any, spelling: Mapping[str, str]) -> dict[Any, str]:
    """Return each class as text, true and false as the file of fit wrote them."""
    labels = classes.tolist()
    return {
        label: spelling.get(str(label), str(label)) if isinstance(label, bool) else str(label)
        for label in labels
    }


def _shares(text: str, labels: Mapping[str, Any]) -> Any:
    """Return the shares of classes that an option gives, by label; a word as it is."""
    import re

    if "=" not in text:
        return text
    found: dict[Any, Any] = {}
    rest = text.strip()
    while rest:
        # A label may have a comma or an = in it: the longest one that fits is meant.
        fits = {label: re.match(rf"{re.escape(label)}\s*=", rest) for label in labels}
        ends = {label: given.end() for label, given in fits.items() if given}
        if not ends:
            raise _no_shares(text, f"no class is called {rest.partition('=')[0].strip()!r}", labels)
        label = max(ends, key=lambda one: ends[one])
        share, _, rest = rest[ends[label] :].partition(",")
        rest = rest.strip()
        if labels[label] in found:
            raise _no_shares(text, f"{label!r} is there twice", labels)
        try:
            found[labels[label]] = float(share)
        except ValueError:
            raise _no_shares(text, f"{share.strip()!r} is no number", labels) from None
    return found


def _no_shares(text: str, why: str, labels: Mapping[str, Any]) -> Exception:
    """Return the error of shares that cannot be read."""
    from crossfade.errors import DataError

    shown = ",".join(f"{label}=…" for label in list(labels)[:5])
    return DataError(
        f"--class-prior: expected 'uniform' or a share for each class, got {text!r}: {why}; write "
        f"{shown}{',…' if len(labels) > 5 else ''}"
    )


@contextmanager
def _output(out: Path | None, parquet: bool) -> Iterator[Any]:
    """Yield what writes data frames, which appear in a file or on stdout when all are written."""
    from functools import partial
    from tempfile import TemporaryFile

    from crossfade.commands.output import hand_over
    from crossfade.files import whole_file

    def write_csv(file: Any, frame: Any, header: bool) -> None:
        file.write(frame.write_csv(include_header=header).encode())

    if out is None:
        with TemporaryFile() as held:
            yield partial(write_csv, held)
            held.seek(0)
            while lines := held.readlines(1 << 20):
                hand_over(b"".join(lines))
        return
    with whole_file(out) as file:
        if not parquet:
            yield partial(write_csv, file)
            return
        with _row_groups(file) as write:
            yield write


@contextmanager
def _row_groups(file: Any) -> Iterator[Any]:
    """Yield what writes data frames to a Parquet file, many rows at a time where pyarrow is."""
    from importlib.util import find_spec

    import polars as pl

    held: list[Any] = []
    writer: Any = None

    def write(frame: Any, header: bool) -> None:
        nonlocal writer
        held.append(frame)
        if sum(one.height for one in held) < _GROUP_ROWS or find_spec("pyarrow") is None:
            return
        import pyarrow.parquet

        rows = pl.concat(held).to_arrow(compat_level=pl.CompatLevel.oldest())
        held.clear()
        if writer is None:
            writer = pyarrow.parquet.ParquetWriter(file, rows.schema, compression="zstd")
        writer.write_table(rows)

    yield write
    rest: Any = pl.concat(held) if held else None
    if writer is None:
        rest.write_parquet(file)
        return
    if rest is not None:
        writer.write_table(rest.to_arrow(compat_level=pl.CompatLevel.oldest()))
    writer.close()


class _Labels:
    """Classes and what is said of them as they are written.

    `texts`: Each class as text.
    `safe`: With a ' before formulas.
    `exact`: Numbers with all their digits.
    `typed`: With the classes as they are, not as text; exact, too.
    """

    def __init__(
        self, classes: Any, texts: Mapping[Any, str], safe: bool, exact: bool, typed: bool
    ) -> None:
        self._classes, self._typed = classes, typed
        self._exact = exact or typed
        self._written, self._texts = texts, list(texts.values())
        self._formulas = [text for text in self._texts if _is_formula(text)]
        self._safe = safe

    def by_class(self, name: str, values: Any) -> dict[str, Any]:
        """Return columns of values by class, (n_rows, n_classes), with their names."""
        pairs = zip(self._texts, values.T, strict=True)
        return {f"{name}({text})": column for text, column in pairs}

    def frame(self, decided: Any, rejected: Any, probabilities: Any, more: Any) -> Any:
        import polars as pl

        kind = pl.Series(self._classes.tolist()).dtype if self._typed else pl.String
        found = (
            decided.tolist() if self._typed else [self._written[one] for one in decided.tolist()]
        )
        predictions = pl.Series("prediction", found, dtype=kind)
        if self._safe and self._formulas:
            predictions = predictions.replace({text: f"'{text}" for text in self._formulas})
        if rejected is not None:
            predictions = predictions.set(pl.Series(rejected), None)
        columns = {**self.by_class("P", probabilities), **more}
        added = (
            pl.Series(name, one, nan_to_null=True)
            if self._exact or one.dtype.kind != "f"
            else _six_digits(name, one)
            for name, one in columns.items()
        )
        return pl.DataFrame([predictions, *added])

    def notes(self) -> list[str]:
        if self._safe or self._typed or not self._formulas:
            return []
        shown = ", ".join(f"{text!r:.60}" for text in self._formulas[:4])
        return [
            f"a spreadsheet would run the class {shown} as a formula; use --spreadsheet-safe for "
            "files that a spreadsheet will open"
        ]


def _six_digits(name: str, values: Any) -> Any:
    """Return numbers with six significant digits; above a half, of what is left to 1.

    A probability is then 1 where it is, and what is written is as sure as what was predicted.
    """
    import numpy as np
    import polars as pl

    near = (values > 0.5) & (values < 1.0)
    size = np.where(near, 1.0 - values, np.abs(values))
    with np.errstate(divide="ignore", invalid="ignore"):
        places = np.clip(5.0 - np.floor(np.log10(size)), -300, np.where(near, 16, 300))
        whole = np.where(size > 1e-290, np.rint(values * 10.0**places), np.nan)
    # Read as a decimal number, it has no digits beyond these.
    digits, power = (pl.Series(one).cast(pl.Int64, strict=False) for one in (whole, -places))
    found = pl.select(pl.concat_str([digits, pl.lit("e"), power]).cast(pl.Float64)).to_series()
    return found.fill_null(pl.Series(values, nan_to_null=True)).alias(name)


def _is_formula(text: str) -> bool:
    """Return whether a spreadsheet takes a cell for a formula; a number such as -1 is none."""
    try:
        float(text)
    except ValueError:
        return text.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    return False
