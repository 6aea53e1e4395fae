"""The finding of a comparison in three plain sentences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from crossfade.evaluation.crossing import Crossing
from crossfade.evaluation.scores import METRIC_LABELS, Estimate
from crossfade.evidence.numbers import around, figure, quantity

if TYPE_CHECKING:
    from crossfade.evidence.comparison import Comparison, EndsResult


def verdict(result: Comparison) -> tuple[str, ...]:
    """Return the sentences; see :meth:`ComparisonResult.verdict`."""
    return (_which_model(result), _which_end(result), _more_labels(result))


def _interval(value: Estimate) -> str:
    if math.isnan(value.standard_error):
        return "the same on every split; too few to tell how far chance moves it"
    low, high = (figure(v, value.standard_error) for v in (value.low, value.high))
    return f"95 % interval {low} to {high}"


def _listed(names: list[str]) -> str:
    shown, rest = names[:3], len(names) - 3
    if rest > 0:
        return f"{', '.join(shown)} and {rest} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


def _which_model(result: Comparison) -> str:
    best = result[result.best]
    label = METRIC_LABELS[result.criterion]
    if result.n_splits == 1:
        return f"{_of_one_split(result, label)}{_ended(result)}"
    score = f"{label} {around(best.estimates[result.criterion])}"
    compared = sorted(
        (m for m in result.models if result.criterion in m.differences),
        key=lambda m: m.differences[result.criterion].mean,
    )
    rivals = [m for m in compared if m.n_splits > 1]
    once = [m for m in compared if m.n_splits == 1]
    ahead = [m.name for m in once if m.differences[result.criterion].mean < 0]
    early = _too_early(ahead, best.name, label)
    if not rivals:
        more = len(result.models) > 1
        why = "was fitted twice" if once else "could be scored" if more else "was asked for"
        return f"{early}Only {best.name} {why}: {score}.{_ended(result)}"
    tied = [m for m in rivals if not m.differences[result.criterion].excludes_zero]
    closest = (tied or rivals)[0]
    gap = closest.differences[result.criterion]
    distance = f"{figure(gap.mean, gap.standard_error)}, {_interval(gap)}"
    guessing = any(m.guesses for m in (best, *tied))
    if guessing or ahead or math.isnan(gap.standard_error):
        lowest = f"{best.name} has the lowest {score}"
        lower = f"{lowest}, lower than that of"
    else:
        its = f"use {best.name}: its {score} is"
        lowest, lower = f"{its} the lowest", f"{its} lower than that of"
    if best.guesses:
        text = f"{lowest}; the closest is {closest.name} (higher by {distance})"
    elif tied:
        nearest = "" if len(tied) == 1 else f"the closest, {closest.name}, is "
        text = (
            f"{lowest}, but these rows do not show that it is better than "
            f"{_listed([m.name for m in tied])} ({nearest}higher by {distance})"
        )
    else:
        known = "every other model with two splits" if once else "every other model"
        others = closest.name if len(rivals) == 1 else f"{known}; the closest is {closest.name}"
        text = f"{lower} {others} (higher by {distance})"
    if guessing:  # the first thing to know
        text = f"no model is {'' if best.guesses else 'clearly '}better than guessing: {text}"
    text = f"{early}Of the models with two splits or more, {text}" if ahead else _capital(text)
    return f"{text}.{_by_how_much(result, closest.name)}{_pool(result)}{_ended(result)}"


def _too_early(ahead: list[str], best: str, label: str) -> str:
    """Return a sentence on models that may be better, but were fitted once only."""
    if not ahead:
        return ""
    its = "its" if len(ahead) == 1 else "their"
    return (
        f"The time was too short for a verdict: {_listed(ahead)} had a lower {label} than {best} "
        f"on {its} only split; more time or fewer models would tell. "
    )


def _of_one_split(result: Comparison, label: str) -> str:
    """Return a sentence on scores without a spread."""
    known = [m for m in result.models if m.n_splits and result.criterion in m.estimates]
    means = {m.name: m.estimates[result.criterion].mean for m in known}
    first, *others = sorted(means, key=lambda name: (name != result.best, means[name]))
    said = f"{label} {figure(means[first], 1.0)} on the only split that was finished"
    if not others:
        return f"{_capital(first)} has {said}."
    return (
        f"{_capital(first)} has the lowest {said}; the closest is {others[0]} "
        f"({figure(means[others[0]], 1.0)}). How far chance moves such a difference takes two "
        "splits to tell."
    )


def _ended(result: Comparison) -> str:
    """Return a sentence on splits that are missing because the run was ended."""
    if result.complete:
        return ""
    how = "Ctrl-C" if result.ended == "keyboard" else "The time limit"
    done, asked = result.n_splits, result.n_splits_asked
    share = f"all {asked}" if done == asked else f"{done} of {asked}"
    return f" {how} ended the run after {share} splits of the best model."


def _pool(result: Comparison) -> str:
    """Return a sentence on the pool of the models."""
    pool = result.pool
    if pool is None or result.criterion not in pool.gain:
        return ""
    order = sorted(pool.weights, key=lambda name: -pool.weights[name])
    if len(order) == 1:
        return f" A pool of the models comes to {order[0]} alone."
    weights = _listed([f"{name} {pool.weights[name]:.2f}" for name in order])
    gap, label = pool.gain[result.criterion], METRIC_LABELS[result.criterion]
    amount = f"{figure(abs(gap.mean), gap.standard_error)} in {label}"
    if not gap.excludes_zero:
        than = f"not clearly better than {pool.rival} alone"
        way = "lower" if gap.mean < 0 else "higher"
        by = f"({way} by {amount}, {_interval(gap)})"
    else:
        low, high = (figure(v, gap.standard_error) for v in sorted((abs(gap.low), abs(gap.high))))
        each = "either" if len(order) == 2 else "each of them"
        than = f"better than {each}" if gap.mean < 0 else f"worse than {pool.rival} alone"
        by = f"by {amount} (95 % interval {low} to {high})"
    return f" A pool of models (weights: {weights}) is {than} {by}."


def _beaten(result: Comparison) -> bool:
    """Return whether a model without a tradeoff is the best, others having one."""
    with_tradeoff = [m for m in result.models if m.tradeoff is not None and m.estimates]
    return result[result.best].tradeoff is None and bool(with_tradeoff)


def _by_how_much(result: Comparison, closest: str) -> str:
    """Return a sentence on the distance from a reference that wins to the best of the others."""
    gaps = [
        (model.differences[result.criterion], model.name)
        for model in result.models
        if model.tradeoff is not None and result.criterion in model.differences
    ]
    if not _beaten(result) or not gaps:
        return ""
    gap, name = min(gaps, key=lambda pair: pair[0].mean)
    if name == closest:  # of which that has been said
        return ""
    amount = f"{figure(gap.mean, gap.standard_error)} ({_interval(gap)})"
    clear = "" if gap.excludes_zero else ": no clear difference"
    return f" The best model with a tradeoff, {name}, is higher by {amount}{clear}."


def _which_end(result: Comparison) -> str:
    ends = result.ends
    if ends is None:
        return f"Generative and discriminative fits were not compared, because {_why_not(result)}."
    gap = ends.difference[result.criterion]
    label = METRIC_LABELS[result.criterion]
    if math.isnan(gap.standard_error):
        return (
            f"For {ends.family}, discriminative minus generative is {figure(gap.mean, 1.0)} in "
            f"{label} on every split there was. How far chance moves such a difference takes more "
            f"splits to tell{_choice(result, ends)}."
        )
    if not gap.excludes_zero:
        text = (
            f"For {ends.family}, the generative and the discriminative fit cannot be told apart "
            f"(discriminative minus generative {figure(gap.mean, gap.standard_error)} in {label}, "
            f"{_interval(gap)})"
        )
    else:
        winner, loser = ("discriminative", "generative")[:: 1 if gap.mean < 0 else -1]
        low, high = (
            figure(end, gap.standard_error) for end in sorted((abs(gap.low), abs(gap.high)))
        )
        text = (
            f"For {ends.family}, the {winner} fit beats the {loser} one by "
            f"{figure(abs(gap.mean), gap.standard_error)} in {label} "
            f"(95 % interval {low} to {high})"
        )
    crossing = ends.crossing[result.criterion]
    where = _crossing(crossing)
    if crossing.status == "before" and not gap.excludes_zero:  # its means are, not more
        where = f"no crossing seen from n={crossing.smallest:,} to n={crossing.largest:,}"
    return f"{text}; {where}{_choice(result, ends)}."


def _why_not(result: Comparison) -> str:
    """Return why there are no ends."""
    if result.curve is None:
        what = "the time was over" if result.ended != "keyboard" else "the run was ended"
        return f"{what} before the learning curve was finished"
    if any(model.tradeoff is not None and model.n_splits for model in result.models):
        return f"one of the two could not be fitted to all {result.n_train:,} training rows"
    return "no model with a tradeoff ran"


def _crossing(crossing: Crossing) -> str:
    if crossing.status == "not seen":
        return f"no crossing seen up to n={crossing.largest:,}"
    if crossing.status == "level":
        return f"both have the same score at every size tried, up to n={crossing.largest:,}"
    if crossing.status == "before":
        return (
            f"the discriminative fit is ahead from the smallest size tried, n={crossing.smallest:,}"
        )
    assert crossing.size is not None  # the status says so
    low = f"below {crossing.smallest:,}" if crossing.low is None else quantity(crossing.low)
    high = f"beyond {crossing.largest:,}" if crossing.high is None else quantity(crossing.high)
    does = "overtakes" if crossing.status == "crossed" else "draws level, and not ahead,"
    return (
        f"the discriminative fit {does} at about {quantity(crossing.size)} training rows "
        f"(95 % interval {low} to {high})"
    )


def _choice(result: Comparison, ends: EndsResult) -> str:
    for model in result.models:
        if model.family == ends.family and model.chosen is not None:
            chosen = model.chosen.median
            return f"; auto takes λ = {chosen:.2f} (median over splits)"
    return ""


def _more_labels(result: Comparison) -> str:
    gain = result.doubling.get(result.criterion)
    if gain is None:
        return "Whether more labelled rows would help was not estimated."
    if math.isnan(gain.standard_error):
        return (
            "Whether more labelled rows would help takes a learning curve of more splits to tell."
        )
    change = figure(gain.mean, gain.standard_error)
    label = METRIC_LABELS[result.criterion]
    if gain.excludes_zero and gain.mean < 0:
        end = "more labelled rows should help"
    else:
        end = "there is no clear sign that more labelled rows would help"
    return (
        f"At the present slope, doubling the {result.n_train:,} training rows would change the "
        f"{label} of {result.best} by {change} ({_interval(gain)}): {end}."
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
