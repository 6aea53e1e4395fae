"""Documents as counts of words: one factor, as many statistics as words, over sparse rows."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import gammaln

from crossfade._typing import Floats, Integers
from crossfade.blocks import BLOCK_ROWS, for_each_block, n_threads
from crossfade.densities.base import Bound, Density, Term
from crossfade.densities.bernoulli import check_alpha
from crossfade.errors import NotADensityError
from crossfade.rowwise import add_by_class, add_entry_sums, entry_scores, log_sums, many_entries

#: Estimated probabilities keep this distance from 0, so that their logarithms are finite.
EDGE = 1e-15

#: Entries up to which words of the same rows are made one: a copy of 60 MB.
_MOST_COMPACTED = 5_000_000

#: Cells of a table of parameters that are worth a thread.
_MANY_CELLS = 1 << 19

#: Sums that entries are added to at a time: of many more, most lie outside of the cache.
_SUM_CELLS = 1 << 20

#: Least ratio, squared, by which a weight's penalty is divided, relative to the mean.
_LEAST_RATIO = 1e-2


class Words(Density):
    """Parent of the densities of one document, a row of a CSR matrix of counts.

    Its statistics are the counts, neither centred nor scaled: λ = 0 is logistic regression on them.
    """

    allows_missing = True
    kind: ClassVar[str] = "words"
    binarise: bool
    alpha: float
    by_ratio: bool
    used: NDArray[np.bool_] | None

    _profile: Floats
    _length: float

    #: How many words each statistic sums up, which word shares which, and the density before.
    _sizes: Floats | float = 1.0
    _groups: Integers | None = None
    _spread: Words | None = None

    @property
    def penalty_profile(self) -> Floats:
        return self._profile

    @property
    def idle(self) -> NDArray[np.bool_]:
        return np.array([self.n_statistics == 0])

    @property
    def forms_statistics(self) -> bool:
        return False

    @property
    def reads_words(self) -> bool:
        return True

    def _counts(self, X: Any) -> Any:
        """Return the statistics of a block, CSR."""
        if not self.binarise or self._spread is not None:
            return X
        return scipy.sparse.csr_array((np.ones_like(X.data), X.indices, X.indptr), shape=X.shape)

    def statistics(self, X: Any) -> Any:
        """Return the statistics of the words that are used, CSR (n_rows, n_words)."""
        counts = self._counts(X)
        return counts if self.used is None else counts.multiply(self.used[None, :]).tocsr()

    def terms(self, names: Sequence[str], levels: Sequence[Sequence[Any] | None]) -> list[Term]:
        words = levels[0] if len(names) == 1 else None
        if words is None or len(words) != self.n_statistics:
            return super().terms(names, levels)
        return [Term(f"{names[0]}: {word}", (0,)) for word in words]

    @property
    def has_tf_idf(self) -> bool:
        """Whether documents are weighed by tf-idf and brought to one length."""
        return False

    @property
    def weighing(self) -> tuple[bool, Floats | None, float]:
        """Return whether words count once, their inverse document frequencies, and the length.

        The frequencies are None where documents are not brought to one length.
        """
        return self.binarise, None, 1.0

    def _kept(self, values: Floats) -> Floats:
        """Return values by word, zero for words that are not used."""
        return values if self.used is None else values * self.used

    # -- from data to a bound density ------------------------------------------------------------

    def begin(self, head: Any, *, scales: bool = True) -> Self:
        new = copy.copy(self)
        new.n_features, new.n_factors, new.n_statistics = 1, 1, head.shape[1]
        new.factors = np.zeros(new.n_statistics, np.int64)
        new.feature_factors = np.zeros(1, np.int64)
        new.tied = np.zeros(new.n_statistics, dtype=bool)
        new._profile = np.ones(new.n_statistics)
        return new

    def check(self, X: Any) -> None:
        """Cells were looked at when they were read."""

    def only_counts(self, X: Any) -> Any | None:
        return self._counts(X) if self.used is None else None

    def for_words_of(self, X: Any, others: Any | None) -> Self:
        seen = np.zeros(X.shape[1], dtype=bool)
        seen[X.indices] = True
        if others is not None and not self.has_tf_idf:
            seen[others.indices] = True
        if seen.all():
            return self
        new = copy.copy(self)
        new.used = seen if self.used is None else self.used & seen
        return new

    def compact(self, X: Any) -> tuple[Self, Any]:
        if X.nnz > _MOST_COMPACTED:
            return self, X
        counts = self._counts(X)
        # Columns that are equal, and no others, have equal random sums (but once in 1e20).
        sums = counts.T @ np.random.default_rng(0).normal(size=(X.shape[0], 2))
        used = np.arange(X.shape[1]) if self.used is None else np.flatnonzero(self.used)
        keys = np.ascontiguousarray(sums[used]).view(np.complex128).ravel()
        _, first, groups, sizes = np.unique(
            keys, return_index=True, return_inverse=True, return_counts=True
        )
        kept = counts[:, used[first]]
        kept.data = kept.data * sizes[kept.indices]
        new = copy.copy(self)
        new._spread, new.used, new._sizes = self.begin(X[:1]), None, sizes.astype(np.float64)
        new._groups = np.full(X.shape[1], -1, np.int64)
        new._groups[used] = groups.ravel()
        return new, kept

    def spread(self, eta: Floats) -> tuple[Density, Floats]:
        if self._spread is None or self._groups is None:
            return self, eta
        used = self._groups >= 0
        every = np.zeros((eta.shape[0], self._groups.size))
        every[:, used] = eta[:, self._groups[used]]
        return self._spread, every

    @property
    def n_spread(self) -> int:
        return self.n_statistics if self._groups is None else self._groups.size

    def gathered(self, eta: Floats) -> Floats:
        if self._groups is None:
            return eta
        used = self._groups >= 0
        sums = [np.bincount(self._groups[used], one, self.n_statistics) for one in eta[:, used]]
        return np.stack(sums) / self._sizes

    def summary(self, X: Any, codes: Integers, weights: Floats | None, n_classes: int) -> Any:
        counts = self._counts(X)
        sums = np.zeros((n_classes, counts.shape[1]))
        given = np.zeros(0) if weights is None else weights
        # Some classes on each thread: each entry is read once, and a class's sum is taken in order.
        size = max(1, min(-(-n_classes // n_threads()), _SUM_CELLS // max(counts.shape[1], 1)))
        group = codes // size
        order = np.argsort(group.astype(np.min_scalar_type(n_classes)), kind="stable")
        ends = np.append(0, np.cumsum(np.bincount(group)))

        def of_classes(some: slice) -> None:
            number = some.start // size
            if number + 1 < ends.size:
                own = order[ends[number] : ends[number + 1]]
                matrix = counts.data, counts.indices, counts.indptr
                add_by_class(*matrix, own, codes, given, sums)

        for_each_block(of_classes, n_classes, block_rows=size)
        mass = np.bincount(codes, weights, n_classes).astype(np.float64)
        return self._factor_counts(mass, sums), sums

    def bind(self, summary: Any) -> Bound:
        counts, sums = summary
        new = copy.copy(self)
        sums = self._kept(sums)
        new._profile = new._profile * self._sizes
        prior_counts, prior_sums = self._prior(counts.shape[0])
        if self.by_ratio:
            new._profile *= self._inverse_ratios(counts, sums)
        return Bound(
            density=new,
            counts=counts,
            sums=sums,
            prior_counts=prior_counts,
            prior_sums=prior_sums,
            statistic_mean=np.zeros(self.n_statistics),
            statistic_scale=np.ones(self.n_statistics),
        )

    def _inverse_ratios(self, counts: Floats, sums: Floats) -> Floats:
        """Return 1/r², r the log-count ratio (Wang & Manning 2012), about 1 in the middle."""
        if not self.n_statistics:
            return np.ones(0)
        _, prior_sums = self._prior(counts.shape[0])
        smooth = np.maximum(prior_sums, EDGE)
        shares = (sums + smooth) / np.maximum(sums + smooth, EDGE).sum(axis=1, keepdims=True)
        ratio = np.log(shares / self._sizes)
        squared = ((ratio - ratio.mean(axis=0)) ** 2).mean(axis=0)
        # For two classes that is a quarter of the squared difference of the logarithms.
        squared *= 4.0
        return 1.0 / np.maximum(squared, _LEAST_RATIO)

    @abstractmethod
    def _factor_counts(self, mass: Floats, sums: Floats) -> Floats:
        """Return how often each class's A is counted in a block, (n_classes, 1).

        Shapes: mass (n_classes,); sums (n_classes, n_words).
        """

    @abstractmethod
    def _prior(self, n_classes: int) -> tuple[Floats, Floats]:
        """Return pseudo-counts of A and pseudo-sums."""

    def _prior_sums(self, n_classes: int) -> Floats:
        one = self._kept(np.full(self.n_statistics, self.alpha) * self._sizes)
        return np.broadcast_to(one, (n_classes, one.size))

    # -- the exponential family ------------------------------------------------------------------

    def some_statistics(self, X: Any, index: Integers) -> Floats:
        used = np.ones(index.size) if self.used is None else self.used[index]
        return np.asarray(self._counts(X)[:, index].toarray() * used)

    def square_sums(self, X: Any, weights: Floats) -> Floats:
        return self._kept(_transposed_product(self._counts(X).power(2), weights))

    def sufficient_statistics(self, X: Any) -> Floats:
        return self._kept(np.asarray(self._counts(X).toarray()))

    def missing_factors(self, X: Any) -> NDArray[np.bool_] | None:
        return None

    def hessian(self, eta: Floats) -> Floats:
        identity = np.eye(self.n_statistics)
        return np.stack(
            [self.hessian_product(np.tile(one, (len(identity), 1)), identity) for one in eta]
        )

    def scores(self, X: Any, eta: Floats) -> Floats:
        counts = self._counts(X)
        # No copy where the parameters are in Fortran order.
        slopes = np.ascontiguousarray(self._kept(eta).T)
        if not many_entries(counts.nnz, slopes.shape[1]):
            return np.asarray(counts @ slopes)
        out = np.empty((counts.shape[0], slopes.shape[1]))
        entry_scores(counts.data, counts.indices, counts.indptr, slopes, out)
        return out

    def weighted_sums(self, X: Any, weights: Floats) -> Floats:
        return self._kept(_transposed_product(self._counts(X), weights))

    def scores_by_column(self, X: Any, eta: Floats) -> Floats:
        return self.scores(X, eta)[:, None, :]

    def sample(self, eta: Floats, size: int, rng: np.random.Generator) -> Floats:
        raise NotADensityError(
            "sample: expected columns of numbers and categories, got words; a document's length is "
            "not modelled: sample from a model of the other columns"
        )


def _transposed_product(counts: Any, weights: Floats) -> Floats:
    """Return (X' weights)', (weights.shape[1], n_words), in Fortran order."""
    if not many_entries(counts.nnz, weights.shape[1]):
        return np.asarray((counts.T @ weights).T)
    out = np.zeros((counts.shape[1], weights.shape[1]))
    add_entry_sums(counts.data, counts.indices, counts.indptr, weights, 0, len(out), out)
    return out.T


class Multinomial(Words):
    """Words drawn one after the other: x ~ Multinomial(N, θ_k), N the document's length.

    The natural parameters are log θ_k, and a document of N words has N times their log-partition,
    f(x) ∝ exp(η·x - N log Σ_j exp η_j). At λ = 1 this is scikit-learn's MultinomialNB (binarised:
    on which words occur), at λ = 0 multinomial logistic regression on the counts.

    Parameters
    ----------
    alpha : float, default=1.0
        Pseudo-count of each word in each class.
    binarise : bool, default=False
        Whether a word that occurs counts once, however often it does.
    by_ratio : bool, default=False
        Whether the penalty on a word's weight is divided by the square of its log-count ratio:
        the prior that makes λ = 0 the NB-SVM's feature scaling (Wang & Manning 2012), with the
        logistic loss.
    used : ndarray of shape (n_words,), optional
        Which words have a part; by default all.
    tf_idf : bool, default=False
        Whether documents are brought to one length: a word that occurs counts as its inverse
        document frequency, log((1 + n) / (1 + df)) + 1, divided by the root of the document's sum
        of squares of these (as scikit-learn's TfidfTransformer has it), times the root of the mean
        number of different words (Rennie et al. 2003, sections 4.2 and 4.3). Tables that hold
        other than whole numbers stay as they are.
    complement : bool, default=False
        Whether a class's weights are minus the logarithms of the word probabilities of all other
        classes (Rennie et al. 2003, section 3.1): a posterior, no density, and at λ = 1 only. With
        ``class_prior="uniform"`` this is scikit-learn's ComplementNB, which has no class shares.
    normalise : bool, default=False
        Whether these weights are divided by their sum (as ComplementNB's `norm` has it).

    References
    ----------
    McCallum, A. and Nigam, K. (1998). A comparison of event models for naive Bayes text
    classification. AAAI workshop on learning for text categorization.
    Wang, S. and Manning, C. D. (2012). Baselines and bigrams. ACL.
    Rennie, J. D. M. et al. (2003). Tackling the poor assumptions of naive Bayes text classifiers.
    ICML.

    Examples
    --------
    >>> import numpy as np, scipy.sparse
    >>> from crossfade.densities import Multinomial
    >>> X = scipy.sparse.csr_array([[2.0, 0.0], [0.0, 1.0]])
    >>> begun = Multinomial().begin(X)
    >>> bound = begun.bind(begun.summary(X, np.array([0, 1]), None, 2))
    >>> eta = bound.density.estimate(
    ...     bound.counts + bound.prior_counts, bound.sums + bound.prior_sums
    ... )
    >>> np.exp(eta)  # (2 + 1) / (2 + 2) and so on
    array([[0.75      , 0.25      ],
           [0.33333333, 0.66666667]])
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        binarise: bool = False,
        by_ratio: bool = False,
        used: NDArray[np.bool_] | None = None,
        tf_idf: bool = False,
        complement: bool = False,
        normalise: bool = False,
    ) -> None:
        check_alpha(alpha)
        self.alpha, self.binarise, self.by_ratio, self.used = alpha, binarise, by_ratio, used
        self.tf_idf, self.complement, self.normalise = tf_idf, complement, normalise

    _idf: Floats | None = None
    _last: tuple[Any, Any] | None = None

    @property
    def has_tf_idf(self) -> bool:
        return self.tf_idf

    def informed(self, X: Any, weights: Floats | None) -> Self:
        if (
            self._spread is not None
            or not self.tf_idf
            or not X.nnz
            or not (X.data == np.floor(X.data)).all()
        ):
            return self
        present = scipy.sparse.csr_array((np.ones_like(X.data), X.indices, X.indptr), shape=X.shape)
        rows = np.ones(X.shape[0]) if weights is None else weights
        frequency = present.T @ rows
        new = copy.copy(self)
        # Words that these rows lack count nothing in others, whose other words would lose length.
        seen = frequency > 0.0
        new._idf = seen * (np.log((1.0 + rows.sum()) / (1.0 + frequency)) + 1.0)
        new._length = float(np.sqrt(frequency.sum() / rows.sum()))
        return new

    def _counts(self, X: Any) -> Any:
        if self._idf is None or self._spread is not None:
            return super()._counts(X)
        if self._last is None or self._last[0] is not X:
            self._last = X, self._weighted(X, self._idf)  # a fit asks for one block again and again
        return self._last[1]

    @property
    def weighing(self) -> tuple[bool, Floats | None, float]:
        if self._idf is None:
            return super().weighing
        return True, self._idf, self._length

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_last"}

    def _weighted(self, X: Any, idf: Floats) -> Any:
        values = idf[X.indices]
        one = scipy.sparse.csr_array((values**2, X.indices, X.indptr), shape=X.shape)
        size = np.sqrt(np.asarray(one.sum(axis=1)))
        lengths = np.divide(self._length, size, out=np.zeros_like(size), where=size > 0.0)
        values = values * np.repeat(lengths, np.diff(X.indptr))
        return scipy.sparse.csr_array((values, X.indices, X.indptr), shape=X.shape)

    @property
    def word_factors(self) -> NDArray[np.bool_]:
        return np.ones(1, dtype=bool)

    def _lengths(self, counts: Any) -> Floats:
        used = np.ones(self.n_statistics) if self.used is None else self.used.astype(np.float64)
        return np.asarray(counts @ used)

    def _factor_counts(self, mass: Floats, sums: Floats) -> Floats:
        return np.asarray(self._kept(sums).sum(axis=1, keepdims=True))

    def _prior(self, n_classes: int) -> tuple[Floats, Floats]:
        sums = self._prior_sums(n_classes)
        return sums.sum(axis=1, keepdims=True), sums

    def left_out(self, X: Any) -> Floats | None:
        return 1.0 - self._lengths(self._counts(X))[:, None]

    def _shares(self, eta: Floats) -> Floats:
        if not self.n_statistics:
            return np.zeros_like(eta)
        used = eta if self.used is None else np.where(self.used, eta, -np.inf)
        shares = np.exp(used - used.max(axis=-1, keepdims=True)) * self._sizes
        shares /= shares.sum(axis=-1, keepdims=True)
        return shares

    def log_partition(self, eta: Floats) -> Floats:
        if self.complement:
            return np.full((*eta.shape[:-1], 1), np.inf)
        used = eta if self.used is None else eta[..., self.used]
        found = np.zeros(eta.shape[:-1])
        if used.shape[-1]:
            sizes = self._sizes if isinstance(self._sizes, np.ndarray) else np.zeros(0)
            each, out = used.reshape(-1, used.shape[-1]), found.reshape(-1)
            some = -(-len(each) // max(each.size // _MANY_CELLS, 1))
            for_each_block(lambda k: log_sums(each[k], sizes, out[k]), len(each), block_rows=some)
        return np.where(np.isnan(found), np.inf, found)[..., None]

    def normalised(self, eta: Floats) -> tuple[Floats, Floats]:
        partition = self.log_partition(eta)
        return self._kept(eta - partition), partition[..., 0]

    def log_base_measure(self, X: Any) -> Floats:
        counts = self._counts(X)
        inner = scipy.sparse.csr_array((gammaln(counts.data + 1.0), counts.indices, counts.indptr))
        return (gammaln(np.asarray(counts.sum(axis=1)) + 1.0) - inner.sum(axis=1))[:, None]

    def surprise(self, X: Any, eta: Floats) -> Floats:
        """Return -log of the probability of the words in their order: a sum over words."""
        return -self.relative_log_density(X, eta)[:, None]

    def mean(self, eta: Floats) -> Floats:
        return self._shares(eta)

    def hessian_product(self, eta: Floats, direction: Floats) -> Floats:
        shares = self._shares(eta)
        return shares * (direction - (shares * direction).sum(axis=-1, keepdims=True))

    def inverse_hessian_product(self, eta: Floats, vector: Floats) -> Floats:
        vector = self._kept(vector)
        shares = np.maximum(self._shares(eta), 1e-300)
        return self._kept(vector / shares - vector.sum(axis=-1, keepdims=True))

    def hessian_diagonal(self, eta: Floats) -> Floats:
        return self._shares(eta)

    def natural(self, mean: Floats) -> Floats:
        return self._kept(np.log(np.maximum(mean / self._sizes, EDGE)))

    def _of_complements(self, sums: Floats) -> Floats:
        prior = self._prior_sums(1)
        rest = sums.sum(axis=0) - sums - (len(sums) - 2) * prior  # smoothed once, like the class
        share = np.maximum(rest / rest.sum(axis=1, keepdims=True), EDGE)
        eta = self._kept(np.log(share))
        return eta / eta.sum(axis=1, keepdims=True) if self.normalise else -eta

    def estimate(self, counts: Floats, sums: Floats) -> Floats:
        if self.complement:
            return self._of_complements(sums)
        # A class without any word has those of all classes.
        empty = counts[:, 0] <= 0.0
        if empty.any():
            pooled = sums.sum(axis=0) + self._kept(np.ones(sums.shape[1]) * self._sizes)
            sums = np.where(empty[:, None], pooled, sums)
            counts = np.where(empty[:, None], sums.sum(axis=1, keepdims=True), counts)
        return self._of_sums(counts, sums)[0]

    def smoothed(self, bound: Bound) -> tuple[Floats, Floats]:
        counts = bound.counts + bound.prior_counts
        if self.complement or self.used is not None or (counts <= 0.0).any():
            return super().smoothed(bound)
        eta, totals = self._of_sums(counts, bound.sums, bound.prior_sums)
        return eta, np.log(totals / counts)

    def _of_sums(
        self, counts: Floats, sums: Floats, more: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Return logarithms of shares, and what shares times counts add up to, (n_classes, 1).

        `more` is added to the sums, some words at a time: no table as wide as both is made.
        """
        counts = np.maximum(counts, EDGE)
        eta, totals = np.empty_like(sums), np.zeros((-(-sums.shape[1] // BLOCK_ROWS), len(sums)))
        sizes, log_counts = self._sizes, np.log(counts)

        def of_words(some: slice) -> None:
            own = sums[:, some] if more is None else sums[:, some] + more[:, some]
            if isinstance(sizes, np.ndarray):
                own = own / sizes[some]
            own = np.maximum(own, EDGE * counts)
            whole = own * sizes[some] if isinstance(sizes, np.ndarray) else own
            totals[some.start // BLOCK_ROWS] = whole.sum(axis=1)
            np.log(own, out=own)
            np.subtract(own, log_counts, out=eta[:, some])

        for_each_block(of_words, eta.shape[1])
        return self._kept(eta), totals.sum(axis=0)[:, None]
