"""dynamax (on JAX) as a rival of the hidden Markov models: the same questions, its recursions.

dynamax brings the recursions; what goes into them and the estimates are written here so that its
answers are the same (its own fitting adds priors). Everything is compiled by JAX as a whole, for
all sequences at once and in double precision, and has been run once before it is timed.

It takes part where ``dynamax`` can be imported: ``pip install "crossfade[bench-jax]"``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from dynamax.hidden_markov_model import hmm_posterior_mode, hmm_smoother

jax.config.update("jax_enable_x64", True)

#: Start, transitions, then means and variances, or symbol probabilities.
Parameters = tuple[Any, ...]


def _parameters(kind: str, model: Any) -> Parameters:
    emission = (model.means_, model.covars_) if kind == "gaussian" else (model.emissionprob_,)
    return tuple(jnp.asarray(p) for p in (model.startprob_, model.transmat_, *emission))


def _log_likelihoods(parameters: Parameters, X: Any) -> Any:
    if len(parameters) == 3:
        return jnp.log(parameters[2].T)[X]
    means, variances = parameters[2:]
    # Squares written out, so that they are matrix products.
    square = (X * X) @ (1.0 / variances).T - 2.0 * X @ (means / variances).T
    constant = (means**2 / variances + jnp.log(2.0 * jnp.pi * variances)).sum(axis=1)
    return -0.5 * (square + constant)


@jax.jit
def _posteriors(parameters: Parameters, X: Any) -> Any:
    def one(scores: Any) -> Any:
        # The transitions it also returns are not asked for, and so not computed by JAX.
        return hmm_smoother(*parameters[:2], scores).smoothed_probs

    return jax.vmap(one)(_log_likelihoods(parameters, X))


@jax.jit
def _paths(parameters: Parameters, X: Any) -> Any:
    def one(scores: Any) -> Any:
        return hmm_posterior_mode(*parameters[:2], scores)

    return jax.vmap(one)(_log_likelihoods(parameters, X))


@jax.jit
def _iterate(parameters: Parameters, X: Any) -> Parameters:
    """Take one Baum-Welch iteration."""

    def one(scores: Any) -> Any:
        found = hmm_smoother(*parameters[:2], scores)
        return found.smoothed_probs, found.trans_probs

    shares, moves = jax.vmap(one)(_log_likelihoods(parameters, X))
    start, moves = shares[:, 0].sum(axis=0), moves.sum(axis=0)
    chain = (start / start.sum(), moves / moves.sum(axis=1, keepdims=True))
    weights = shares.reshape(-1, shares.shape[-1])
    if len(parameters) == 3:
        table = jax.ops.segment_sum(weights, X.ravel(), parameters[2].shape[1]).T
        return *chain, table / table.sum(axis=1, keepdims=True)
    rows = X.reshape(-1, X.shape[-1])
    total = weights.sum(axis=0)[:, None]
    means = weights.T @ rows / total
    return *chain, means, weights.T @ (rows * rows) / total - means**2


def _prepared(
    function: Callable[[Parameters, Any], Any], corpus: Any, model: Any
) -> Callable[[], Any]:
    """Return the call to time, after it has been compiled for these shapes."""
    parameters = _parameters(corpus.kind, model)
    symbols = corpus.kind == "categorical"
    flat = corpus.X[:, 0] if symbols else corpus.X
    X = jnp.asarray(flat.reshape(len(corpus.lengths), -1, *flat.shape[1:]))
    jax.block_until_ready(function(parameters, X))
    return lambda: function(parameters, X)


def posteriors(corpus: Any) -> Callable[[], Any]:
    """Return the call for all steps' posteriors, (n_steps, n_states)."""
    call = _prepared(_posteriors, corpus, corpus.model)
    return lambda: np.asarray(call()).reshape(len(corpus.X), -1)


def paths(corpus: Any) -> Callable[[], Any]:
    """Return the call for the best paths."""
    call = _prepared(_paths, corpus, corpus.model)
    return lambda: np.asarray(call()).ravel()


def training(corpus: Any, iterations: int) -> Callable[[], Any]:
    """Return the call for the transitions after some Baum-Welch iterations."""

    def train(parameters: Parameters, X: Any) -> Any:
        for _ in range(iterations):
            parameters = _iterate(parameters, X)
        return parameters[1]

    call = _prepared(train, corpus, corpus.start)
    return lambda: np.asarray(call())
