"""Gaussian discriminant analysis: a Gaussian, or a mixture of them, over all columns, per class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from crossfade._checks import check_number
from crossfade.choice import ColumnChoice
from crossfade.classifiers.batches import BatchClassifier
from crossfade.densities.base import Density
from crossfade.densities.bernoulli import Bernoulli
from crossfade.densities.categorical import Categorical
from crossfade.densities.multivariate import COVARIANCES, MultivariateGaussian
from crossfade.densities.product import Product
from crossfade.errors import DataError
from crossfade.table import Schema
from crossfade.table.columns import Columns
from crossfade.tradeoff.fitting import FitOptions
from crossfade.tradeoff.grid import SHRINKAGE_ROWS

#: Weights of the pooled covariance, and of its diagonal, that are tried at λ = 1.
_POOLINGS = (0.0, 0.5)
_SHRINKAGES = (0.0, 0.5)


class GaussianDiscriminant(BatchClassifier):
    """Gaussian classes with any covariance, fitted generatively, discriminatively or between.

    Parameters
    ----------
    covariance : {"shared", "full", "diagonal", "shared_diagonal", "spherical", \
"shared_spherical"}, default="shared"
        "shared" is linear discriminant analysis, "full" quadratic. Spherical means equal variances
        of the standardised columns, so that units do not matter.
    components : int, default=1
        Gaussians per class; with more than one the fit starts from the best of `n_init` EM runs and
        the objective is not convex.
    tradeoff : float, "auto" or "best", default="auto"
        λ: 1 fits the joint likelihood, 0 the conditional likelihood (logistic regression on the
        columns, and on their products where covariances differ). "auto" pools a grid of λ and
        penalties (and, for covariances of a class's own, those and shared ones) by their
        out-of-fold losses, "best" picks one point of it; so does "auto" for mixtures.
    shrinkage : float, default=0.0
        s in [0, 1): the generative covariance is (1 - s) Σ + s D, D the diagonal of the pooled
        within-class variances. Where the tradeoff is chosen, two pseudo-rows are added to that.
    l2 : float, default=1.0
        Strength of the penalty on the discriminative weights of the standardised statistics:
        1/C of scikit-learn's LogisticRegression. It enters with weight 1 - λ.
    class_prior : {"empirical", "uniform"}, array (n_classes,) or mapping, default="empirical"
        Class shares where the model will be used.
    selection : {"log_loss", "brier", "error"} or array (n_classes, n_classes), default="log_loss"
        By which out-of-fold loss "auto" chooses; an array holds costs[true, decided].
    class_weight : mapping of label to weight, "balanced" or None, default=None
    n_init : int, default=5
        EM runs (components > 1).
    random_state : int, default=0
        Of the EM starts; nothing else is random.
    standardise : bool, default=True
        If False, spherical means equal variances of the columns as they are: for columns of one
        unit, where those that vary most should count most. Nothing else depends on it.
    unlabelled : None, "missing" or a label, default=None
        Which rows of fit have no label, as in :class:`NaiveBayes`.
    unlabelled_weight : "auto" or float, default="auto"
        What such a row counts in the joint likelihood, as in :class:`NaiveBayes`.

    Attributes
    ----------
    classes_, class_count_, class_prior_, tradeoff_, tradeoff_path_, selection_, \
posterior_scale_, schema_, \
density_, parameters_, solution_, coef_, intercept_, class_densities_, n_features_in_, \
feature_names_in_
        As in :class:`~crossfade.NaiveBayes`.
    means_ : ndarray of shape (n_classes * components, n_joint)
        Means of the numeric columns in their own units.
    covariances_ : ndarray of shape (n_classes * components, n_joint, n_joint)

    Notes
    -----
    "auto" and "best" also try covariances regularised towards the pooled one and its diagonal
    (Friedman 1989), at tradeoff 1, where each is a closed form. A tradeoff below 1 is tried where
    at most 10 times the K (d + 1) parameters of a logistic regression on the same columns, and at
    most 1,500, are searched for: K (d + 1) + d (d + 1) / 2 with a shared covariance (K (d + 1) at
    tradeoff 0, always few enough), K (1 + d (d + 3) / 2) with one per class. `selection_` says
    what was left out.

    The columns of numbers are one joint Gaussian; every column of text, categories, booleans or
    two different numbers is an independent factor given the class, with Laplace's smoothing (the
    location model, Olkin & Tate 1961). An array of numbers is one Gaussian, whatever its numbers.

    A missing category is left out of the product; at tradeoff 0 it counts as the mean. A missing
    number has, at tradeoff 1, no part either: the row's density is that of its other numbers,
    exactly. At any other tradeoff it is its mean given the row's other numbers, by the mean and
    covariance of all classes together (found by EM, which ends where a step moves none of them by
    1e-4 standard deviations, or after 50). Rows to learn from are filled in that way, too, and at
    tradeoff 1 the variance that such a mean leaves is added; but mixtures (components > 1) at
    tradeoff 1 learn from the cells that are there alone, by EM: no row is filled in.

    References
    ----------
    Friedman, J. H. (1989). Regularized discriminant analysis. Journal of the American Statistical
    Association 84.

    Olkin, I. and Tate, R. F. (1961). Multivariate correlation models with mixed discrete and
    continuous variables. Annals of Mathematical Statistics 32.

    Bouchard, G. and Triggs, B. (2004). The tradeoff between generative and discriminative
    classifiers. COMPSTAT.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from crossfade import GaussianDiscriminant
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GaussianDiscriminant("full", tradeoff=1).fit(X, y)
    >>> round(model.score(X, y), 3)
    0.98
    """

    handle_unknown: Literal["ignore", "error"] = "ignore"

    _one_density = frozenset({"continuous", "count"})

    def __init__(
        self,
        covariance: str = "shared",
        *,
        components: int = 1,
        tradeoff: float | str = "auto",
        shrinkage: float = 0.0,
        l2: float = 1.0,
        class_prior: str | ArrayLike | Mapping[Any, float] = "empirical",
        selection: str | ArrayLike = "log_loss",
        class_weight: Mapping[Any, float] | str | None = None,
        n_init: int = 5,
        random_state: int = 0,
        standardise: bool = True,
        unlabelled: Any = None,
        unlabelled_weight: str | float = "auto",
    ) -> None:
        self.covariance = covariance
        self.components = components
        self.tradeoff = tradeoff
        self.shrinkage = shrinkage
        self.l2 = l2
        self.class_prior = class_prior
        self.selection = selection
        self.class_weight = class_weight
        self.n_init = n_init
        self.random_state = random_state
        self.standardise = standardise
        self.unlabelled = unlabelled
        self.unlabelled_weight = unlabelled_weight

    def _check_parameters(self) -> None:
        super()._check_parameters()
        names = ("shared", *(name for name in COVARIANCES if name != "shared_full"))
        if self.covariance not in (*names, "shared_full"):
            raise DataError(
                f"covariance: expected one of {', '.join(map(repr, names))}, got "
                f"{self.covariance!r}; 'shared' is linear, 'full' quadratic discriminant analysis"
            )
        remedy = "0 is the plain covariance, covariance='shared_diagonal' that of shrinkage 1"
        check_number("shrinkage", self.shrinkage, 0.0, remedy, below=1.0)
        for name in ("components", "n_init"):
            check_number(name, getattr(self, name), 1, "1 is the least", whole=True)
        if not isinstance(self.standardise, (bool, np.bool_)):
            raise DataError(
                f"standardise: expected True or False, got {self.standardise!r}; True makes units "
                "not matter"
            )
        if not isinstance(self.random_state, (int, np.integer)):
            raise DataError(
                f"random_state: expected an integer, got {self.random_state!r}; fits are always "
                "repeatable"
            )

    def _declared_kinds(self, X: Any) -> Mapping[Any, str] | str | None:
        # An array of numbers is as its author wrote it; a table has columns of several kinds.
        if isinstance(X, Columns):
            return "continuous" if X.matrix is not None else None
        is_table = nw.dependencies.is_into_dataframe(X)
        return "continuous" if not is_table and _is_numeric(X) else None

    def _density(self, schema: Schema, choices: Sequence[ColumnChoice] = ()) -> Density:
        return self._product(schema, self.covariance, 0.0)

    def _densities(self, schema: Schema, choices: Sequence[ColumnChoice] = ()) -> list[Density]:
        if self.components > 1:
            return [self._density(schema)]
        # Of few rows a covariance may be singular, and its posterior then certainty.
        one_for_all = self.covariance.startswith("shared")
        name = self.covariance if one_for_all else f"shared_{self.covariance}"
        name = "shared" if name == "shared_full" else name
        matrix = name == "shared" and len(_joint_columns(schema)) > 1
        shrinkages = _SHRINKAGES if matrix else (0.0,)
        # One covariance for all gets as many pseudo-rows in all as each class its own.
        rows = SHRINKAGE_ROWS / self.classes_.size
        shared = [self._product(schema, name, rows, s) for s in shrinkages]
        if not _joint_columns(schema):
            return shared[:1]
        if one_for_all:
            return shared
        grid = [(s, w) for s in shrinkages for w in _POOLINGS]
        own = [self._product(schema, self.covariance, SHRINKAGE_ROWS, s, w) for s, w in grid]
        return own + shared

    def _product(
        self,
        schema: Schema,
        covariance: str,
        shrinkage_rows: float,
        shrinkage: float = 0.0,
        pooling: float = 0.0,
    ) -> Density:
        """Return one Gaussian over all numbers times a factor for each other column."""
        if schema.texts:
            column = schema.where(schema.kinds.index("text"))
            raise DataError(
                f"{column}: expected numbers or categories, got free text, which "
                "GaussianDiscriminant does not read; use NaiveBayes, or drop the column"
            )
        joint = _joint_columns(schema)
        gaussian = MultivariateGaussian(
            covariance,
            1.0 - (1.0 - self.shrinkage) * (1.0 - shrinkage) if shrinkage else self.shrinkage,
            shrinkage_rows,
            pooling=pooling,
            standardise=bool(self.standardise),
            missing="marginal" if self.tradeoff == 1.0 else "mean",
        )
        if len(joint) == schema.n_features:
            return gaussian
        parts: list[tuple[Density, list[int]]] = [(gaussian, joint)] if joint else []
        booleans, texts = (
            [j for j, one in enumerate(schema.kinds) if one in kinds]
            for kinds in (("boolean",), ("categorical", "identifier"))
        )
        if booleans:
            parts.append((Bernoulli(), booleans))
        if texts:
            parts.append((Categorical(schema.n_levels(texts)), texts))
        return Product(parts)

    def _fit_options(self, classes: NDArray[Any]) -> FitOptions:
        components, starts = int(self.components), int(self.n_init)
        options, seed = super()._fit_options(classes), int(self.random_state)
        return replace(options, n_components=components, n_init=starts, seed=seed)

    @property
    def means_(self) -> Any:
        """Means in the columns' own units, shape (n_classes * components, n_joint)."""
        return self._moments()[0]

    @property
    def covariances_(self) -> Any:
        """Covariances in the columns' own units, (n_classes * components, n_joint, n_joint)."""
        return self._moments()[1]

    def _moments(self) -> Any:
        self._check_density()
        density, natural = self.density_, self.parameters_.natural
        if isinstance(density, Product):
            density = density.parts[0][0]
            natural = natural[:, : density.n_statistics]
        if not isinstance(density, MultivariateGaussian):
            return np.zeros((len(natural), 0)), np.zeros((len(natural), 0, 0))
        return density.moments(natural)


def _joint_columns(schema: Schema) -> list[int]:
    """Return the columns of the joint Gaussian."""
    return [j for j, kind in enumerate(schema.kinds) if kind in ("continuous", "count")]


def _is_numeric(X: Any) -> bool:
    try:
        return np.asarray(X).dtype.kind in "fiu"
    except ValueError:
        return False  # ragged: refused in its turn
