"""``crossfade glm``: fit a generalised linear model to a CSV file and print its summary."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from crossfade.commands.options import Json

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("glm", short_help="Fit a generalised linear model, with errors and tests.")(glm)


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
    quasi = "quasi"


def glm(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A CSV, TSV or Parquet file (also .gz).", show_default=False
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
    level: Annotated[float, typer.Option(help="Coverage of the intervals.")] = 0.95,
    json: Json = None,
) -> None:
    """Fit a generalised linear model with standard errors, tests and intervals."""
    from crossfade.commands.output import check_writable, say, write_json

    if json is not None:
        check_writable(json, "--json", data)
    table = _read(data)
    model = _fit(
        table,
        formula,
        family,
        link,
        {"exposure": exposure, "trials": trials, "weights": weights},
        method,
        l2,
    )
    quasi = errors is ErrorsName.quasi
    summary = model.summary(
        level,
        covariance="model" if quasi else errors.value,
        dispersion="pearson" if quasi else 1.0,
        intervals="profile" if profile else "wald",
    )
    say(str(summary))
    if json is not None:
        write_json(json, _results(model, summary, formula))


def _read(file: Path) -> Any:
    """Return a table file as pandas frame, which is what formulas are evaluated on."""
    from crossfade._optional import import_optional
    from crossfade.io.reading import read_table

    pd = import_optional("pandas", "formulas")
    table = read_table(file)
    plain = {
        name: table[name].to_numpy() if table[name].dtype.is_numeric() else table[name].to_list()
        for name in table.columns
    }
    return pd.DataFrame(plain)


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
    from crossfade.glm.formulas import column, read_formula

    given = {option: column(table, name) for option, name in columns.items() if name is not None}
    model = read_formula(formula, table)
    options: dict[str, Any] = {"fit_intercept": model.intercept, "l2": l2}
    rows: dict[str, Any] = {"sample_weight": given.get("weights")}
    if family is FamilyName.multinomial:
        _refuse(family, link=link, exposure=columns["exposure"], trials=columns["trials"])
        if method is MethodName.firth or model.offset is not None or model.trials is not None:
            raise DataError(
                "family: expected a single response and no offset for 'multinomial' by IRLS, got "
                f"{formula!r} with method={method.value!r}; use family binomial for two outcomes"
            )
        return MultinomialRegression(**options).fit(model.matrix, model.response, **rows)
    rows["offset"] = model.offset
    if family is FamilyName.poisson:
        _refuse(family, trials=columns["trials"])
        if model.trials is not None:
            raise DataError(
                f"formula: expected one count before '~' for 'poisson', got {formula!r}; use "
                "family binomial for cbind()"
            )
        counts = PoissonRegression(link or "log", method=method.value, **options)
        return counts.fit(model.matrix, model.response, given.get("exposure"), **rows)
    _refuse(family, exposure=columns["exposure"])
    if model.trials is not None and "trials" in given:
        raise DataError(
            f"trials: expected none beside cbind(), got {columns['trials']!r}; give one of the two"
        )
    trials = given.get("trials") if model.trials is None else model.trials
    shares = BinomialRegression(link or "logit", method=method.value, **options)
    return shares.fit(model.matrix, model.response, trials, **rows)


def _refuse(family: FamilyName, **options: Any) -> None:
    from crossfade.errors import DataError

    for name, value in options.items():
        if value is not None:
            raise DataError(
                f"{name}: expected none for family {family.value!r}, got {value!r}; leave it out"
            )


def _plain(value: Any) -> Any:
    """Return numbers as JSON has them: infinite ones as text, missing ones as null."""
    number = float(value)
    if math.isnan(number):
        return None
    return number if math.isfinite(number) else str(number)


def _results(model: Any, summary: Any, formula: str) -> dict[str, Any]:
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
    }
