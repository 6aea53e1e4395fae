"""Why this class? A prediction's log-odds as a sum over the columns of its row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from crossfade._checks import counted, listed, show
from crossfade._typing import Floats
from crossfade.classifiers.base import TradeoffClassifier
from crossfade.classifiers.entropic_naive_bayes import EntropicNaiveBayes
from crossfade.densities import Product
from crossfade.densities.words import Words
from crossfade.errors import DataError
from crossfade.table.documents import MixedRows, block_of


@dataclass(frozen=True, eq=False)
class Explanation:
    """What every column adds to the log-posterior of every class; :func:`explain` makes it.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    columns : tuple of str
        Names of the table's columns.
    baseline : ndarray of shape (n_samples, n_classes)
        What no column adds, in nats: the prior, and what the model's constant terms add to it.
    contributions : ndarray of shape (n_samples, n_columns, n_classes)
        In nats; zero where a missing cell leaves its column out.
    words : mapping of str to (tuple of str, ndarray)
        Of a column of free text its words, and what each occurrence in these rows adds: for every
        class a sparse array of shape (n_samples, n_words). They sum to the column's contributions.
    members : mapping of str to ndarray of shape (n_samples, n_classes)
        Of a logarithmic pool what each member adds to the log of the class shares.

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade import NaiveBayes, explain
    >>> X, y = np.array([[0.0, 5.0], [1.0, 7.0], [4.0, 5.5], [6.0, 6.5]]), np.array([0, 0, 1, 1])
    >>> model = NaiveBayes(tradeoff=1, shared_variance=True).fit(X, y)
    >>> baseline, columns = explain(model, X[:1]).log_odds(1)
    >>> columns.round(2)
    array([[-19.8,   0. ]])
    >>> bool(np.isclose(baseline + columns.sum(axis=1), model.decision_function(X[:1])))
    True
    """

    classes: NDArray[Any]
    columns: tuple[str, ...]
    baseline: Floats
    contributions: Floats
    words: Mapping[str, tuple[tuple[str, ...], Any]] = field(default_factory=dict)
    members: Mapping[str, Floats] = field(default_factory=dict)

    def __repr__(self) -> str:
        rows, columns, classes = self.contributions.shape
        return (
            f"<Explanation: {counted(rows, 'row')}, {counted(columns, 'column')}, {classes} "
            "classes. See .log_odds(label, against), .contributions>"
        )

    @property
    def scores(self) -> Floats:
        """Log-posteriors up to a term common to the classes, (n_samples, n_classes)."""
        return self.baseline + self.contributions.sum(axis=1)

    def log_odds(self, label: Any, against: Any = None) -> tuple[Floats, Floats]:
        """Return the log-odds of one class against another as baseline and contributions.

        Parameters
        ----------
        label : label
            The class.
        against : label, optional
            The other class; where there are two it need not be named.

        Returns
        -------
        baseline : ndarray of shape (n_samples,)
        contributions : ndarray of shape (n_samples, n_columns)
            Their sum and the baseline are the log-odds, log P(label) - log P(against).

        Raises
        ------
        DataError
            If there is no such class, or `against` is needed.
        """
        first = self._position(label, "label")
        if against is None:
            if self.classes.size != 2:
                raise DataError(
                    f"against: expected one of the {self.classes.size} classes, got None; name the "
                    "class to compare with"
                )
            second = 1 - first
        else:
            second = self._position(against, "against")
        return (
            self.baseline[:, first] - self.baseline[:, second],
            self.contributions[..., first] - self.contributions[..., second],
        )

    def word_log_odds(self, column: str, row: int, label: Any, against: Any = None) -> list[Any]:
        """Return the words of a cell of text and what each adds to the log-odds, largest first.

        Parameters
        ----------
        column : str
            A column of free text.
        row : int
            Which row.
        label, against : label
            As in :meth:`log_odds`.

        Returns
        -------
        list of (str, float)
        """
        first = self._position(label, "label")
        second = 1 - first if against is None else self._position(against, "against")
        names, by_class = self.words[column]
        gap = (by_class[first][[row]] - by_class[second][[row]]).tocoo()
        found = zip(gap.col.tolist(), gap.data.tolist(), strict=True)
        return sorted(((names[j], v) for j, v in found), key=lambda one: -abs(one[1]))

    def _position(self, label: Any, parameter: str) -> int:
        labels = self.classes.tolist()
        if label not in labels:
            raise DataError(
                f"{parameter}: expected one of the classes {listed(labels)}, got {show(label)}"
            )
        return int(labels.index(label))


def explain(model: Any, X: Any) -> Explanation:
    """Return what every column adds to the log-odds of each row's classes; an exact sum.

    Naive Bayes: a column adds the log of its own density, log f_k(x_j), nothing where it is
    missing, and the baseline is the log of the prior. (A posterior without densities, which the
    fit at tradeoff 0 can be: a column adds η_k·T(x_j), nothing where its statistics are all zero.)
    Where tradeoff "auto" raised the posterior, relative to the class shares, to a power,
    ``posterior_scale_``, what columns add is times it, and the baseline stays the log of the prior.

    A column that ``interactions`` derives from two others adds half of its part to each of them,
    one that ``thresholds`` derives adds to the column that it comes from.

    Gaussian discriminants: the log-posterior is a polynomial a·z + z·B z in the columns centred at
    their training means (and divided by their deviations, which changes nothing). A column adds
    its own terms, and products of two columns are split evenly between them: z_j (a_j + Σ_i B_ij
    z_i). So a column at its training mean adds nothing; with a shared covariance there are no
    products. The baseline is the log-posterior at the means. A class that is a mixture has the log
    of a sum: its components' contributions are averaged by their shares in the row's posterior,
    and the baseline takes up the entropy of those shares, which makes the sum exact.

    Pipelines: what the prepared columns add (one for each category of a text column) is summed for
    the column that they come from. :class:`~crossfade.EntropicNaiveBayes`: a classifier adds log
    L_t(k) - log π(k), split evenly if it sees several columns.
    :class:`~crossfade.PooledClassifier`: see its ``explain``.

    Parameters
    ----------
    model : estimator
        A fitted classifier of Crossfade's, or a pipeline of a
        :class:`~crossfade.table.preparation.Preparation` and one.
    X : data frame or array-like of shape (n_samples, n_features)
        As for its ``predict_proba``.

    Returns
    -------
    Explanation

    Raises
    ------
    DataError
        If the model is none of these, or `X` is not what it takes.

    Examples
    --------
    >>> import polars as pl
    >>> from crossfade import NaiveBayes, explain
    >>> table = pl.DataFrame({"town": ["Oslo", "Oslo", "Bern", "Bern"], "dog": [True, False] * 2})
    >>> model = NaiveBayes(tradeoff=1).fit(table, ["no", "no", "yes", "no"])
    >>> explanation = explain(model, table[2:3])
    >>> explanation.columns
    ('town', 'dog')
    >>> baseline, columns = explanation.log_odds("yes")
    >>> baseline.round(3), columns.round(3)
    (array([-1.099]), array([[0.511, 0.511]]))
    """
    if isinstance(model, Pipeline):
        return _of_pipeline(model, X)
    if isinstance(model, TradeoffClassifier):
        return _of_tradeoff(model, X)
    if isinstance(model, EntropicNaiveBayes):
        return _of_entropic(model, X)
    if hasattr(model, "explain"):
        found: Explanation = model.explain(X)
        return found
    raise DataError(
        "model: expected a classifier of Crossfade's, or a pipeline that ends in one, got "
        f"{type(model).__name__}"
    )


def _of_pipeline(model: Pipeline, X: Any) -> Explanation:
    preparation = model[0]
    if len(model.steps) != 2 or not hasattr(preparation, "source_columns_"):
        raise DataError(
            "model: expected a pipeline of a Preparation and a classifier, got one of "
            f"{', '.join(type(step).__name__ for _, step in model.steps)}; explain its last step"
        )
    inner = explain(model[-1], preparation.transform(X))
    names = preparation.schema_.names
    shape = (inner.baseline.shape[0], len(names), inner.classes.size)
    contributions = np.zeros(shape)
    for prepared, source in enumerate(preparation.source_columns_.tolist()):
        contributions[:, source] += inner.contributions[:, prepared]
    return Explanation(inner.classes, names, inner.baseline, contributions)


def _of_tradeoff(model: TradeoffClassifier, X: Any) -> Explanation:
    model.predict_proba(X)  # refuses what cannot be predicted
    matrix, schema = model._encoded(X), model.schema_
    baseline, contributions = column_scores(model, matrix)
    words = _word_scores(model, matrix)
    if not schema.sparse:
        return Explanation(model.classes_, schema.names, baseline, contributions, words)
    # Of a sparse table the words are the columns.
    ((_, by_class),) = words.values()
    contributions = np.stack([one.toarray() for one in by_class], axis=2)
    return Explanation(model.classes_, schema.names, baseline, contributions)


def word_scores(model: TradeoffClassifier, X: Any) -> dict[str, tuple[tuple[str, ...], Any]]:
    """Return what words add in rows, by column of words; of a sparse table that is named ""."""
    return _word_scores(model, model._encoded(X))


def _word_scores(model: TradeoffClassifier, matrix: Any) -> dict[str, tuple[tuple[str, ...], Any]]:
    density, schema = model.density_, model.schema_
    if not isinstance(matrix, MixedRows) or not isinstance(density, Product):
        return {}
    scale, natural, first = posterior_power(model)[0], model.parameters_.natural, 0
    found = {}
    for part, columns in density.parts:
        own = natural[:, first : first + part.n_statistics]
        first += part.n_statistics
        if not isinstance(part, Words):
            continue
        column = int(columns[0])
        counts = part.statistics(matrix.words[column])
        added = [counts.multiply(scale * one[None, :]).tocsr() for one in own]
        names = schema.names if schema.sparse else schema.categories[column] or ()
        found["" if schema.sparse else schema.names[column]] = names, added
    return found


def column_scores(model: TradeoffClassifier, matrix: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return baseline and contributions of rows as the model's schema encodes them.

    Shapes: matrix (n_rows, n_features), not checked; → (n_rows, n_classes),
    (n_rows, n_features, n_classes).
    """
    matrix = block_of(matrix, slice(None))
    density, natural = model.density_, model.parameters_.natural
    baseline = np.tile(model.parameters_.offset, (matrix.shape[0], 1))
    contributions = density.scores_by_column(matrix, natural)
    absent = model.parameters_.absent
    partition = density.log_partition(natural) if absent is None else absent
    if density.allows_missing and np.isfinite(partition).all():
        # A column that is its own factor has its own -A or mean term, left out with it.
        factors = density.feature_factors
        single = np.bincount(factors, minlength=density.n_factors) == 1
        single &= ~density.word_factors
        baseline += partition[:, single].sum(axis=1)
        missing = density.missing_factors(matrix)
        present = np.ones(matrix.shape, bool) if missing is None else ~missing[:, factors]
        present &= single[factors]
        contributions -= np.where(present[:, :, None], partition.T[factors], 0.0)
    _share_out(model, matrix, partition, baseline, contributions)
    n_components = natural.shape[0] // model.classes_.size
    if n_components > 1:
        baseline, contributions = _averaged(baseline, contributions, n_components)
    if model._derived is not None:
        contributions = model._derived.folded(contributions)
    scale, base = posterior_power(model)
    baseline = scale * baseline + base
    if absent is not None:  # no density says what all classes have in common
        baseline -= np.logaddexp.reduce(baseline, axis=1)[:, None]
    return baseline, scale * contributions


def _share_out(
    model: TradeoffClassifier,
    matrix: NDArray[Any],
    partition: Floats,
    baseline: Floats,
    contributions: Floats,
) -> None:
    """Add to missing cells what the whole has more than the sum: their part in a marginal."""
    absent = np.isnan(matrix)
    rows, natural = np.flatnonzero(absent.any(axis=1)), model.parameters_.natural
    if not (rows.size and model.density_.fills_missing and np.isfinite(partition).all()):
        return
    scores = model.density_.relative_log_density(matrix[rows], natural, partition)
    scores += model.parameters_.offset + partition.sum(axis=1)
    gap = scores - baseline[rows] - contributions[rows].sum(axis=1)
    share = absent[rows] / absent[rows].sum(axis=1, keepdims=True)
    contributions[rows] += share[:, :, None] * gap[:, None, :]


def posterior_power(model: TradeoffClassifier) -> tuple[float, Floats]:
    """Return what log p_k f_k(x) is multiplied with, and what is added, for the log-posterior."""
    return model.posterior_scale_, model._fitted.whole.scorer.base


def _averaged(baseline: Floats, contributions: Floats, n_components: int) -> tuple[Floats, Floats]:
    """Return classes' terms from those of their components: log Σ exp s = Σ r s - Σ r log r."""
    n, d, _ = contributions.shape
    baseline = baseline.reshape(n, -1, n_components)
    contributions = contributions.reshape(n, d, -1, n_components)
    scores = baseline + contributions.sum(axis=1)
    log_shares = scores - np.logaddexp.reduce(scores, axis=2, keepdims=True)
    shares = np.exp(log_shares)
    return (
        (shares * (baseline - log_shares)).sum(axis=2),
        (shares[:, None] * contributions).sum(axis=3),
    )


def _of_entropic(model: EntropicNaiveBayes, X: Any) -> Explanation:
    factors = list(model._factors(X))
    n, k = factors[0].shape
    contributions = np.zeros((n, model.n_features_in_, k))
    for factor, (_, columns) in zip(factors, model.column_classifiers_, strict=True):
        contributions[:, columns] += factor[:, None] / len(columns)
    baseline = np.tile(np.log(model.class_prior_), (n, 1))
    return Explanation(model.classes_, model.schema_.names, baseline, contributions)
