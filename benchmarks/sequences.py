"""Hidden Markov models against hmmlearn: posteriors, best paths, ten Baum-Welch iterations.

hmmlearn's recursions run on one thread, in scaled arithmetic or in logarithms; both are measured
and the faster counts. Where dynamax is installed it takes part as well
(:mod:`benchmarks.dynamax_rival`). Everyone starts from the same parameters, so results can be
compared: the accuracy column is the largest difference from the other library's answer.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Case
from crossfade import HiddenMarkovModel

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from hmmlearn import hmm as hmmlearn

_ITERATIONS = 10
_TRAINING = f"{_ITERATIONS} Baum-Welch iterations"


@dataclass(frozen=True)
class Corpus:
    """Made-up sequences, the model that made them, and perturbed parameters to train from."""

    kind: str
    X: NDArray[Any]
    lengths: list[int]
    model: HiddenMarkovModel
    start: HiddenMarkovModel


def _parameters(kind: str, n_states: int, noise: float) -> HiddenMarkovModel:
    rng = np.random.default_rng(n_states)
    start = rng.dirichlet(np.ones(n_states))
    moves = rng.dirichlet(np.ones(n_states), size=n_states)
    moves = 0.5 * moves + 0.5 * np.eye(n_states)
    if kind == "gaussian":
        means = 2.0 * rng.normal(size=(n_states, 3)) + noise * rng.normal(size=(n_states, 3))
        settings: dict[str, Any] = {"means": means, "covars": np.ones((n_states, 3))}
    else:
        table = rng.dirichlet(np.full(50, 0.3), size=n_states)
        table = (1.0 - noise) * table + noise / 50
        settings = {"emissionprob": table}
    return HiddenMarkovModel.from_parameters(
        start, moves, alpha=0.0, max_iter=_ITERATIONS, tol=0.0, **settings
    )


# The full size and the warm-up's are kept, for the cases that share them.
@lru_cache(maxsize=2)
def _corpus(kind: str, n_sequences: int, n_steps: int, n_states: int, scale: float) -> Corpus:
    model = _parameters(kind, n_states, 0.0)
    lengths = [n_steps] * max(4, int(n_sequences * scale))
    X, _ = model.sample(lengths, random_state=0)
    flat = np.concatenate(X)
    flat = flat[:, None] if flat.ndim == 1 else flat
    return Corpus(kind, flat, lengths, model, _parameters(kind, n_states, 0.1))


def _rival(corpus: Corpus, model: HiddenMarkovModel, implementation: str) -> Any:
    n_states = len(model.classes_)
    settings = {
        "n_iter": _ITERATIONS,
        "tol": -np.inf,
        "init_params": "",
        "implementation": implementation,
    }
    if corpus.kind == "gaussian":
        rival = hmmlearn.GaussianHMM(
            n_states, "diag", covars_prior=0.0, covars_weight=1.0, **settings
        )
        rival.means_, rival.covars_ = model.means_.copy(), model.covars_.copy()
    else:
        rival = hmmlearn.CategoricalHMM(n_states, n_features=50, **settings)
        rival.emissionprob_ = model.emissionprob_.copy()
    rival.startprob_, rival.transmat_ = model.startprob_.copy(), model.transmat_.copy()
    return rival


# -- what is timed -----------------------------------------------------------------------------


def _our_posteriors(corpus: Corpus) -> Callable[[], Any]:
    return lambda: corpus.model.predict_proba(corpus.X, corpus.lengths)


def _our_paths(corpus: Corpus) -> Callable[[], Any]:
    return lambda: corpus.model.predict(corpus.X, corpus.lengths)


def _our_training(corpus: Corpus) -> Callable[[], Any]:
    new = HiddenMarkovModel(**corpus.start.get_params(deep=False))
    return lambda: new.fit(corpus.X, lengths=corpus.lengths, start=corpus.start).transmat_


def _their_posteriors(corpus: Corpus, implementation: str) -> Callable[[], Any]:
    rival = _rival(corpus, corpus.model, implementation)
    return lambda: rival.predict_proba(corpus.X, corpus.lengths)


def _their_paths(corpus: Corpus, implementation: str) -> Callable[[], Any]:
    rival = _rival(corpus, corpus.model, implementation)
    return lambda: rival.predict(corpus.X, corpus.lengths)


def _their_training(corpus: Corpus, implementation: str) -> Callable[[], Any]:
    def train() -> Any:
        return _rival(corpus, corpus.start, implementation).fit(corpus.X, corpus.lengths).transmat_

    return train


def _dynamax_rivals() -> dict[str, dict[str, Any]]:
    """Return its contender for each task, or none."""
    if find_spec("dynamax") is None:
        return {}
    from benchmarks import dynamax_rival

    return {
        "posteriors": {"dynamax": dynamax_rival.posteriors},
        "Viterbi paths": {"dynamax": dynamax_rival.paths},
        _TRAINING: {"dynamax": partial(dynamax_rival.training, iterations=_ITERATIONS)},
    }


def _difference(
    answer: Callable[[Corpus], Callable[[], Any]], corpus: Corpus, result: Any
) -> float:
    """Return the largest difference from our own answer (zero, then, for us)."""
    return float(np.abs(np.asarray(result, dtype=np.float64) - answer(corpus)()).max())


def _cases() -> list[Case]:
    tasks = (
        ("posteriors", _our_posteriors, _their_posteriors),
        ("Viterbi paths", _our_paths, _their_paths),
        (_TRAINING, _our_training, _their_training),
    )
    dynamax = _dynamax_rivals()
    sizes = ((1000, 200, 10), (100, 1000, 50))
    cases = []
    for kind in ("gaussian", "categorical"):
        for n_sequences, n_steps, n_states in sizes:
            make = partial(_corpus, kind, n_sequences, n_steps, n_states)
            for name, ours, theirs in tasks:
                rivals = {
                    f"hmmlearn ({implementation})": partial(theirs, implementation=implementation)
                    for implementation in ("scaling", "log")
                } | dynamax.get(name, {})
                cases.append(
                    Case(
                        name=f"HMM {kind}, {n_sequences}×{n_steps}×{n_states} states: {name}",
                        make=make,
                        ours=ours,
                        rivals=rivals,
                        goal=3.0,
                        accuracy=partial(_difference, ours),
                        accuracy_name="largest difference",
                    )
                )
    return cases


CASES = _cases()
