"""Gradient boosting of small tables, whatever else the machine is doing."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_info, threadpool_limits

from crossfade import blocks
from crossfade.pools.boosting import Boosting


def openmp_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"}


@pytest.mark.parametrize(("many_cells", "inside"), [(10_000, 1), (100, 2)])
def test_few_cells_are_worked_on_by_one_thread(monkeypatch, many_cells, inside):
    # Threads of OpenMP wait spinning after every loop: beside other work, a hundred times as long.
    seen = {}

    def noted(name):
        original = getattr(HistGradientBoostingClassifier, name)

        def method(self, *args, **kwargs):
            seen[name] = openmp_threads()
            return original(self, *args, **kwargs)

        monkeypatch.setattr(HistGradientBoostingClassifier, name, method)

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.arange(60) % 2
    for name in ("fit", "predict", "predict_proba"):
        noted(name)
    monkeypatch.setattr(blocks, "_MANY_CELLS", many_cells)
    with threadpool_limits(2, "openmp"):
        model = Boosting().fit(X, y)
        model.predict(X)
        model.predict_proba(X)
        assert openmp_threads() == {2}
    assert seen == {key: {inside} for key in ("fit", "predict", "predict_proba")}
