"""Class scores of fitted parameters: the numeric seam from which every prediction follows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.blocks import BLOCK_ROWS, for_each_block
from crossfade.densities.base import Density
from crossfade.rowwise import FEW_ENTRIES, SMALLEST_BOUND, aligned_table, centre_rounded, decide
from crossfade.rowwise.posteriors import softmax
from crossfade.table.documents import MixedRows, block_of, lent_block, n_cells
from crossfade.tradeoff.labelled_rows import WORD_ROWS, LabelledRows
from crossfade.tradeoff.objective import Parameters, TradeoffObjective

#: Scores up to which loading the compiler takes longer than they do.
_FEW_SCORES = 1 << 17

#: Scores of a block at most: 8 MB.
_SCORE_CELLS = 1 << 20


class Scorer:
    """log p_k f_k(x), or the part of it that posteriors need, for blocks of rows.

    `density`: Bound.
    `partition`: A of the natural parameters. Where they lie outside the density's domain, the
        posterior of complete rows is still defined, and a missing factor adds nothing.
    `n_components`: Mixture components of each class.
    `scale`: Power of the posterior relative to the class shares: π (p f / π)^scale.
    `log_prior` (n_classes,): What stands for the logarithm of the class shares where there is no
        density; needed with another scale than 1.
    """

    def __init__(
        self,
        density: Density,
        parameters: Parameters,
        partition: Floats,
        n_components: int = 1,
        *,
        scale: float = 1.0,
        log_prior: Floats | None = None,
    ) -> None:
        self.density, self.parameters = density, parameters
        self.n_components = n_components
        self.scale = scale
        self.n_classes = parameters.offset.size // n_components
        self.is_density = bool(np.isfinite(partition).all())
        self.partition = partition if self.is_density else None
        self.absent = self.partition if parameters.absent is None else parameters.absent
        if self.partition is not None:
            self.log_prior = parameters.offset + partition.sum(axis=1)
            log_prior = self.by_class(self.log_prior[None])[0]
        self.base = np.zeros(self.n_classes)
        if scale != 1.0:
            # Raised to no power at all, the posterior is the class shares.
            assert log_prior is not None
            self.base = (1.0 - scale) * log_prior

    @cached_property
    def _natural(self) -> Floats:
        """η as blocks of rows ask for it: of words in Fortran order, turned once."""
        natural = self.parameters.natural
        return np.asfortranarray(natural) if self.density.reads_words else natural

    def __getstate__(self) -> dict[str, Any]:
        turned = "_natural", "_rounded", "_nothing"
        return {name: value for name, value in self.__dict__.items() if name not in turned}

    @property
    def class_prior(self) -> Floats:
        """p_k, shape (n_classes,); where there is a density."""
        return np.exp(self.by_class(self.log_prior[None])[0])

    @property
    def _block_rows(self) -> int:
        """Rows of a block: fewer where many classes would make its scores large."""
        # Of words more rows, so that their products are compiled, and enough blocks for threads.
        most = WORD_ROWS // 2 if self.density.reads_words else BLOCK_ROWS
        return max(1, min(most, _SCORE_CELLS // self.n_classes))

    def by_class(self, scores: Floats) -> Floats:
        """Return scores of classes from those of their components, (n_rows, n_classes)."""
        if self.n_components == 1:
            return scores
        shape = (scores.shape[0], self.n_classes, self.n_components)
        return np.logaddexp.reduce(scores.reshape(shape), axis=2)

    def posterior_scores(self, X: Floats) -> Floats:
        """Return log P(y = k | x) up to a term common to the classes, (n_rows, n_classes)."""
        scores = self.relative_scores(X, self.absent)
        if self.scale != 1.0:
            scores *= self.scale
            scores += self.base
        return scores

    def relative_scores(self, X: Floats, absent: Floats | None) -> Floats:
        """Return log p_k f_k(x) up to a term common to the classes, (n_rows, n_classes).

        `absent` is what missing factors add: A for a density, None for nothing.
        """
        if absent is not None:
            scores = self.density.relative_log_density(X, self._natural, absent)
            scores += self.parameters.offset + absent.sum(axis=1)
        else:
            scores = self.density.scores(X, self._natural)
            scores += self.parameters.offset
        return self.by_class(scores)

    def joint_log_likelihood(self, X: Floats) -> Floats:
        """Return log p_k f_k(x), shape (n_rows, n_classes)."""
        scores = self.relative_scores(X, self.partition)
        scores += self.density.log_base_measure(X).sum(axis=1, keepdims=True)
        return scores

    def posterior(self, X: Floats, log: bool = False) -> Floats:
        """Return P(y = k | x), or its logarithm, for all rows on threads."""
        out = np.empty((X.shape[0], self.n_classes))
        normalise = softmax.twin if out.size <= _FEW_SCORES else softmax
        assert normalise is not None

        def block(rows: slice) -> None:
            scores = self.posterior_scores(lent_block(X, rows))
            if log:
                scores -= np.logaddexp.reduce(scores, axis=1)[:, None]
                out[rows] = scores
            else:
                normalise(scores, np.empty(len(scores)), False)
                out[rows] = scores

        for_each_block(block, X.shape[0], block_rows=self._block_rows)
        return out

    def decided(self, X: Floats, *, unread: bool = False) -> Integers | None:
        """Return the class of the largest score by row, None where a score is not finite.

        Of many words in single precision, and again in double where its rounding could matter.
        `unread`: Whether nobody has looked at the entries of X yet: then None as well where one is
        no count, or where they would not be looked at here.
        """
        if not self._is_linear or n_cells(X) < FEW_ENTRIES or (unread and not self._is_plain):
            return None if unread else self._decided(X)
        out, odd = np.empty(X.shape[0], dtype=np.int64), list[slice]()

        def block(rows: slice) -> None:
            counts: Any = self.density.only_counts(block_of(X, rows))
            own = counts.data, counts.indices, counts.indptr
            if not odd:
                decide(*own, self._rounded, self.n_classes, out[rows])
            if unread and (out[rows] < -1).any():
                odd.append(rows)

        _ = self._rounded
        for_each_block(block, X.shape[0], block_rows=self._block_rows)
        if odd:
            return None
        unsure, natural = np.flatnonzero(out < 0), self.parameters.natural

        def again(some: slice) -> None:
            counts: Any = self.density.only_counts(block_of(X, unsure[some]))
            words, places = np.unique(counts.indices, return_inverse=True)
            own = counts.data, places.ravel(), counts.indptr
            scores = scipy.sparse.csr_array(own, (some.stop - some.start, words.size))
            scores = scores @ natural[:, words].T + self.parameters.offset
            if not np.isfinite(scores.sum()):
                odd.append(some)
            out[unsure[some]] = scores.argmax(axis=1)

        for_each_block(again, unsure.size)
        return None if odd else out

    @cached_property
    def _is_linear(self) -> bool:
        """Whether scores are sums over counts of words and nothing else."""
        if not self.density.reads_words or self.n_components != 1 or self.scale != 1.0:
            return False
        return not np.any(self.absent) and self.density.only_counts(self._nothing) is not None

    @cached_property
    def _is_plain(self) -> bool:
        """Whether the counts of words that are summed are the rows' own."""
        return self.density.only_counts(self._nothing) is self._nothing.words[0]

    @cached_property
    def _nothing(self) -> MixedRows:
        """No rows of words."""
        words = scipy.sparse.csr_array((0, self.density.n_statistics))
        return MixedRows(np.empty((0, 1)), {0: words})

    @cached_property
    def _rounded(self) -> NDArray[np.float32]:
        """η by word and class, less their mean over classes, the offsets' row last.

        The column behind the classes' bounds what :func:`decide` asks for: its sums are of what is
        rounded to 24 bits there, and to 53 bits otherwise.
        """
        natural, offset = self.parameters.natural, self.parameters.offset
        found, n = aligned_table(natural.shape[1] + 1, offset.size + 1), offset.size
        with np.errstate(over="ignore", invalid="ignore"):
            for_each_block(lambda j: centre_rounded(natural[:, j], found[j]), natural.shape[1])
            centre_rounded(offset[:, None], found[-1:])
        found[-1, n] += SMALLEST_BOUND
        return found

    def _decided(self, X: Floats) -> Integers | None:
        out, odd = np.empty(X.shape[0], dtype=np.int64), []

        def block(rows: slice) -> None:
            scores = self.posterior_scores(lent_block(X, rows))
            if not np.isfinite(scores.sum()):
                odd.append(rows)
            np.argmax(scores, axis=1, out=out[rows])

        for_each_block(block, X.shape[0], block_rows=self._block_rows)
        return None if odd else out

    def all_rows(self, X: Floats, *, joint: bool) -> Floats:
        """Return the joint log-likelihood, or the posterior scores, of all rows on threads."""
        out = np.empty((X.shape[0], self.n_classes))
        of_block = self.joint_log_likelihood if joint else self.posterior_scores

        def block(rows: slice) -> None:
            out[rows] = of_block(block_of(X, rows))

        for_each_block(block, X.shape[0], block_rows=self._block_rows)
        return out


def held_out_scores(fits: Sequence[tuple[TradeoffObjective, Floats]], rows: LabelledRows) -> Floats:
    """Return the class scores that fits of one density to other rows give these rows.

    Shapes: → (n_fits, n_rows, n_classes).
    """
    found = [objective.spread(theta) for objective, theta in fits]
    density, each = found[0][0], [parameters for _, parameters in found]
    natural = np.concatenate([one.natural for one in each])
    absent = density.log_partition(natural)
    for own, one in zip(np.split(absent, len(each)), each, strict=True):
        if one.absent is not None:
            own[:] = one.absent
        elif not np.isfinite(own).all():
            own[:] = 0.0
    together = Parameters(natural, np.concatenate([one.offset for one in each]), absent)
    n_components = fits[0][0].passes.n_classes // rows.n_classes
    scores = Scorer(density, together, absent, n_components).all_rows(rows.X, joint=False)
    return scores.reshape(rows.n_samples, len(each), -1).swapaxes(0, 1)
