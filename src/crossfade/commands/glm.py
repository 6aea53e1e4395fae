"""``crossfade glm``: fit a generalised linear model to a CSV file and print its summary."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from crossfade.commands.options import Encoding, Json, Missing, Separator, Text, there


class FamilyName(StrEnum):
    """Families on offer."""

    binomial = "binomial"
    poisson = "poisson"
    multinomial = "multinomial"


class MethodName(StrEnum):
    """Ways to fit."""

    irls = "irls"
    firth = "firth"


class ErrorsName(StrEnum):
    """Kinds of standard error."""

    model = "model"
    HC0 = "HC0"
    HC1 = "HC1"
    HC2 = "HC2"
    HC3 = "HC3"
    quasi = "quasi"


def glm(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A CSV, TSV or Parquet file (also .gz).",
            show_default=False,
            callback=there,
        ),
    ],
    formula: Annotated[
        str,
        typer.Option(help="Model, such as 'cbind(dead, n - dead) ~ dose' or 'count ~ C(group)'."),
    ],
    family: Annotated[FamilyName, typer.Option(help="Distribution of the response.")],
    link: Annotated[
        str | None,
        typer.Option(help="logit, probit, cloglog; log, identity, sqrt. Canonical by default."),
    ] = None,
    exposure: Annotated[
        str | None, typer.Option(help="Column of exposures (Poisson): hours, holders, area.")
    ] = None,
    trials: Annotated[
        str | None, typer.Option(help="Column of trials, where the response counts successes.")
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="Column saying how often each row counts.")
    ] = None,
    method: Annotated[
        MethodName, typer.Option(help="Maximum likelihood, or Firth's penalised likelihood.")
    ] = MethodName.irls,
    l2: Annotated[float, typer.Option(help="Ridge penalty.")] = 0.0,
    errors: Annotated[ErrorsName, typer.Option(help="Standard errors.")] = ErrorsName.model,
    profile: Annotated[
        bool, typer.Option("--profile", help="Intervals by profile likelihood.")
    ] = False,
    ratios: Annotated[
        bool, typer.Option("--ratios", help="Odds ratios (logit) or ratios of means (log).")
    ] = False,
    level: Annotated[float, typer.Option(help="Coverage of the intervals.")] = 0.95,
    missing: Missing = None,
    text: Text = None,
    separator: Separator = None,
    encoding: Encoding = None,
    json: Json = None,
) -> None:
    """Fit a generalised linear model with standard errors, tests and intervals.

    Rows with a missing cell in a column that is used are left out; other columns are not read.
    """
    from crossfade.commands.output import check_outputs, say, write_json
    from crossfade.errors import IgnoredRowsWarning
    from crossfade.glm.formulas import columns_of
    from crossfade.io.reading import read_file

    check_outputs({"--json": json}, data)
    columns = {"exposure": exposure, "trials": trials, "sample_weight": weights}
    used = columns_of(formula).union(filter(None, columns.values()))
    table = read_file(
        data,
        missing_values=missing or (),
        text=text or (),
        separator=separator,
        encoding=encoding,
        only=used,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = _fit(table.frame, formula, family, link, columns, method, l2)
    left_out = [one for one in caught if issubclass(one.category, IgnoredRowsWarning)]
    for one in caught:
        if one not in left_out:
            warnings.showwarning(one.message, one.category, one.filename, one.lineno)
    notes = (*table.notes, *(str(one.message) for one in left_out))
    quasi = errors is ErrorsName.quasi
    summary = model.summary(
        level,
        covariance="model" if quasi else errors.value,
        dispersion="pearson" if quasi else 1.0,
        intervals="profile" if profile else "wald",
        ratios=ratios,
    )
    if errors is ErrorsName.model:
        summary = replace(summary, notes=(*summary.notes, *_overdispersion(model)))
    say(str(summary))
    for note in notes:
        say(f"note: {note}")
    if json is not None:
        write_json(json, _results(model, summary, formula, notes))


def _overdispersion(model: Any) -> tuple[str, ...]:
    """Return a note where counts vary clearly more than the family allows."""
    from crossfade.errors import DataError

    if not hasattr(model, "dispersion_test") or model.separated_:
        return ()
    try:
        found = model.dispersion_test()
    except DataError:  # single trials, or no degrees of freedom
        return ()
    if not (found.dispersion > 1.5 and found.p_value < 0.001):
        return ()
    return (
        f"Overdispersed: Pearson's X² is {found.dispersion:.2f} for each degree of freedom, not 1, "
        "so that these errors are too small; give --errors quasi, or --errors HC1 (robust).",
    )


def _fit(
    table: Any,
    formula: str,
    family: FamilyName,
    link: str | None,
    columns: dict[str, str | None],
    method: MethodName,
    l2: float,
) -> Any:
    from crossfade.errors import DataError
    from crossfade.glm import BinomialRegression, MultinomialRegression, PoissonRegression

    kinds: dict[FamilyName, Any] = {
        FamilyName.binomial: BinomialRegression,
        FamilyName.poisson: PoissonRegression,
        FamilyName.multinomial: MultinomialRegression,
    }
    options: dict[str, Any] = {
        **{name: value for name, value in columns.items() if value is not None},
        **({} if link is None else {"link": link}),
        **({} if method is MethodName.irls else {"method": method.value}),
    }
    if family is FamilyName.multinomial and {"link", "method"} & options.keys():
        raise DataError(
            "family: expected neither --link nor --method for 'multinomial', got "
            f"{ {name: options[name] for name in ('link', 'method') if name in options} }; use "
            "family binomial for two outcomes"
        )
    return kinds[family].from_formula(formula, table, l2=l2, **options)


def _plain(value: Any) -> Any:
    """Return numbers as JSON has them: infinite ones as text, missing ones as null."""
    number = float(value)
    if math.isnan(number):
        return None
    return number if math.isfinite(number) else str(number)


def _results(
    model: Any, summary: Any, formula: str, opening_notes: tuple[str, ...]
) -> dict[str, Any]:
    table = {
        "estimate": summary.estimates,
        "standard_error": summary.standard_errors,
        "statistic": summary.statistics,
        "p_value": summary.p_values,
        "lower": summary.lower,
        "upper": summary.upper,
    }
    return {
        "model": summary.title,
        "formula": formula,
        "level": summary.level,
        "coefficients": [
            {"term": name, **{key: _plain(column[i]) for key, column in table.items()}}
            for i, name in enumerate(summary.names)
        ],
        "n_observations": _plain(model.n_observations_),
        "df_residual": _plain(model.df_residual_),
        "log_likelihood": _plain(model.log_likelihood_),
        "deviance": _plain(model.deviance_),
        "null_deviance": _plain(model.null_deviance_),
        "pseudo_r2": _plain(model.pseudo_r2_),
        "aic": _plain(model.aic_),
        "bic": _plain(model.bic_),
        "converged": bool(model.converged_),
        "iterations": int(model.n_iter_),
        "separated": list(model.separated_),
        "aliased": list(model.aliased_),
        "notes": list(summary.notes),
        "opening_notes": list(opening_notes),
    }
