from __future__ import annotations

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from crossfade.comparison.models import (
    choose_models,
    default_models,
    families,
    reference_models,
    without_dear,
)
from crossfade.errors import DataError
from crossfade.evaluation.evaluation import fitted_tradeoff
from tests.comparison.standins import Blend, blends

LINE_UP = blends() | reference_models()


def test_models_that_differ_in_tradeoff_only_are_a_family():
    (family,) = families(LINE_UP)
    assert family.label == "blend"
    assert family.members == ("blend generative", "blend discriminative", "blend auto")
    assert family.at(0.5).tradeoff == 0.5
    assert LINE_UP["blend generative"].tradeoff == 1.0


def test_other_differences_make_other_families():
    models = {
        "a one": Blend("x", tradeoff=1),
        "b one": Blend("y", tradeoff=1),
        "piped": make_pipeline(StandardScaler(), Blend("x", tradeoff=0)),
        "a two": Blend("x", tradeoff=0),
        "unscaled": make_pipeline(StandardScaler(with_mean=False), Blend("x", tradeoff=0)),
        "plain": GaussianNB(),
    }
    found = {family.label: family.members for family in families(models)}
    assert found == {
        "a": ("a one", "a two"),
        "b one": ("b one",),
        "piped": ("piped",),
        "unscaled": ("unscaled",),
    }


def test_the_tradeoff_inside_a_pipeline_is_found():
    piped = make_pipeline(StandardScaler(), Blend(tradeoff=0.75))
    (family,) = families({"piped": piped})
    assert family.parameter == "blend__tradeoff"
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.tile([0, 1], 10)
    assert fitted_tradeoff(family.at(0.5).fit(X, y)) == 0.5
    assert fitted_tradeoff(GaussianNB().fit(X, y)) is None


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["blend"], ["blend generative", "blend discriminative", "blend auto"]),
        (["svm", "Blend Auto"], ["blend auto", "linear SVM"]),
        (["knn", "majority "], ["k-nearest neighbours", "majority class"]),
        (["blend:auto"], ["blend auto"]),
    ],
)
def test_models_are_chosen_by_name_or_short_name(names, expected):
    assert list(choose_models(names, LINE_UP)) == expected


@pytest.mark.parametrize(("name", "hint"), [("swm", "'svm'"), ("linear svn", "'linear SVM'")])
def test_an_unknown_name_gets_the_nearest(name, hint):
    message = f"got '{name}'; did you mean {hint}\\? Choose from nb, shared, full, knn, svm"
    with pytest.raises(DataError, match=message):
        choose_models([name], LINE_UP)


@pytest.mark.parametrize("name", ["", " ", "zzz", "svm:auto"])
def test_a_name_that_fits_nothing_is_refused(name):
    with pytest.raises(DataError, match="models: expected names or short names of models"):
        choose_models([name], LINE_UP)


def test_models_that_would_take_minutes_are_left_out_and_the_reader_is_told():
    rng = np.random.default_rng(0)
    few, many = rng.normal(size=(60, 6)), rng.normal(size=(60, 60))
    everything, note = without_dear(default_models(), few, 1_000_000, 2)
    assert (set(everything), note) == (set(default_models()), None)
    kept, note = without_dear(default_models(), many, 20_000, 2)
    assert set(default_models()) - set(kept) == {
        "full Gaussian discriminative",
        "full Gaussian auto",
    }
    # 60 columns, 60 · 61 / 2 squares and products, and an offset, for each of two classes.
    assert f"{2 * (60 + 60 * 61 // 2 + 1):,} parameters (60 columns" in note
    assert without_dear(default_models(), many, 200, 2)[1] is None
    assert without_dear({"full Gaussian generative": 1}, many, 10**9, 2)[1] is None
