"""Gaussian discriminant analysis: a Gaussian, or a mixture of them, over all columns a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crossfade._checks import check_number
from crossfade.choice import ColumnChoice
from crossfade.classifiers.batches import BatchClassifier
from crossfade.densities.base import Density
from crossfade.densities.multivariate import COVARIANCES, MultivariateGaussian
from crossfade.errors import DataError
from crossfade.table import Schema
from crossfade.tradeoff.fitting import Family
from crossfade.tradeoff.path import SHRINKAGE_ROWS

__all__ = ["GaussianDiscriminant"]


class GaussianDiscriminant(BatchClassifier):
    """Gaussian classes with any covariance, fitted generatively, discriminatively or between.

    Parameters
    ----------
    covariance : {"shared", "full", "diagonal", "shared_diagonal", "spherical", \
"shared_spherical"}, default="shared"
        "shared" is linear discriminant analysis, "full" quadratic. Spherical means equal variances
        of the standardised columns, so that units do not matter.
    components : int, default=1
        Gaussians a class; with more than one the fit starts from the best of `n_init` EM runs and
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

    Attributes
    ----------
    classes_, class_count_, class_prior_, tradeoff_, tradeoff_path_, selection_, \
posterior_scale_, schema_, \
density_, parameters_, solution_, coef_, intercept_, class_densities_, n_features_in_, \
feature_names_in_
        As in :class:`~crossfade.NaiveBayes`.
    means_ : ndarray of shape (n_classes * components, n_features)
        Means in the columns' own units.
    covariances_ : ndarray of shape (n_classes * components, n_features, n_features)

    Notes
    -----
    All columns are one factor of the density: a row with a missing cell has no part that could be
    left out, so missing cells are refused, in fit and in predict.

    References
    ----------
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

    handle_unknown: Literal["ignore", "error"] = "error"

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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        names = ("shared", *(name for name in COVARIANCES if name != "shared_full"))
        if self.covariance not in (*names, "shared_full"):
            raise DataError(
                f"covariance: expected one of {', '.join(map(repr, names))}, got "
                f"{self.covariance!r}; 'shared' is linear, 'full' quadratic discriminant analysis"
            )
        check_number("shrinkage", self.shrinkage, 0.0, "0 is the plain covariance")
        if self.shrinkage >= 1.0:
            raise DataError(
                f"shrinkage: expected a number in [0, 1), got {self.shrinkage!r}; "
                "use covariance='shared_diagonal' for shrinkage 1"
            )
        for name in ("components", "n_init"):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
                raise DataError(
                    f"{name}: expected a positive integer, got {value!r}; 1 is the least"
                )
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
        return "continuous"

    def _density(self, schema: Schema, choices: Sequence[ColumnChoice] = ()) -> Density:
        return self._gaussian(self.covariance, 0.0)

    def _densities(self, schema: Schema, choices: Sequence[ColumnChoice] = ()) -> list[Density]:
        if self.components > 1:
            return [self._density(schema)]
        # Of few rows a covariance may be singular, and its posterior then certainty.
        one_for_all = self.covariance.startswith("shared")
        name = self.covariance if one_for_all else f"shared_{self.covariance}"
        # One covariance for all gets as many pseudo-rows in all as each class its own.
        shared = self._gaussian(name, SHRINKAGE_ROWS / self.classes_.size)
        if one_for_all:
            return [shared]
        return [self._gaussian(self.covariance, SHRINKAGE_ROWS), shared]

    def _gaussian(self, covariance: str, shrinkage_rows: float) -> MultivariateGaussian:
        return MultivariateGaussian(
            covariance, self.shrinkage, shrinkage_rows, standardise=bool(self.standardise)
        )

    def _family(self, classes: NDArray[Any]) -> Family:
        components, starts = int(self.components), int(self.n_init)
        family, seed = super()._family(classes), int(self.random_state)
        return replace(family, n_components=components, n_init=starts, seed=seed)

    @property
    def means_(self) -> Any:
        """Means in the columns' own units, shape (n_classes * components, n_features)."""
        return self._moments()[0]

    @property
    def covariances_(self) -> Any:
        """Covariances in the columns' own units, (n_classes * components, d, d)."""
        return self._moments()[1]

    def _moments(self) -> Any:
        self._check_density()
        assert isinstance(self.density_, MultivariateGaussian)
        return self.density_.moments(self.parameters_.natural)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        tags.input_tags.categorical = False
        tags.input_tags.string = False
        return tags
