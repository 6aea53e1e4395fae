"""Words and other symbols, looked up in a table of as many columns as there are symbols."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from crossfade._checks import is_missing
from crossfade._typing import Floats, Integers
from crossfade.chains.input import Layout, encode, names_array, stack_symbols
from crossfade.errors import DataError
from crossfade.hmm.emission import Emission, Scorer, TableScorer
from crossfade.rowwise import add_rows

#: Weight of the cell for unseen symbols where smoothing gives it none: scores must stay finite.
_RESERVE = 1e-10


def _looked_up(theta: Floats, missing: Floats) -> TableScorer:
    return TableScorer(np.ascontiguousarray(np.vstack([theta.T, missing])))


@dataclass(frozen=True)
class SymbolEmission(Emission):
    """One symbol per step: words, tags, codes. The last column of θ is the cell of unseen symbols.

    `alpha`: Pseudo-count of each cell; with 0 the cell of unseen symbols has weight 1e-10.
    """

    alpha: float
    symbols: tuple[Any, ...] = ()
    known: dict[Any, int] = field(default_factory=dict, repr=False)
    shiftable = True

    @property
    def small_sums(self) -> bool:  # type: ignore[override]
        return len(self.symbols) < 1000

    def read(self, X: Any, lengths: ArrayLike | None) -> tuple[Any, Layout]:
        return stack_symbols(X, lengths)

    def any_observed(self, raw: Any) -> bool:
        return isinstance(raw, np.ndarray) or not all(map(is_missing, raw))

    def observe(self, raw: Any) -> Integers:
        return encode(raw, self.known)

    def bind(self, raw: Any, codes: Integers | None, n_states: int) -> SymbolEmission:
        if isinstance(raw, np.ndarray):
            raw = np.unique(raw).tolist()
        found = {symbol for symbol in raw if not is_missing(symbol)}
        if not found:
            raise DataError("X: expected at least one symbol, got none; pass non-empty sequences")
        try:
            symbols = tuple(sorted(found))
        except TypeError:  # of several kinds: in the order they came
            symbols = tuple(dict.fromkeys(s for s in raw if not is_missing(s)))
        return self.with_symbols(symbols)

    def with_symbols(self, symbols: tuple[Any, ...]) -> SymbolEmission:
        """Return a copy that knows these symbols."""
        return SymbolEmission(self.alpha, symbols, {s: code for code, s in enumerate(symbols)})

    def potentials(self, theta: Floats, absent: Floats | None = None) -> Scorer:
        return _looked_up(theta, (self.partition(theta) if absent is None else absent)[:, 0])

    def log_likelihoods(self, theta: Floats) -> Scorer:
        return _looked_up(theta, np.zeros(len(theta)))

    def normalised(self, theta: Floats) -> Floats:
        return theta - self.partition(theta)

    def partition(self, theta: Floats) -> Floats:
        return np.asarray(logsumexp(theta, axis=1, keepdims=True))

    def partition_gradient(self, theta: Floats, weights: Floats) -> Floats:
        return weights * np.exp(theta - self.partition(theta))

    @property
    def factors(self) -> Integers:
        return np.zeros(len(self.symbols) + 1, dtype=np.int64)

    def sums(self, observations: Integers, weights: Floats) -> tuple[Floats, Floats]:
        table = np.zeros((len(self.symbols) + 1, weights.shape[1]))
        add_rows(observations, weights, table)
        return table.sum(axis=0)[:, None], table.T

    def missing_counts(self, observations: Integers, weights: Floats) -> Floats | None:
        missing = observations < 0
        return weights[missing].sum(axis=0)[:, None] if missing.any() else None

    def estimate(self, counts: Floats, sums: Floats, previous: Floats | None) -> Floats:
        weights = sums + (self.alpha if previous is None else self.alpha * (previous > -np.inf))
        total = weights.sum(axis=1, keepdims=True)
        even = np.full(weights.shape, 1.0 / weights.shape[1])
        share = np.divide(weights, total, out=even, where=total > 0)
        with np.errstate(divide="ignore"):
            theta = np.log(share)
        if self.alpha == 0:
            theta[:, -1] = np.log(_RESERVE)
        if previous is not None:
            theta = np.where(total > 0, theta, previous)
        return theta

    def prior(self) -> tuple[Floats, Floats]:
        n_cells = len(self.symbols) + 1
        return np.full((1, 1), self.alpha * n_cells), np.full((1, n_cells), self.alpha)

    def log_prior(self, theta: Floats) -> float:
        return float(self.alpha * theta[theta > -np.inf].sum())

    def random_weights(
        self, observations: Integers, n_states: int, rng: np.random.Generator
    ) -> Floats:
        # A symbol's steps go together: shares drawn a step would average out.
        table = rng.dirichlet(np.ones(n_states), size=len(self.symbols) + 2)
        return table[observations]

    def order(self, theta: Floats) -> Integers:
        return np.lexsort(-theta.T[::-1])

    def coefficients(self, sums: Floats) -> tuple[Floats, Floats, list[str], list[list[str]]]:
        # Against the commonest symbol, as a column's categories are.
        n = len(self.symbols)
        base = int(sums[:, :n].sum(axis=0).argmax())
        slopes, constants = np.delete(np.eye(n + 1, n), base, axis=1), np.zeros(n + 1)
        slopes[base], constants[base] = -1.0, 1.0
        names = [f"symbol = {one}" for i, one in enumerate(self.symbols) if i != base]
        return slopes, constants, names, [["symbol"]] * (n - 1)

    def in_usual_terms(self, theta: Floats) -> dict[str, Any]:
        table = np.exp(theta)
        return {
            "emissionprob_": table[:, :-1],
            "unseenprob_": table[:, -1],
            "symbols_": names_array(self.symbols),
        }

    def sample(self, theta: Floats, codes: Integers, rng: np.random.Generator) -> Any:
        share = np.exp(theta[:, :-1])
        running = np.cumsum(share / share.sum(axis=1, keepdims=True), axis=1)
        draws = rng.random(len(codes))
        chosen = np.empty(len(codes), dtype=np.int64)
        for state in range(len(theta)):
            steps = codes == state
            chosen[steps] = np.searchsorted(running[state], draws[steps], side="right")
        symbols = names_array(self.symbols)
        return symbols[np.minimum(chosen, len(symbols) - 1)]

    def n_free(self, n_states: int) -> int:
        return n_states * (len(self.symbols) - 1)

    def tied(self, n_parameters: int) -> Any:
        return np.zeros(n_parameters, dtype=bool)

    def from_probabilities(self, table: Floats) -> Floats:
        """Return θ of these symbol probabilities, shape (n_states, n_symbols)."""
        if table.ndim != 2 or table.shape[1] != len(self.symbols):
            raise DataError(
                f"emissionprob: expected a column for each of {len(self.symbols)} symbols, got "
                f"shape {table.shape!r}"
            )
        if (table < 0).any() or not np.allclose(table.sum(axis=1), 1.0, atol=1e-8):
            raise DataError(f"emissionprob: expected rows that sum to 1, got {table!r}")
        with np.errstate(divide="ignore"):
            return np.log(np.hstack([table, np.full((len(table), 1), _RESERVE)]))
