"""Splits dealt round-robin, stopping early and on time, and what is told meanwhile."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from crossfade.commands.comparison_view import progress_line
from crossfade.comparison import compare
from crossfade.comparison.models import choose_models
from crossfade.comparison.problem import read_problem
from crossfade.comparison.run import Run
from crossfade.comparison.standings import Settings
from crossfade.comparison.stopping import (
    FEWEST_SPLITS,
    TimeOver,
    needed_splits,
    settled,
    time_limit,
)
from crossfade.errors import DataError
from crossfade.evaluation.scores import estimate
from crossfade.evaluation.splits import repeated_splits
from crossfade.evidence.verdict import verdict
from tests.comparison.standins import Sign, blends


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


def test_the_time_that_is_left_covers_what_follows_the_table():
    X, y = _data()
    seen = []
    models = {"good": Sign(0.9, 0.1), "bad": Sign(0.6)}
    found = compare(X, y, models=models, n_splits=4, watch=seen.append)
    table = [status for status in seen if status.seconds_left is not None]
    later = [status for status in seen if status.doing.startswith(("learning", "evidence"))]
    assert found.best == "good"
    # Four splits of the curve, of a model that takes a tenth of a second, at about half the rows.
    assert table[-1].seconds_after == pytest.approx(4 * 0.1 / 2, rel=0.3)
    assert [status.seconds_after for status in table if status.seconds_after is None] == []
    after = [status.seconds_after for status in later]
    assert after == sorted(after, reverse=True)
    assert after[0] == pytest.approx(table[-1].seconds_after, rel=0.3)
    assert after[-1] == 0
    in_table, in_curve = table[-1], later[0]
    told = progress_line(replace(in_table, seconds=10.0, seconds_left=5.0, seconds_after=15.0))
    assert told.startswith("10 s, at most 5 s more, then about 15 s after the table · ")
    told = progress_line(replace(in_curve, seconds=15.0, seconds_after=15.0))
    assert told.startswith("15 s, about 15 s more · ")


def test_models_that_are_fitted_in_one_go_are_one_worker():
    X, y = _data()
    models, seen = choose_models(["shared:auto", "full:auto", "nb:auto"]), []
    settings = Settings(stop_early=False, watch=seen.append)
    splits = list(repeated_splits(y, n_splits=4, n_train=240, random_state=0))
    run = Run(read_problem(np.column_stack([X, X**2]), y), models, splits, settings)
    run.finished, run.spent = dict.fromkeys(models, 1), dict.fromkeys(models, 2.0)
    nb, shared, full = models
    for under_way, workers in (([shared, full], 1), ([shared, full, nb], 2)):
        run.under_way = {(name, 1): 0.0 for name in under_way}
        run._tell()
        assert seen[-1].seconds_left == pytest.approx(3 * 3 * 2.0 / workers)


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
    assert (
        "discriminative minus generative is -0.123 in log-loss on every split there was" in of_ends
    )
    assert "takes more splits to tell" in of_ends
    assert "takes a learning curve of more splits to tell" in doubling
    assert "nan " not in of_ends + doubling


def test_the_clock_is_stopped_at_the_end_of_the_block():
    with pytest.raises(TimeOver), time_limit(0.05):
        time.sleep(20)
    with time_limit(0.05):
        pass
    time.sleep(0.2)


# -- verdicts of runs that are ended -------------------------------------------------------------


def _shown(found):
    return found.to_html().partition("<main>")[2].partition("</main>")[0]


def _ended_after(models, n_fits, **settings):
    def stop(done, total, text):
        if done == n_fits:
            raise KeyboardInterrupt

    return compare(*_data(), models=models, n_splits=4, progress=stop, evidence=False, **settings)


def test_second_splits_begin_with_the_models_whose_first_was_best():
    seen = []
    models = {f"of {sure}": Sign(sure) for sure in (0.3, 0.6, 0.9, 0.5, 0.75)}
    models |= {"auto of 0.4": Choosing(0.4), "auto of 0.8": Choosing(0.8)}
    X, y = _data()
    compare(
        X,
        y,
        models=models,
        n_splits=3,
        evidence=False,
        progress=lambda done, total, text: seen.append(text),
    )
    seconds = [text.removeprefix("split 2 of 3, ") for text in seen if text.startswith("split 2")]
    assert seconds == [
        *(f"of {sure}" for sure in (0.9, 0.75, 0.6, 0.5, 0.3)),
        "auto of 0.8",
        "auto of 0.4",
    ]


def test_a_model_that_was_ahead_on_its_only_split_is_not_beaten_by_one_with_two():
    """Three fits of the guess, its two rivals' first: the best of them has one split only."""
    models = {"guess": Sign(0.5), "poor": Sign(0.3), "good": Choosing(0.9)}
    found = _ended_after(models, 5)
    assert {model.name: model.n_splits for model in found.models} == {
        "guess": 2,
        "poor": 2,
        "good": 1,
    }
    first, *_ = found.verdict_sentences
    assert first.startswith(
        "The time was too short for a verdict: good had a lower log-loss than guess on its only "
        "split; more time or fewer models would tell. Of the models with two splits or more, "
        "guess has the lowest "
    )
    assert "Use " not in first
    gap = found["good"].differences["log_loss"]
    scores = [found[name].scores["log_loss"][0] for name in ("good", "guess")]
    assert gap.mean == pytest.approx(scores[0] - scores[1])
    assert np.isnan([gap.low, gap.high]).all()
    for text in (found.to_markdown(), _shown(found)):
        assert "nan" not in text


def test_a_model_that_was_behind_on_its_only_split_takes_nothing_from_the_verdict():
    models = {"guess": Sign(0.5), "better": Sign(0.85), "late": Choosing(0.3)}
    found = _ended_after(models, 5)
    assert [model.n_splits for model in found.models] == [2, 2, 1]
    assert found.best == "better"
    assert "too short" not in found.verdict()
    assert "every other model;" not in found.verdict()


def test_the_best_is_behind_no_model_on_the_splits_that_both_have():
    """However many splits each has when a run ends."""
    rng = np.random.default_rng(0)
    names = "abcdef"
    for n_fits in range(7, 25, 3):
        models = {name: Sign(float(rng.uniform(0.85, 0.9))) for name in names}
        found = _ended_after(models, n_fits, stop_early=False)
        rivals = [m for m in found.models if m.n_splits > 1 and m.name != found.best]
        gaps = [m.differences["log_loss"].mean for m in rivals]
        assert all(gap >= 0 for gap in gaps if found.n_splits > 1)


def test_no_interval_of_two_equal_splits():
    """Errors of two splits are the same: nothing shows how far chance moves them."""
    X = np.repeat([[-1.0], [1.0]], 20, axis=0)
    y = np.repeat([0, 1], 20)
    models = {"right": Sign(0.9), "wrong": Sign(0.1)}
    found = compare(X, y, models=models, n_splits=2, criterion="error")
    gap = found["wrong"].differences["error"]
    assert gap.mean == 1.0
    assert np.isnan([gap.low, gap.high]).all()
    said = found.verdict()
    assert "the same on every split; too few to tell" in said
    assert "Use " not in said
    for text in (said, repr(found), found.to_markdown(), _shown(found)):
        assert "nan" not in text
        assert "± 0.000" not in text


# -- what is kept of the evidence ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "stop"),
    [
        ("learning curve, split 2", KeyboardInterrupt),
        *((at, stop) for at in ("path", "evidence 2") for stop in (KeyboardInterrupt, TimeOver)),
    ],
)
def test_what_is_found_before_the_end_is_kept(at, stop):
    X, y = _data(100)
    models = {name: model for name, model in blends().items() if name != "blend auto"}

    def end(done, total, text):
        if text.startswith(at):
            raise stop

    found = compare(X, y, models=models, n_splits=5, progress=end)
    assert found.ended == ("all splits" if stop is TimeOver else "keyboard")
    assert found.curve.n_splits == (2 if at.startswith("learning") else 4)
    assert np.isfinite(found.ends.difference["log_loss"].mean)
    details = found.details
    assert (details is None) == at.startswith("learning")
    if details is not None:
        assert details.n_splits == 5  # of the table's own fits
        assert set(details.calibration) == set(models)
    if at.startswith("evidence"):
        assert details.weights.path.shape[0] == len(details.tradeoffs)
    page = found.to_html()
    assert "Learning curves" in page
    assert ("Calibration" in page) == (details is not None)
    if stop is TimeOver:
        assert "The time ran out before the evidence was finished." in found.notes
