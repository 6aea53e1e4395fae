"""Splits dealt round-robin, stopping early and on time, and what is told meanwhile."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from crossfade.comparison import compare
from crossfade.comparison.stopping import (
    FEWEST_SPLITS,
    TimeOver,
    needed_splits,
    settled,
    time_limit,
)
from crossfade.errors import DataError
from crossfade.evaluation.scores import estimate
from crossfade.evidence.verdict import verdict
from tests.comparison.standins import Sign


class Choosing(Sign):
    """The same with a tradeoff."""

    def __init__(self, sure=0.9, seconds=0.0, elsewhere=0.0, tradeoff="auto"):
        super().__init__(sure, seconds, elsewhere)
        self.tradeoff = tradeoff


def _data(n=300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 1))
    return X, ((X[:, 0] > 0) ^ (rng.random(n) < 0.1)).astype(int)


MODELS = {"good": Sign(0.9), "close": Sign(0.88), "bad": Sign(0.3)}


# -- the rule ------------------------------------------------------------------------------------


def test_a_model_is_settled_where_all_splits_would_say_the_same():
    rng = np.random.default_rng(0)
    noise = stats.zscore(rng.normal(size=6), ddof=1)
    # Told apart after 20 splits: a mean of over c standard deviations.
    c = stats.t.ppf(0.975, 19) * np.sqrt(1 / 20 + 0.25)
    known = {0.0: False, 0.5: False, c: False, 3.0: True, -3.0: False}
    for ratio, expected in known.items():
        assert settled(noise + ratio, 20, 0.25) is expected, ratio
    assert not settled(noise[: FEWEST_SPLITS - 1] + 99, 20, 0.25)
    assert settled(noise, 6, 0.25)
    assert settled(np.zeros(5), 20, 0.25)
    assert not settled(np.full(5, -1.0), 20, 0.25)
    late = stats.zscore(rng.normal(size=18), ddof=1)
    assert settled(late + 0.6, 20, 0.25)  # not told apart, and never ahead
    assert not settled(late + 0.05, 20, 0.25)


def test_needed_splits_depend_on_nothing_beyond_them():
    rng = np.random.default_rng(1)
    scores = {name: rng.normal(size=20) + at for name, at in (("a", 0), ("b", 0.4), ("c", 9))}
    need = needed_splits(scores, 20, 0.25)
    assert need["c"] == FEWEST_SPLITS
    assert need["a"] == max(need.values())
    cut = {name: values[: need[name]] for name, values in scores.items()}
    assert needed_splits(cut, 20, 0.25) == need
    spoilt = {n: np.append(v, rng.normal(size=20 - len(v))) for n, v in cut.items()}
    assert needed_splits(spoilt, 20, 0.25) == need
    assert needed_splits({n: v[:3] for n, v in scores.items()}, 20, 0.25) == dict.fromkeys("abc", 5)
    assert needed_splits({n: v[:3] for n, v in scores.items()}, 3, 0.25) == dict.fromkeys("abc", 3)


def test_the_rule_seldom_says_other_than_all_splits():
    """Gaussian gaps to the best; twenty splits of both are the answer."""
    rng = np.random.default_rng(2)
    other = 0
    for _ in range(300):
        gaps = rng.normal(size=20) + 2 * abs(rng.normal())
        told = False
        for j in range(FEWEST_SPLITS, 21):
            if settled(gaps[:j], 20, 0.25):
                told = estimate(gaps[:j], 0.25).excludes_zero
                break
        other += told != estimate(gaps, 0.25).excludes_zero
    assert other / 300 < 0.05


# -- the run -------------------------------------------------------------------------------------


def test_models_that_are_clearly_worse_get_fewer_splits_and_the_same_verdict():
    X, y = _data()
    found = compare(X, y, models=MODELS, evidence=False)
    whole = compare(X, y, models=MODELS, evidence=False, stop_early=False)
    assert [model.n_splits for model in whole.models] == [20, 20, 20]
    assert (found.ended, whole.ended) == ("settled", "all splits")
    assert found["bad"].n_splits == FEWEST_SPLITS
    assert (found.best, found.complete) == (whole.best, True)
    for name in MODELS:
        told = [r[name].differences.get("log_loss") for r in (found, whole)]
        assert name == found.best or told[0].excludes_zero == told[1].excludes_zero
    # Means can be compared: the best one's and the paired difference.
    gap = found["bad"].differences["log_loss"]
    scores = found["bad"].scores["log_loss"] - found[found.best].scores["log_loss"][:FEWEST_SPLITS]
    assert gap.mean == pytest.approx(scores.mean())
    mean = found["bad"].estimates["log_loss"].mean
    assert mean == pytest.approx(found[found.best].estimates["log_loss"].mean + gap.mean)


def test_a_slow_model_does_not_hold_up_the_others():
    X, y = _data()
    seen = []
    models = {"slow": Sign(0.9, 0.3), "quick": Sign(0.9), "other": Sign(0.8)}
    compare(
        X,
        y,
        models=models,
        n_splits=4,
        evidence=False,
        progress=lambda done, total, text: seen.append(text),
    )
    table = [text for text in seen if "learning" not in text]
    assert {text.split(", ")[1] for text in table[:3]} == set(models)  # all have a first row
    last = max(place for place, text in enumerate(table) if "slow" not in text)
    assert last < table.index("split 3 of 4, slow")


def test_learning_curve_and_evidence_come_after_the_table():
    X, y = _data()
    seen = []
    compare(X, y, models=MODELS, n_splits=3, progress=lambda *step: seen.append(step[2]))
    kinds = [text.split()[0] for text in seen]
    assert kinds == sorted(kinds, key=["split", "learning", "path", "evidence"].index)


def test_whoever_watches_sees_the_table_fill_and_the_time_that_is_left():
    X, y = _data()
    seen = []

    def watch(status):
        result = status.partial()
        if result is not None:
            seen.append((status, {model.name: model.n_splits for model in result.models}))
            assert result.to_dict()["models"]

    compare(X, y, models=MODELS, n_splits=4, evidence=False, watch=watch)
    filled = [sum(numbers.values()) for _, numbers in seen]
    assert filled == sorted(filled)
    assert filled[0] == 1
    assert filled[-1] == 12
    left = [s.seconds_left for s, n in seen if all(n.values()) and s.seconds_left is not None]
    assert left
    assert min(left) >= 0
    assert any(status.doing == "close, split 2" for status, _ in seen)


def test_the_time_limit_ends_it_with_what_is_done():
    X, y = _data()
    models = {"quick": Sign(0.9), "other": Sign(0.7), "endless": Choosing(0.9, 60.0)}
    found = compare(X, y, models=models, time_limit=2.0)
    assert (found.ended, found.complete) == ("time limit", False)
    assert found["endless"].n_splits == 0
    assert any("endless is not in the verdict" in note for note in found.notes)
    with pytest.raises(DataError, match="time_limit: expected enough seconds for one split of at"):
        compare(X, y, models={"endless": Sign(0.9, 60.0)}, time_limit=0.5)


@pytest.mark.parametrize("n_models", [1, 2, 3])
def test_of_one_split_the_verdict_says_what_it_can(n_models):
    X, y = _data()
    models = dict(list(MODELS.items())[:n_models])

    def stop(done, total, text):
        if done == n_models:
            raise KeyboardInterrupt

    found = compare(X, y, models=models, n_splits=4, progress=stop)
    assert (found.ended, found.n_splits, found.best) == ("keyboard", 1, "good")
    assert [model.n_splits for model in found.models] == [1] * n_models
    means = sorted(model.estimates["log_loss"].mean for model in found.models)
    best = f"log-loss {means[0]:.3f} on the only split that was finished"
    closest = (
        f"has the lowest {best}; the closest is close ({means[min(1, n_models - 1)]:.3f}). How"
    )
    expected = f"Good has {best}. Ctrl-C" if n_models == 1 else f"Good {closest}"
    assert found.verdict_sentences[0].startswith(expected)
    assert "ended the run after 1 of 4 splits" in found.verdict_sentences[0]
    assert not any("not in the verdict" in note for note in found.notes)
    assert "nan" not in found.to_markdown()
    assert "only split that was finished" in found.to_html()


def test_of_a_curve_with_one_split_the_verdict_says_what_it_can():
    """The time may end when one of the ends has a single split: its curve has no more, then."""
    X, y = _data()
    found = compare(X, y, models=["naive Bayes"], n_splits=2)
    one = estimate(np.array([-0.1234]), 0.25)
    ends = replace(found.ends, difference=dict.fromkeys(found.ends.difference, one))
    _, of_ends, doubling = verdict(replace(found, ends=ends, doubling={found.criterion: one}))
    assert "has one split: discriminative minus generative is -0.123 in log-loss there" in of_ends
    assert "takes two splits to tell" in of_ends
    assert "takes a learning curve of two splits to tell" in doubling
    assert "nan " not in of_ends + doubling


def test_the_clock_is_stopped_at_the_end_of_the_block():
    with pytest.raises(TimeOver), time_limit(0.05):
        time.sleep(20)
    with time_limit(0.05):
        pass
    time.sleep(0.2)
