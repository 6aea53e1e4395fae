"""A maximum-entropy classifier of single tokens, for very many sparse features and classes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from crossfade._typing import Floats
from crossfade.crf.model import ConditionalRandomField
from crossfade.table.scored import ScoredClassifier


class MaximumEntropyClassifier(ScoredClassifier, BaseEstimator):
    """Multinomial logistic regression with weights for the (column, class) pairs that occur.

    It is the random field on sequences of length one, and shares its training: minutes become
    seconds where there are hundreds of thousands of columns, of which a row has few. Made to be
    the ``local_classifier`` of :class:`~crossfade.EntropicMarkovChain`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : sparse array of shape (n_classes, n_features)
    n_features_in_ : int

    Examples
    --------
    >>> import scipy.sparse
    >>> from crossfade.crf import MaximumEntropyClassifier
    >>> X = scipy.sparse.csr_array([[1.0, 0, 0], [0, 1, 0], [1, 0, 1], [0, 1, 1]])
    >>> MaximumEntropyClassifier().fit(X, ["a", "b", "a", "b"]).predict(X)
    array(['a', 'b', 'a', 'b'], dtype='<U1')
    """

    def __init__(self, *, l2: float = 2.0, delta: float = 1e-4, max_iter: int = 1000):
        self.l2 = l2
        self.delta = delta
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any) -> Self:
        """Train.

        Shapes: X (n_samples, n_features); y (n_samples,).
        """
        field = ConditionalRandomField(
            l2=self.l2, start_stop=False, delta=self.delta, max_iter=self.max_iter
        )
        self._field = field.fit(X, np.asarray(y), lengths=np.ones(X.shape[0], dtype=np.int64))
        self.classes_ = field.classes_
        self.coef_ = field.state_weights_.T.tocsr()
        self.n_features_in_ = int(X.shape[1])
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, (n_samples, n_classes).

        Shapes: X (n_samples, n_features).
        """
        check_is_fitted(self, "classes_")
        lengths = np.ones(X.shape[0], dtype=np.int64)
        probabilities: Floats = self._field.predict_proba(X, lengths)
        return probabilities

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row, (n_samples,).

        Shapes: X (n_samples, n_features).
        """
        classes: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return classes
