from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB

from crossfade import NaiveBayes, learning_curve
from crossfade.blocks import threads
from crossfade.comparison import compare
from crossfade.comparison.problem import read_problem
from crossfade.comparison.references import references
from crossfade.errors import DataError, MissingExtraError
from crossfade.evaluation.splits import repeated_splits
from crossfade.evidence.numbers import figure
from tests.comparison.standins import Blend, Breaks, Sign, blends


def _table(n: int = 120, seed: int = 0) -> tuple[pl.DataFrame, pl.Series]:
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    frame = pl.DataFrame(
        {"a": rng.normal(size=n) + y, "b": rng.normal(size=n), "c": rng.choice(["u", "v", "w"], n)}
    )
    return frame, pl.Series("y", np.array(["no", "yes"])[y])


@pytest.fixture(scope="module")
def result():
    X, y = _table()
    models = blends() | {"guess": DummyClassifier(strategy="prior")}
    return compare(X, y, models=models, n_splits=4)


def _numbers(result):
    content = result.to_dict()
    content.pop("seconds")
    for model in content["models"]:
        model.pop("fit_seconds")
    return content


def test_the_table_equals_a_plain_loop(result):
    X, y = _table()
    codes = (y == "yes").to_numpy().astype(int)
    rows = []
    for split in repeated_splits(codes, n_splits=4, n_train=96, random_state=0):
        losses = {}
        for name, model in blends().items():
            fitted = clone(model).fit(X[split.train], y.to_numpy()[split.train])
            posterior = fitted.predict_proba(X[split.test])
            losses[name] = log_loss(codes[split.test], posterior)
        rows.append(losses)
    for name in blends():
        values = np.array([row[name] for row in rows])
        found = result[name].estimates["log_loss"]
        np.testing.assert_allclose(result[name].scores["log_loss"], values, rtol=1e-12)
        np.testing.assert_allclose(found.mean, values.mean(), rtol=1e-12)
        spread = np.sqrt(values.var(ddof=1) * (1 / 4 + 24 / 96))
        np.testing.assert_allclose(found.standard_error, spread, rtol=1e-12)
        if name != result.best:
            gap = values - [row[result.best] for row in rows]
            half = stats.t.ppf(0.975, 3) * np.sqrt(gap.var(ddof=1) * (1 / 4 + 24 / 96))
            found = result[name].differences["log_loss"]
            np.testing.assert_allclose(found.low, gap.mean() - half, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(found.high, gap.mean() + half, rtol=1e-9, atol=1e-12)


def test_the_best_has_the_lowest_mean_and_no_difference(result):
    means = {m.name: m.estimates["log_loss"].mean for m in result.models}
    assert result.best == min(means, key=means.get)
    assert result[result.best].differences == {}
    with pytest.raises(KeyError, match="no model named 'x' was compared; there are 'blend gener"):
        result["x"]


def test_the_same_seed_gives_the_same_numbers_on_any_number_of_threads(result):
    X, y = _table()
    models = blends() | {"guess": DummyClassifier(strategy="prior")}
    with threads(3):
        again = compare(X, y, models=models, n_splits=4)
    assert _numbers(again) == _numbers(result)  # of one thread
    other = compare(X, y, models=models, n_splits=4, random_state=1, evidence=False)
    assert _numbers(other)["models"] != _numbers(result)["models"]


def test_the_container_and_the_labels_type_do_not_matter():
    X, y = _table()
    models = blends() | {"guess": DummyClassifier(strategy="prior")}
    frame = X.to_pandas().set_index(np.arange(len(y))[::-1])
    quick = {"guess": models["guess"], "blend generative": models["blend generative"]}
    plain = compare(X, y, models=quick, n_splits=2, evidence=False)
    for labels in (y.to_list(), y.to_pandas(), (y == "yes").to_numpy(), y.cast(pl.Categorical)):
        again = _numbers(compare(frame, labels, models=quick, n_splits=2, evidence=False))
        expected = _numbers(plain)
        again["data"].pop("classes")
        expected["data"].pop("classes")
        assert again == expected


def test_sorted_rows_are_no_problem():
    X, y = _table()
    order = y.arg_sort()
    sorted_result = compare(X[order], y[order], models=blends(), n_splits=5, evidence=False)
    for model in sorted_result.models:
        assert model.failure is None
        assert 0.0 < model.estimates["error"].mean < 0.6


def test_rows_without_a_label_are_left_out_and_counted():
    X, y = _table()
    models = {"guess": DummyClassifier(strategy="prior"), "mine": Blend(tradeoff=1.0)}
    plain = compare(X, y, models=models, n_splits=2, evidence=False)
    more = pl.concat([X[:1], X[:60], X[5:6], X[60:]])
    labels = [None, *y[:60], None, *y[60:]]
    for form in (labels, pl.Series(labels), pd.Series(labels), np.array(labels, dtype=object)):
        found = compare(more, form, models=models, n_splits=2, evidence=False)
        assert found.data.n_dropped == 2
        assert found.notes[0] == "2 rows have no label and were left out."
        expected, again = _numbers(plain), _numbers(found)
        for content in (expected, again):
            content.pop("notes")
            content["data"].pop("rows_dropped")
        assert again == expected


def test_json_is_strict_and_holds_what_frame_holds(result):
    content = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    frame = result.frame()
    assert frame.columns[:4] == ["model", "family", "tradeoff", "tradeoff_chosen"]
    for row, model in zip(frame.to_dicts(), content["models"], strict=True):
        assert row["model"] == model["name"]
        assert row["splits"] == model["splits"] == 4
        assert row["fit_seconds"] == model["fit_seconds"]
        for metric in ("log_loss", "brier", "error"):
            assert row[metric] == model[metric]["mean"]
            assert row[f"{metric}_se"] == model[metric]["standard_error"]
        gap = model["difference_to_best"]["brier"]
        assert row["brier_difference"] == (gap["mean"] if gap else None)
    assert content["curve"]["sizes"][-1] == content["splits"]["train_rows"] == 96


def test_json_keeps_the_names_that_others_read(result):
    content = result.to_dict()
    scores = ["log_loss", "brier", "error", "cost"]
    estimate = ["mean", "standard_error", "low", "high"]
    assert " ".join(content) == (
        "data splits criterion costs best models pool ends curve doubling_the_rows details "
        "interactions notes verdict seconds versions"
    )
    assert " ".join(content["data"]) == (
        "rows columns rows_dropped classes class_counts column_kinds column_densities "
        "density_reasons densities_by missing_cells"
    )
    assert " ".join(content["splits"]) == (
        "finished asked ended train_rows test_rows random_state complete"
    )
    for model in content["models"]:
        assert " ".join(model) == (
            "name family tradeoff splits log_loss brier error cost fit_seconds difference_to_best "
            "chosen_tradeoff failure"
        )
        assert list(model["brier"]) == estimate
        assert list(model["difference_to_best"]) == scores
    assert " ".join(content["ends"]) == (
        "family generative discriminative discriminative_minus_generative crossing"
    )
    assert " ".join(content["curve"]) == "sizes mean splits interval"
    assert " ".join(content["details"]) == (
        "rows splits family assumption tradeoffs path chosen method view weights words "
        "calibration ranking thresholds densities notes"
    )
    assert " ".join(content["details"]["view"]) == "points codes low high surfaces agreement"
    weights = content["details"]["weights"]
    assert " ".join(weights) == "bars path generative discriminative change"
    assert list(weights["change"]) == ["value", "standard_error", "low", "high"]
    for one in content["details"]["calibration"].values():
        assert " ".join(one) == "mean frequency low high share error"


def test_the_page_has_the_bands_of_the_curve(result):
    for metric in ("error", "log_loss"):
        for name, estimates in result.curve.summary(metric).items():
            bands = result.to_dict()["curve"]["interval"][name][metric]
            assert bands == [[at.low, at.high] for at in estimates]
        at, end = result.curve.summary(metric)[name][-1], result[name].estimates[metric]
        assert (at.low, at.high) == pytest.approx((end.low, end.high))


def test_the_curve_ends_at_the_table(result):
    for name in ("blend generative", "blend discriminative"):
        end = result.curve.scores[name]["brier"][:, -1]
        np.testing.assert_array_equal(end, result[name].scores["brier"])


def _decimals(values: object) -> set[float]:
    if isinstance(values, dict):
        return set().union(*map(_decimals, values.values())) if values else set()
    if isinstance(values, list):
        return set().union(*map(_decimals, values)) if values else set()
    return {float(values)} if isinstance(values, (int, float)) else set()


def assert_figures_are_in(result) -> None:
    """Every figure of the verdict is a rounded number of to_dict(), in the place it speaks of."""
    content = result.to_dict()
    criterion = content["criterion"]
    models = [
        {
            "score": model[criterion],
            "gap": model["difference_to_best"][criterion],
            "chosen": model["chosen_tradeoff"],
        }
        for model in content["models"]
    ]
    ends, pool = content["ends"] or {}, content["pool"]
    known = _decimals(models) | _decimals(content["splits"])
    if pool:
        known |= _decimals([pool["weights"], pool["difference_to_best_member"][criterion]])
    if ends:
        known |= _decimals(ends["discriminative_minus_generative"][criterion])
        known |= _decimals(ends["crossing"][criterion])
    known |= _decimals(content["doubling_the_rows"].get(criterion, {}))
    names = sorted((model.name for model in result.models), key=len, reverse=True)
    for sentence in content["verdict"]:
        text = sentence
        for name in [*names, ends.get("family") or "\0"]:
            text = text.replace(name, "").replace(name.capitalize(), "")
        text = text.replace("95 % interval", "").replace("λ", "")
        for said in re.findall(r"-?\d[\d,]*(?:\.\d+)?", re.sub(r"and \d+ more", "", text)):
            value = float(said.replace(",", ""))
            digits = len(said.split(".")[1]) if "." in said else 0
            step = 10.0**-digits if digits else max(1.0, 0.1 * abs(value))
            assert any(
                abs(abs(value) - abs(number)) <= 0.5 * step * (1 + 1e-9) for number in known
            ), (said, sentence)


@pytest.mark.parametrize(
    "criterion", ["log_loss", "error", pytest.param("brier", marks=pytest.mark.slow)]
)
def test_every_figure_of_the_verdict_is_in_the_dictionary(criterion):
    X, y = _table(300, seed=3)
    models = {
        n: m for n, m in references().items() if n in ("logistic regression", "majority class")
    }
    assert len(models) == 2
    found = compare(X, y, models=blends() | models, n_splits=4, criterion=criterion, evidence=False)
    assert found.criterion == criterion
    assert len(found.verdict_sentences) == 3
    assert found.verdict() == " ".join(found.verdict_sentences)
    assert_figures_are_in(found)


def test_the_verdict_says_when_nothing_beats_guessing():
    rng = np.random.default_rng(0)
    models = {"guess": DummyClassifier(strategy="prior"), "also a guess": DummyClassifier()}
    X, y = rng.normal(size=(40, 2)), np.tile([0, 1], 20)
    found = compare(X, y, models=models, stop_early=False)
    assert found.verdict_sentences == (
        "No model is better than guessing: guess has the lowest log-loss 0.693 ± 0.000; the "
        "closest is also a guess (higher by 0.000, 95 % interval 0.000 to 0.000).",
        "Generative and discriminative fits were not compared, because no model with a tradeoff "
        "ran.",
        "At the present slope, doubling the 32 training rows would change the log-loss of guess "
        "by 0.000 (95 % interval 0.000 to 0.000): there is no clear sign that more labelled rows "
        "would help.",
    )


def test_of_two_ends_with_the_same_scores_none_is_ahead():
    """A constant column tells the classes nothing: both ends are their shares."""
    X, y = np.full((30, 1), 7.0), np.arange(30) % 2
    found = compare(X, y, models=["naive Bayes"], n_splits=5, random_state=0)
    assert {one.status for one in found.ends.crossing.values()} == {"level"}
    said = found.verdict()
    assert "both have the same score at every size tried, up to n=24" in " ".join(said.split())
    assert "is ahead" not in said
    assert "overtakes" not in said
    assert "Both fits have the same score at every size tried" in found.to_html()


def test_the_verdict_is_sure_where_the_data_are():
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 100)
    X = rng.normal(size=(200, 1)) + 3 * y[:, None]
    models = {"normal": GaussianNB(), "guess": DummyClassifier(strategy="prior")}
    first, *_ = compare(X, y, models=models, n_splits=5).verdict_sentences
    assert re.fullmatch(
        r"Use normal: its log-loss 0\.\d{3} ± 0\.\d{3} is lower than that of guess \(higher by "
        r"0\.\d{3}, 95 % interval 0\.\d{3} to 0\.\d{3}\)\.",
        first,
    )


class Knows(ClassifierMixin, BaseEstimator):
    """Has a tradeoff and probability `sure` for the sign of the first column."""

    def __init__(self, sure=0.9, *, tradeoff=0.5):
        self.sure, self.tradeoff = sure, tradeoff

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        p = np.where(np.asarray(X)[:, 0] > 0, self.sure, 1 - self.sure)
        return np.column_stack([1 - p, p])

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class Erratic(Knows):
    """The same, but wrong on the test rows of some splits."""

    def predict_proba(self, X):
        p = super().predict_proba(X)
        return p if np.asarray(X)[:, 0].sum() > 0 else p[:, ::-1]


class Reference(Knows):
    """The same without a tradeoff."""

    def __init__(self, sure=0.9):
        self.sure = sure


@pytest.mark.parametrize(("own", "told"), [(0.6, True), (0.8951, False)])
def test_the_verdict_says_plainly_when_a_reference_wins_and_by_how_much(own, told):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 1))
    y = ((X[:, 0] > 0) ^ (rng.random(400) < 0.1)).astype(int)
    models = {"theirs": Reference(0.9), "ours": Knows(own)}
    found = compare(X, y, models=models, n_splits=4)
    gap = found["ours"].differences["log_loss"]
    first = found.verdict_sentences[0]
    assert first.startswith("Use theirs: its log-loss 0.")
    shown = re.escape(figure(gap.mean, gap.standard_error))
    interval = r"95 % interval -?\d\.\d+ to \d\.\d+"
    # Of a single rival all that there is to say is said at once.
    than = "lower than that of" if told else "do not show that it is better than"
    assert re.search(rf"{than} ours \(higher by {shown}, {interval}\)\.( A pool of |$)", first)
    of_models = first.partition(" A pool of ")[0]
    assert ("do not show" in of_models) != told
    assert len(re.findall("95 % interval", of_models)) == 1
    assert_figures_are_in(found)


def test_the_closest_of_those_that_cannot_be_told_apart_is_one_of_them():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 1))
    y = ((X[:, 0] > 0) ^ (rng.random(2_000) < 0.1)).astype(int)
    models = {"best": Knows(0.9), "worse": Knows(0.7), "erratic": Erratic(0.9), "wild": Erratic()}
    found = compare(X, y, models=models, n_splits=4, curve=False, evidence=False)
    gaps = {name: found[name].differences["log_loss"] for name in list(models)[1:]}
    assert gaps["worse"].excludes_zero
    assert not gaps["erratic"].excludes_zero
    assert gaps["worse"].mean < gaps["erratic"].mean
    assert "better than erratic and wild (the closest, erratic, is higher by" in found.verdict()


def test_a_model_that_fails_is_listed_and_the_others_go_on():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), np.tile([0, 1], 20)
    X[0, 0] = 7.0
    models = {"breaks": Breaks(), "normal": GaussianNB()}
    found = compare(X, y, models=models, n_splits=10)
    assert found["breaks"].failure == "row 0 is not welcome"
    assert found["breaks"].estimates == {}
    assert found.best == "normal"
    assert "breaks could not be fitted: row 0 is not welcome" in found.notes
    assert found.to_dict()["models"][0]["log_loss"] is None
    assert found.frame()["failure"].to_list() == ["row 0 is not welcome", None]


@pytest.mark.slow
def test_processes_give_the_same_numbers_messages_and_failures(monkeypatch):
    monkeypatch.setattr("crossfade.processes._WORTH_SECONDS", -1.0)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), np.tile([0, 1], 20)
    X[0, 0] = 7.0
    models = {"breaks": Breaks(), "normal": GaussianNB(), "blend generative": Blend(tradeoff=1)}
    # Which models get more splits does not depend on who is faster.
    models |= {"good": Sign(0.6), "close": Sign(0.58), "bad": Sign(0.1, elsewhere=0.02)}
    found, seen = [], []
    for number in (1, 2):
        with threads(number):
            again = compare(
                X, y, models=models, n_splits=10, progress=lambda *step: seen.append(step)
            )
        found.append(_numbers(again))
        assert seen[-1][0] == seen[-1][1]
    assert found[0] == found[1]
    assert "breaks could not be fitted: row 0 is not welcome" in found[0]["notes"]


def test_if_all_models_fail_the_first_reason_is_the_error():
    X, y = np.full((20, 1), 7.0), np.tile([0, 1], 10)
    with pytest.raises(DataError, match="but all 1 failed; breaks: row 0 is not welcome"):
        compare(X, y, models={"breaks": Breaks()}, n_splits=2)


def test_warnings_of_models_are_counted_in_the_notes():
    X, y = np.random.default_rng(0).normal(size=(20, 1)), np.tile([0, 1], 10)
    found = compare(X, y, models={"odd": Breaks()}, n_splits=3, criterion="error")
    # Three splits, and on three splits the size two before the last for the curve's slope.
    assert "odd: UserWarning in 6 fits, the first: a little odd" in found.notes
    seen = np.isfinite(found.curve.scores["odd"]["error"]).all(axis=0)
    assert np.flatnonzero(seen).tolist() == [len(seen) - 3, len(seen) - 1]
    scores = found.curve.scores["odd"]["error"][:, seen]
    small, large = (found.curve.sizes[place] for place in np.flatnonzero(seen))
    gain = (scores[:, 1] - scores[:, 0]).mean() / np.log2(large / small)
    assert found.doubling["error"].mean == pytest.approx(gain)


def test_a_model_without_probabilities_is_scored_by_its_error():
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.tile([0, 1], 20)
    models = {"ridge": RidgeClassifier(), "normal": GaussianNB()}
    found = compare(X, y, models=models, n_splits=3)
    assert found.best == "normal"
    assert set(found["ridge"].estimates) == {"error"}
    assert found.to_dict()["models"][0]["brier"] is None
    with pytest.raises(DataError, match='no model gives probabilities; use criterion="error"'):
        compare(X, y, models={"ridge": RidgeClassifier()}, n_splits=3)


def test_the_tradeoff_is_reported(result):
    chosen = result["blend auto"].chosen
    assert (chosen.median, chosen.smallest, chosen.largest) == (0.25,) * 3
    assert result["blend generative"].chosen is None
    assert [model.tradeoff for model in result.models] == [1.0, 0.0, "auto", None]
    assert result.ends.family == "blend"


def test_the_ends_are_fitted_where_they_are_not_in_the_table(result):
    X, y = _table()
    found = compare(X, y, models={"mine": Blend(tradeoff=0.5)}, n_splits=4)
    assert found.ends.generative == "mine, generative end"
    for metric, value in result.ends.difference.items():
        assert value == found.ends.difference[metric]
        assert result.ends.crossing[metric] == found.ends.crossing[metric]


def test_interrupted_after_some_splits_gives_what_is_done():
    X, y = _table()

    def stop(done, total, text):
        if text.startswith("split 4"):
            raise KeyboardInterrupt

    found = compare(X, y, models=blends(), n_splits=8, progress=stop)
    numbers = [model.n_splits for model in found.models]
    assert (max(numbers), found.ended, found.complete) == (4, "keyboard", False)
    assert (found.curve, found.ends, found.details) == (None, None, None)
    asked = f"Ctrl-C ended the run after {found.n_splits} of 8 splits of the best model."
    assert asked in found.verdict()
    every = replace(found, n_splits_asked=found.n_splits).verdict()
    assert f"Ctrl-C ended the run after all {found.n_splits} splits of the best model." in every
    whole = compare(X, y, models=blends(), n_splits=8, stop_early=False, evidence=False)
    for model in found.models:
        expected = whole[model.name].scores["log_loss"][: model.n_splits]
        np.testing.assert_array_equal(model.scores["log_loss"], expected)
    assert_figures_are_in(found)

    def stop_at_once(done, total, text):
        raise KeyboardInterrupt

    one = compare(X, y, models=blends(), n_splits=8, progress=stop_at_once)
    assert sorted(model.n_splits for model in one.models) == [0, 0, 1]
    assert "on the only split that was finished" in one.verdict()

    class Interrupted(DummyClassifier):
        def fit(self, X, y, sample_weight=None):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(X, y, models={"never fitted": Interrupted()}, n_splits=8)


def test_progress_ends_at_its_total():
    X, y = _table()
    seen = []
    compare(X, y, models=blends(), n_splits=3, progress=lambda *step: seen.append(step))
    assert [done for done, _, _ in seen] == list(range(1, len(seen) + 1))
    assert seen[-1][0] == seen[-1][1]


def test_nothing_given_is_changed():
    X, y = _table()
    models = blends()
    before = {name: repr(model.get_params()) for name, model in models.items()}
    frame, labels = X.to_pandas(), y.to_pandas()
    compare(frame, labels, models=models, n_splits=2)
    pd.testing.assert_frame_equal(frame, X.to_pandas())
    pd.testing.assert_series_equal(labels, y.to_pandas())
    assert {name: repr(model.get_params()) for name, model in models.items()} == before
    assert not any(hasattr(model, "classes_") for model in models.values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_splits": 1}, "n_splits: expected a whole number of at least 2, got 1; 20 is"),
        ({"n_splits": 2.5}, "n_splits: expected a whole number of at least 2, got 2.5"),
        ({"random_state": -1}, "random_state: expected a whole number of at least 0, got -1"),
        ({"criterion": "auc"}, "criterion: expected 'log_loss', 'brier' or 'error', got 'auc'"),
        ({"train_size": 2.5}, r"train_size: expected a fraction in \(0, 1\) or a number of rows"),
        ({"models": {}}, "models: expected names, or a mapping of names to estimators, got {}"),
        ({"models": {"a": 3}}, "models: expected scikit-learn classifiers, got 3 under 'a'"),
        ({"models": {1: GaussianNB()}}, "models: expected names that are text, got 1; use '1'"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(change, message):
    X, y = _table()
    with pytest.raises(DataError, match=message):
        compare(X, y, **({"models": {"normal": GaussianNB()}, "n_splits": 2} | change))


@pytest.mark.parametrize("lone", [["c"], ["c", "a0"]])
def test_rows_alone_in_their_class_are_left_out_and_named(lone):
    frame, y = _table()
    models = {"mine": NaiveBayes(tradeoff=1.0)}
    place, n = len(y) // 2, len(lone)
    more = pl.concat([frame[:place], frame[:n], frame[place:]])
    labels = [*y[:place].to_list(), *lone, *y[place:].to_list()]
    found = compare(more, labels, models=models, n_splits=2)
    plain = compare(frame, y, models=models, n_splits=2)
    assert found.data.classes == plain.data.classes == ("no", "yes")
    assert {m.name: m.estimates for m in found.models} == {
        m.name: m.estimates for m in plain.models
    }
    alone = ("1 row was left out, alone in its class ('c')",)
    alone += ("2 rows were left out, alone in their classes ('a0', 'c')",)
    assert found.notes[0] == f"{alone[n - 1]}: a class takes one row to fit and one to test on."
    curves = learning_curve(more, labels, models=models, n_splits=2)
    assert curves.notes[0] == found.notes[0]


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros((4, 2)), [1, 1, 1, 1], r"y: expected at least 2 classes, got 1 class \(1 in al"),
        (np.zeros((4, 2)), [1, 1, 2], "y: expected one label for each of the 4 rows of X, got 3"),
        (np.zeros((4, 2)), [None] * 4, "y: expected labels, got missing cells only; choose anoth"),
        (
            np.zeros((3, 2)),
            ["a", "a", "c"],
            r"y: expected at least 2 rows of every class, one to fit and one to test on, but "
            r"1 class has 1 row \('c'\); drop or merge rare classes, or add rows",
        ),
        (np.zeros((9, 2)), np.arange(9), "if the target is a number, cut it into classes first"),
        (np.zeros((4, 2)), [0.5, 1.5, 2.5, 0.5], "y: Unknown label type: continuous"),
        (np.zeros((4, 0)), [1, 1, 2, 2], "X: found 0 feature"),
        (np.full((4, 2), np.nan), [1, 1, 2, 2], "X: "),
        ([[1.0, np.inf], [1, 2], [1, 2], [3, 4]], [1, 1, 2, 2], "X: expected finite numbers"),
        ([[1], [2, 3]], [1, 2], "X: expected rows of equal length"),
        (None, [1, 2], "X: "),
    ],
)
def test_data_that_cannot_be_used_are_refused(X, y, message):
    with pytest.raises(DataError, match=message):
        compare(X, y, models={"normal": GaussianNB()}, n_splits=2)


def test_repr_names_the_next_step(result):
    assert re.fullmatch(
        r"<ComparisonResult: 4 models on 4 splits of 120 rows; best is 'blend \w+', log-loss "
        r"0\.\d{3} ± 0\.\d{3}\. See \.verdict\(\), \.frame\(\), \.to_dict\(\)>",
        repr(result),
    )


def test_frame_without_polars_says_what_to_install(result, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    expected = r"polars is needed for data frames.*pip install 'crossfade\[cli\]'"
    with pytest.raises(MissingExtraError, match=expected):
        result.frame()


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (lambda i: f"20{10 + i % 7}-0{1 + i % 9}-1{i % 9}", True),
        (lambda i: f"{1 + i % 28}.{1 + i % 12}.2021", True),
        (lambda i: f"1{i % 9}/0{1 + i % 9}/21 08:{i:02d}", True),
        (lambda i: f"{8 + i % 9}:15", True),
        (lambda i: f"1-{i % 9}", False),
        (lambda i: f"{40 + i % 9}-{10 + i % 9}-21", False),
        (lambda i: f"192.168.0.{i % 9}", False),
        (lambda i: "2021-03-04" if i % 9 else "unknown", False),
    ],
)
def test_dates_that_are_read_as_text_are_told(cells, told):
    X = pd.DataFrame({"size": np.arange(40.0) % 7, "day": [cells(i) for i in range(40)]})
    found = read_problem(X, np.arange(40) % 2).notes
    assert any("column 'day': dates and times are read as text" in note for note in found) is told


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (np.arange(1, 41), True),
        (np.arange(40.0) * 3 + 100, True),
        (np.arange(40.0) / 3, False),
        (np.arange(40) // 2, False),
        (np.where(np.arange(40) == 7, np.nan, np.arange(40.0)), False),
        (np.roll(np.arange(40), 1), False),
    ],
)
def test_columns_that_number_the_rows_are_told(column, told):
    X = pd.DataFrame({"size": np.arange(40.0) % 7, "rownames": column})
    found = read_problem(X, np.arange(40) // 20).notes
    assert any("column 'rownames': rises with every row" in note for note in found) is told


def test_row_numbers_are_told_where_rows_without_a_label_are_left_out():
    X = pd.DataFrame({"rownames": np.arange(40), "id": np.arange(40) + 5, "size": np.ones(40)})
    y = ["a", "b", None, "b"] * 10
    (note,) = (one for one in read_problem(X, y).notes if "rise" in one)
    assert note.startswith("column 'rownames', column 'id': rise with every row, as row numbers do")


def test_a_criterion_that_no_model_has_is_refused_after_one_split_of_each():
    rng = np.random.default_rng(0)
    models = {"ridge": RidgeClassifier(), "other": RidgeClassifier(2.0)}
    seen = []
    with pytest.raises(DataError, match=r"^criterion: expected one that a model has"):
        compare(
            rng.normal(size=(60, 2)),
            np.tile([0, 1], 30),
            models=models,
            progress=lambda done, total, text: seen.append(text),
        )
    assert len(seen) < 2
