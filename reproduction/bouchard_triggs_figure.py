"""Bouchard & Triggs (2004), Figure 1: logistic loss against λ in two simulations.

The assumed model is a Gaussian a class with one diagonal covariance, λ between.

- First simulation: it is true (means (±1.25, 0, 0, 0), identity covariance, equal classes).
- Second simulation: x¹ uniform on [0, 1], each further column uniform on [x, 1 + x] above its
  predecessor x. The paper prints the probability of the second class as 1/exp(-2.5 x¹), which
  exceeds 1. It also says that the linear logistic model is true, so the logistic function is used,
  its threshold at the middle of x¹: 1/(1 + exp(-2.5 (x¹ - 1/2))), which makes the classes equal.

Losses are plotted as medians of the runs, as in the paper. The best λ is, again as there, the one
of least expected loss: of the least mean over the runs.

The paper fixes class probabilities at 1/2. Here they are fitted, as everywhere in Crossfade; in the
first simulation, where rows are drawn given the class, each class has half of the training rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.blocks import block_sum
from crossfade.densities import MultivariateGaussian
from reproduction.base import Experiment, Outcome, Section, Settings, records
from reproduction.paths import fit_path
from reproduction.trials import generator, run_trials

COLUMNS: Final = ("simulation", "n", "tradeoff", "loss", "lower", "upper", "mean")

SIZES: Final = (50, 100, 200)

#: Finer where the second simulation's optimum lies.
TRADEOFFS: Final = (
    *(1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.35, 0.3, 0.275, 0.25, 0.225, 0.2),
    *(0.175, 0.15, 0.125, 0.1, 0.075, 0.05, 0.025, 0.0),
)

_N_TEST = 100_000
_N_COLUMNS = 4
_BOOTSTRAP = 400


def run(settings: Settings) -> Outcome:
    """Run both simulations."""
    losses = np.empty((2, settings.repeats, len(SIZES), len(TRADEOFFS)))
    for simulation in range(2):
        losses[simulation] = run_trials(
            _trial,
            [(settings.seed, simulation, repeat) for repeat in range(settings.repeats)],
            progress=settings.progress,
            text=f"simulation {simulation + 1}",
            done=simulation * settings.repeats,
            total=2 * settings.repeats,
        )
    return _outcome(losses, settings.seed)


def draw(simulation: int, number: int, rng: np.random.Generator) -> tuple[Floats, Integers]:
    """Return rows and classes of the first (0) or second (1) simulation."""
    if simulation == 0:
        codes = np.arange(number) % 2
        X = rng.normal(size=(number, _N_COLUMNS))
        X[:, 0] += np.where(codes == 1, 1.25, -1.25)
        return X, codes
    X = rng.random(size=(number, _N_COLUMNS)).cumsum(axis=1)
    chance = 1.0 / (1.0 + np.exp(-2.5 * (X[:, 0] - 0.5)))
    return X, (rng.random(number) < chance).astype(np.int64)


def _trial(seed: int, simulation: int, repeat: int) -> NDArray[np.float64]:
    """Return losses of one run, shape (n_sizes, n_tradeoffs)."""
    rng = generator(seed, simulation, repeat)
    X_test, truth = draw(simulation, _N_TEST, rng)
    signs = np.where(truth == 1, 1.0, -1.0)
    losses = np.empty((len(SIZES), len(TRADEOFFS)))
    for i, n in enumerate(SIZES):
        while True:  # both classes: in practice the first draw
            X, codes = draw(simulation, n, rng)
            if np.bincount(codes, minlength=2).min() > 1:
                break
        path = fit_path(
            MultivariateGaussian("shared_diagonal"),
            X,
            codes,
            n_classes=2,
            tradeoffs=TRADEOFFS,
            tol=1e-8,
        )
        losses[i] = _logistic_loss(X_test, signs, *path.log_odds())
    return losses


def _logistic_loss(X: Floats, signs: Floats, slopes: Floats, intercepts: Floats) -> Floats:
    """Return the mean of log(1 + exp(-sign · log-odds)) for each linear function."""

    def block(rows: slice) -> Floats:
        margins = signs[rows, None] * (X[rows] @ slopes.T + intercepts)
        return (np.log1p(np.exp(-np.abs(margins))) + np.maximum(-margins, 0.0)).sum(axis=0)

    return block_sum(block, X.shape[0]) / X.shape[0]


# -- what it came to -----------------------------------------------------------------------------


def _outcome(losses: Floats, seed: int) -> Outcome:
    rows: list[dict[str, Any]] = []
    best: list[dict[str, Any]] = []
    for simulation in range(2):
        for i, n in enumerate(SIZES):
            runs = losses[simulation, :, i]
            median, mean = np.median(runs, axis=0), runs.mean(axis=0)
            drawn = generator(seed, 2, simulation, i).integers(
                runs.shape[0], size=(_BOOTSTRAP, runs.shape[0])
            )
            medians = np.median(runs[drawn], axis=1)
            lower, upper = np.quantile(medians, [0.025, 0.975], axis=0)
            rows += [
                dict(zip(COLUMNS, (simulation + 1, n, *cells), strict=True))
                for cells in zip(
                    TRADEOFFS, *(one.tolist() for one in (median, lower, upper, mean)), strict=True
                )
            ]
            at = int(mean.argmin())
            optima = np.array(TRADEOFFS)[runs[drawn].mean(axis=1).argmin(axis=1)]
            best.append(
                {
                    "simulation": simulation + 1,
                    "n": n,
                    "best_tradeoff": TRADEOFFS[at],
                    "best": float(median[at]),
                    "mean_loss_generative_over_best": float(mean[0] - mean[at]),
                    "generative": float(median[0]),
                    "discriminative": float(median[-1]),
                    "best_tradeoff_interval": np.quantile(optima, [0.025, 0.975]).tolist(),
                }
            )
    table = Section(
        "Median logistic loss, and the λ of least mean loss",
        ("simulation", "n", "λ=1", "λ=0", "best λ", "95 %", "there", "λ=0 less λ=1"),
        tuple(
            (
                str(one["simulation"]),
                str(one["n"]),
                f"{one['generative']:.4f}",
                f"{one['discriminative']:.4f}",
                f"{one['best_tradeoff']:g}",
                "{:g} … {:g}".format(*one["best_tradeoff_interval"]),
                f"{one['best']:.4f}",
                f"{one['discriminative'] - one['generative']:+.4f}",
            )
            for one in best
        ),
    )
    return Outcome(
        COLUMNS,
        records(rows, COLUMNS),
        (table,),
        _findings(best),
        partial(_chart, rows),
        {"best": best, "tradeoffs": list(TRADEOFFS), "test_rows": _N_TEST},
    )


def _findings(best: list[dict[str, Any]]) -> tuple[str, ...]:
    first, second = best[: len(SIZES)], best[len(SIZES) :]
    short_of = max(b["mean_loss_generative_over_best"] for b in first)
    leads = ", ".join(f"{b['discriminative'] - b['generative']:.4f}" for b in first)
    ends = ", ".join(f"{b['best_tradeoff']:g}" for b in first)
    inside = ", ".join(f"{b['best_tradeoff']:g}" for b in second)
    sizes = ", ".join(map(str, SIZES))
    return (
        f"First simulation: λ of least expected loss {ends} at n = {sizes}, and at the "
        f"generative end at most {short_of:.1g} more; its lead over the discriminative end is "
        f"{leads}.",
        f"Second simulation: λ of least expected loss {inside} at n = {sizes}.",
        "Second simulation: the probability printed, 1/exp(-2.5 x¹), exceeds 1; used is "
        "1/(1 + exp(-2.5 (x¹ - 1/2))).",
    )


def _chart(rows: list[dict[str, Any]]) -> Any:
    from reproduction.charts import loss_against_tradeoff_chart

    return loss_against_tradeoff_chart(rows)


EXPERIMENT: Final = Experiment(
    name="bouchard-triggs-figure",
    source="Bouchard & Triggs (2004), Figure 1",
    question="Logistic loss against λ where the assumed model is true, and where it is not.",
    repeats=200,
    unit="runs",
    minutes=1.0,
    run=run,
)
