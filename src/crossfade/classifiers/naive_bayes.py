"""Naive Bayes: columns independent given the class, from generative to logistic regression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from crossfade._checks import check_number, show
from crossfade._typing import Floats, Integers
from crossfade.classifiers.batches import BatchClassifier
from crossfade.densities import (
    DENSITIES,
    Bernoulli,
    Categorical,
    Density,
    Gaussian,
    JohnsonSU,
    Poisson,
    Product,
)
from crossfade.errors import DataError
from crossfade.optim.newton import sample_rows
from crossfade.table import Schema
from crossfade.table.columns import read_columns
from crossfade.table.kinds import LARGEST_COUNT
from crossfade.tradeoff.column_evidence import (
    column_evidence,
    is_candidate,
    near_zero_variance,
    tail_evidence,
)
from crossfade.tradeoff.folds import folds
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.path import SHRINKAGE_ROWS

__all__ = ["BY_TYPE", "DENSITY_OF_KIND", "NaiveBayes"]

#: The density of a column of each kind, and the kind of column each named density takes.
DENSITY_OF_KIND = {
    "continuous": "gaussian",
    "count": "poisson",
    "boolean": "bernoulli",
    "categorical": "categorical",
}

#: Why a column has its density where its type alone decided.
BY_TYPE = "by the column's type"

#: Folds for the evidence on columns, and most rows that it is taken from.
_EVIDENCE_FOLDS = 5
_EVIDENCE_ROWS = 20_000

#: Rows up to which tails are drawn in. With more, hardly a value lies beyond those seen in the fit,
#: and every pass over the rows would take logarithms of all of them anew.
_TAIL_ROWS = 20_000

#: Cells whose mean and spread are taken at once: 16 MB.
_CELLS_AT_ONCE = 2_000_000

#: Why a column has one variance where the tradeoff is chosen.
_ONE_VARIANCE = "hardly a row differs from the commonest value: one variance for all classes"

_KIND_OF_DENSITY = {density: kind for kind, density in DENSITY_OF_KIND.items()}


class NaiveBayes(BatchClassifier):
    """Naive Bayes with any density a column, fitted generatively, discriminatively or between.

    Parameters
    ----------
    density : {"auto", "gaussian", "bernoulli", "categorical", "poisson"}, Density or mapping, \
default="auto"
        What a column looks like within a class. "auto" goes by the columns' types: text and
        categories are categorical, booleans Bernoulli, small whole numbers that vary as counts do
        Poisson, all else Gaussian. Where the tradeoff is chosen, too ("auto", "best"), numerical
        columns of 3 to 12 different whole numbers, 20 rows each and 10 even without the commonest,
        get the density that predicts best out of fold. Other continuous ones, up to 20,000 rows,
        get Johnson's S_U (a Gaussian of asinh of the standardised column, for which no value is
        too far out) unless a Gaussian predicts clearly better; where fewer than 20 rows differ
        from the commonest value, classes share one variance. `density_report_` says which and
        why. One name or density object for all columns, or a mapping from column name or index to
        name or object (the other columns stay "auto").
    tradeoff : float, "auto" or "best", default="auto"
        λ: 1 fits the joint likelihood (textbook naive Bayes), 0 the conditional likelihood
        (logistic regression on the same statistics). "auto" pools a grid of λ, penalties and
        variances by their out-of-fold losses, "best" picks one point of it.
    shared_variance : bool, default=False
        Whether a Gaussian column has one variance for all classes; the posterior is then linear.
        If not, "auto" and "best" try both, a class's own variance with two pseudo-rows of the
        shared one.
    alpha : float, default=1.0
        Pseudo-count of the discrete densities (Laplace's smoothing).
    var_smoothing : float, default=1e-9
        Added to the variances of Gaussian columns, as a fraction of the column's own.
    l2 : float, default=1.0
        Strength of the penalty on the discriminative weights of the standardised statistics:
        1/C of scikit-learn's LogisticRegression. It enters with weight 1 - λ. "auto" and "best"
        try a tenth and ten times of it, too.
    class_prior : {"empirical", "uniform"}, array (n_classes,) or mapping, default="empirical"
        Class shares where the model will be used. Other than the data's they shift the posterior.
    handle_unknown : {"ignore", "error"}, default="ignore"
        A category not seen in fit is treated as missing, or refused.
    selection : {"log_loss", "brier", "error"} or array (n_classes, n_classes), default="log_loss"
        By which out-of-fold loss "best" picks; an array holds costs[true, decided], and decisions
        then are those of least expected cost. "auto" weighs by Brier score or log-loss.
    class_weight : mapping of label to weight, "balanced" or None, default=None
        Weights of the classes' rows, times `sample_weight`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_count_ : ndarray of shape (n_classes,)
        Summed weights.
    class_prior_ : ndarray of shape (n_classes,)
    tradeoff_ : float
        The λ of the fit, of a pool the weighted mean.
    tradeoff_path_ : dict of ndarray
        Keys tradeoff, l2, variant (0: the wider family), weight, log_loss, brier, error (out of
        fold) and objective: a point of the grid each.
    selection_ : str
        Where the out-of-fold losses came from, what was chosen, and how flat the choice was.
    posterior_scale_ : float
        Sum of the pool's weights: the power of the posterior, relative to the class shares.
    density_report_ : list of dict
        Each column's name, density, and why it has it.
    schema_ : Schema
        Names, kinds and categories of the columns.
    density_ : Density
        The density bound to the data.
    parameters_ : Parameters
        Natural parameters and offsets by class.
    solution_ : Solution
        Why the solver stopped, and with what gradient norm.
    coef_, intercept_ : ndarray
        The posterior as a linear function of :meth:`sufficient_statistics`.
    class_densities_ : dict of label to ClassDensity
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has names.

    Notes
    -----
    The objective is λ times the joint plus 1 - λ times the conditional log-likelihood (Bouchard &
    Triggs 2004, equation 6), concave in the natural parameters where no cell is missing. A missing
    cell's factor is left out of the product at every λ; the fit is then followed down the path
    from λ = 1. For a tradeoff below 1e-4 the fit at 1e-4 then stands, with a
    :class:`~crossfade.errors.TradeoffWarning`, and `tradeoff_` says so; "auto" and "best" end their
    grids at 0.01. A column without any cell has no part in this: it changes no posterior.

    References
    ----------
    Ng, A. Y. and Jordan, M. I. (2001). On discriminative vs. generative classifiers. NIPS 14.
    Bouchard, G. and Triggs, B. (2004). The tradeoff between generative and discriminative
    classifiers. COMPSTAT.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from crossfade import NaiveBayes
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NaiveBayes(tradeoff=1).fit(X, y)
    >>> model.predict_proba(X[:1]).round(3)
    array([[1., 0., 0.]])
    """

    def __init__(
        self,
        density: str | Density | Mapping[Any, str | Density] = "auto",
        *,
        tradeoff: float | str = "auto",
        shared_variance: bool = False,
        alpha: float = 1.0,
        var_smoothing: float = 1e-9,
        l2: float = 1.0,
        class_prior: str | ArrayLike | Mapping[Any, float] = "empirical",
        handle_unknown: Literal["ignore", "error"] = "ignore",
        selection: str | ArrayLike = "log_loss",
        class_weight: Mapping[Any, float] | str | None = None,
    ) -> None:
        self.density = density
        self.tradeoff = tradeoff
        self.shared_variance = shared_variance
        self.alpha = alpha
        self.var_smoothing = var_smoothing
        self.l2 = l2
        self.class_prior = class_prior
        self.handle_unknown = handle_unknown
        self.selection = selection
        self.class_weight = class_weight

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("alpha", self.alpha, 0.0, "1 is Laplace's smoothing")
        check_number("var_smoothing", self.var_smoothing, 0.0, "1e-9 is the default")
        chosen = self.density
        given = list(chosen.values()) if isinstance(chosen, Mapping) else [chosen]
        for one in given:
            known = isinstance(one, str) and (one == "auto" or one in DENSITIES)
            if not known and not isinstance(one, Density):
                raise DataError(
                    f"density: expected 'auto', one of {', '.join(map(repr, DENSITIES))}, a "
                    f"Density or a mapping of columns to these, got {one!r}; name a density"
                )

    def _declared_kinds(self, X: Any) -> Mapping[Any, str] | str | None:
        chosen = self.density
        if isinstance(chosen, Mapping):
            return {
                column: _kind(one) for column, one in chosen.items() if not _is_auto(one)
            } or None
        return None if _is_auto(chosen) else _kind(chosen)

    def _better_kinds(
        self, rows: LabelledRows, schema: Schema, groups: Integers | None
    ) -> Mapping[int, str] | None:
        self.density_report_ = report = _report_of_types(self.density, schema)
        self._tails: dict[int, tuple[float, float]] = {}
        self._steady: list[int] = []
        if not isinstance(self.tradeoff, str):
            return None
        open_to_choice = [
            j
            for j, one in enumerate(report)
            if one["density"] in ("gaussian", "poisson") and one["reason"] == BY_TYPE
        ]
        few = [j for j in open_to_choice if is_candidate(rows.X[:, j], rows.weights)]
        tailed = [j for j in open_to_choice if report[j]["density"] == "gaussian" and j not in few]
        if not self.shared_variance:
            self._steady = [j for j in tailed if near_zero_variance(rows.X[:, j], rows.weights)]
        for j in self._steady:
            report[j]["reason"] = _ONE_VARIANCE
        if rows.n_samples > _TAIL_ROWS:
            tailed = []
        if not few and not tailed:
            return None
        index = sample_rows(rows.n_samples, min(1.0, _EVIDENCE_ROWS / rows.n_samples))
        sample = rows.take(index)
        sample = replace(sample, has_missing=bool(np.isnan(sample.X).any()))
        fold = folds(sample, _EVIDENCE_FOLDS, None if groups is None else groups[index])
        self._draw_tails_in(rows, tailed, fold)
        found = column_evidence(sample, [(j, report[j]["density"]) for j in few], fold)
        for j, one in found.items():
            report[j] |= {"density": one.chosen, "reason": one.reason}
        if all(one.chosen == one.default for one in found.values()):
            return None
        kinds: dict[int, str] = dict(enumerate(schema.kinds))
        return kinds | {j: _KIND_OF_DENSITY[one.chosen] for j, one in found.items()}

    def _draw_tails_in(self, rows: LabelledRows, columns: list[int], fold: Integers) -> None:
        centre, width = _location_and_spread(rows, columns)
        varying = [i for i in range(len(columns)) if width[i] > 0.0]
        columns, centre, width = [columns[i] for i in varying], centre[varying], width[varying]
        tested = [i for i, j in enumerate(columns) if j not in self._steady]
        found = tail_evidence(
            rows, centre[tested], width[tested], [columns[i] for i in tested], fold
        )
        for j, at, scale in zip(columns, centre, width, strict=True):
            if j in found:
                self.density_report_[j] |= {"density": found[j].chosen, "reason": found[j].reason}
            else:
                self.density_report_[j]["density"] = "johnson_su"
            if self.density_report_[j]["density"] == "johnson_su":
                self._tails[j] = float(at), float(scale)

    def _density(self, schema: Schema) -> Density:
        return self._product(schema, Gaussian(self.shared_variance, self.var_smoothing))

    def _densities(self, schema: Schema) -> list[Density]:
        shared = self._product(schema, Gaussian(True, self.var_smoothing))
        # Of few rows a class's own variance may be nothing, and its posterior then certainty.
        own = self._product(schema, Gaussian(False, self.var_smoothing, SHRINKAGE_ROWS))
        if self.shared_variance or _own_variances(own) == _own_variances(shared):
            return [shared]
        return [own, shared]

    def _product(self, schema: Schema, gaussian: Gaussian) -> Product:
        """Return the density of all columns, with this one where a name says Gaussian."""
        chosen = self.density
        tails = getattr(self, "_tails", {})
        steady: list[int] = getattr(self, "_steady", [])
        one_variance = Gaussian(True, gaussian.var_smoothing)
        by_column: dict[int, str | Density] = {}
        if isinstance(chosen, Mapping):
            by_column = {
                schema.index(column): one for column, one in chosen.items() if not _is_auto(one)
            }
        elif not _is_auto(chosen):
            by_column = dict.fromkeys(range(schema.n_features), chosen)
        groups: dict[Any, tuple[str | Density, list[int], Gaussian]] = {}
        for j, kind in enumerate(schema.kinds):
            one = by_column.get(j, DENSITY_OF_KIND[kind])
            if j in tails and one == "gaussian":
                one = "johnson_su"
            # The order of the parts is the same in all variants: a pool adds their parameters.
            key = (one if isinstance(one, str) else id(one), j in steady)
            like = one_variance if j in steady else gaussian
            groups.setdefault(key, (one, [], like))[1].append(j)
        return Product(
            [
                (self._named(one, columns, schema, like), columns)
                for one, columns, like in groups.values()
            ]
        )

    def _named(
        self, one: str | Density, columns: list[int], schema: Schema, gaussian: Gaussian
    ) -> Density:
        if isinstance(one, Density):
            return one
        if one == "gaussian":
            return gaussian
        if one == "johnson_su":
            centre, width = zip(*(self._tails[j] for j in columns), strict=True)
            return JohnsonSU(
                centre,
                width,
                gaussian.shared_variance,
                gaussian.var_smoothing,
                gaussian.shrinkage_rows,
            )
        if one == "bernoulli":
            return Bernoulli(self.alpha)
        if one == "poisson":
            return Poisson(self.alpha)
        return Categorical(_levels(columns, schema), self.alpha)

    def _check_batch(self, X: Any, schema: Schema) -> None:
        columns = read_columns(X).columns
        for j, kind in enumerate(schema.kinds):
            by_type = self.density_report_[j]["reason"] == BY_TYPE
            if kind == "boolean":
                known = schema.categories[j] or (0, 1)
                other = [value for value in columns[j].factorised[0] if value not in known]
            elif kind == "count" and by_type:
                other = [value for value in columns[j].factorised[0] if value > LARGEST_COUNT]
                known = (f"0 to {LARGEST_COUNT}",)
            else:
                continue
            if other:
                raise DataError(
                    f"{schema.where(j)}: expected {' and '.join(map(str, known))} as in the first "
                    f"batch, got {show(other[0])}; give the column another density from the first "
                    f"batch on, for example density={{{schema.names[j]!r}: 'gaussian'}}"
                )

    def _widened(self, started: Density, summary: Any, schema: Schema) -> tuple[Density, Any]:
        assert isinstance(started, Product)
        columns = [j for j, kind in enumerate(schema.kinds) if kind == "categorical"]
        levels = dict(zip(columns, _levels(columns, schema), strict=True))
        return started.widen(summary, levels)


def _own_variances(product: Product) -> int:
    """Return how many parts have a variance of each class."""
    parts = [part for part, _ in product.parts if isinstance(part, Gaussian)]
    return sum(not part.shared_variance for part in parts)


def _report_of_types(density: Any, schema: Schema) -> list[dict[str, str]]:
    """Return each column's name, its density by its type or by the user's word, and which."""
    given: dict[int, Any] = {}
    if isinstance(density, Mapping):
        given = {schema.index(column): one for column, one in density.items()}
    elif not _is_auto(density):
        given = dict.fromkeys(range(schema.n_features), density)
    report = []
    for j, (name, kind) in enumerate(zip(schema.names, schema.kinds, strict=True)):
        one = given.get(j, "auto")
        reason = BY_TYPE if _is_auto(one) else "given"
        chosen = DENSITY_OF_KIND[kind] if _is_auto(one) else one
        shown = chosen if isinstance(chosen, str) else type(chosen).__name__
        report.append({"column": name, "density": shown, "reason": reason})
    return report


def _location_and_spread(rows: LabelledRows, columns: list[int]) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of columns, zero where nothing varies."""
    at_once = max(1, _CELLS_AT_ONCE // max(rows.n_samples, 1))
    parts = [columns[start : start + at_once] for start in range(0, len(columns), at_once)]
    found = [_of_columns(rows, part) for part in parts]
    if not found:
        return np.zeros(0), np.zeros(0)
    centre, spread = (np.concatenate(part) for part in zip(*found, strict=True))
    return centre, spread


def _of_columns(rows: LabelledRows, columns: list[int]) -> tuple[Floats, Floats]:
    X = np.asarray(rows.X[:, columns], dtype=np.float64)
    present = ~np.isnan(X)
    weights = np.ones(len(X)) if rows.weights is None else rows.weights
    total = np.maximum(weights @ present, 1e-300)
    shift = X[0] if len(X) else np.zeros(len(columns))
    shift = np.where(np.isfinite(shift), shift, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = np.where(present, X - shift, 0.0)
        mean = weights @ moved / total
        spread = np.sqrt(weights @ np.where(present, moved - mean, 0.0) ** 2 / total)
    usable = np.isfinite(spread) & (spread > 1e-13 * np.abs(shift + mean))
    return shift + mean, np.where(usable, spread, 0.0)


def _levels(columns: list[int], schema: Schema) -> list[int]:
    return [max(1, len(schema.categories[j] or ())) for j in columns]


def _is_auto(density: Any) -> bool:
    return isinstance(density, str) and density == "auto"


def _kind(density: str | Density) -> str:
    if isinstance(density, str):
        return _KIND_OF_DENSITY[density]
    return density.kind
