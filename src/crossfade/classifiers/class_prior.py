"""A classifier for rows among which the classes have other shares than in fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from crossfade._typing import Floats
from crossfade.classifiers.checks import class_shares

#: Shares of the classes: "empirical", "uniform", one for each class, or by label.
ClassPrior = str | ArrayLike | Mapping[Any, float]


class PriorInUse(ABC):
    """Class shares that are known where the model is used."""

    classes_: NDArray[Any]

    @property
    @abstractmethod
    def _shares(self) -> tuple[Floats, Floats]:
        """Class shares of the rows of fit, and of the posterior, both (n_classes,)."""

    @abstractmethod
    def _for_shares(self, shares: Floats) -> Self:
        """Return a copy for rows among which the classes have these shares, (n_classes,)."""

    def __copy__(self) -> Self:
        found = object.__new__(type(self))
        found.__dict__.update(self.__dict__)
        return found

    def with_class_prior(self, class_prior: ClassPrior) -> Self:
        """Return the same model for rows among which the classes have other shares.

        Parameters
        ----------
        class_prior : "uniform", "empirical", array-like of shape (n_classes,) or mapping
            Shares of the classes, or a mapping of label to share; "empirical" are those of the
            rows of fit.

        Returns
        -------
        A fitted copy with P'(y|x) ∝ P(y|x) π'_y/π_y; everything else follows from it.

        Raises
        ------
        DataError
            If these are no shares.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from crossfade import NaiveBayes
        >>> X, y = load_iris(return_X_y=True)
        >>> model = NaiveBayes(tradeoff=1).fit(X, y)
        >>> model.with_class_prior([0.2, 0.7, 0.1]).class_prior_.round(3)
        array([0.2, 0.7, 0.1])
        """
        check_is_fitted(self)
        shares = class_shares(class_prior, self.classes_)
        adapted = self._for_shares(self._shares[0] if shares is None else shares)
        adapted.__dict__.pop("class_shares_", None)  # they were estimated for other rows
        return adapted

    def _used_with(self, class_prior: ClassPrior | None) -> Self:
        """Return the model for the class shares that a prediction was asked with, if any."""
        return self if class_prior is None else self.with_class_prior(class_prior)
