"""Runs that are stopped, killed and continued."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from crossfade import DataError, NaiveBayes, learning_curve
from crossfade.evaluation import run
from tests.evaluation.standins import Breaks, Slow, blobs
from tests.forked import Forked

# -- Ctrl-C ------------------------------------------------------------------------------------


class Interrupts(Breaks):
    """Ctrl-C at the given number of fits."""

    fits = 0

    def fit(self, X: Any, y: Any) -> Breaks:
        Interrupts.fits += 1
        if Interrupts.fits == self.least:
            raise KeyboardInterrupt
        self.classes_ = np.unique(y)
        return self


def test_ctrl_c_returns_what_is_done():
    X, y = blobs()
    Interrupts.fits = 0
    curve = learning_curve(X, y, models={"i": Interrupts(6)}, train_sizes=[10, 40], n_splits=10)
    assert (curve.n_splits, curve.complete) == (2, False)
    assert "(interrupted)" in repr(curve)
    Interrupts.fits = 0
    with pytest.raises(KeyboardInterrupt):
        learning_curve(X, y, models={"i": Interrupts(1)}, train_sizes=[10, 40], n_splits=10)


def test_compiled_splits_come_in_batches_of_about_half_a_second(monkeypatch):
    # What Ctrl-C can lose is a batch: one of fixed length would lose minutes of slow splits.
    lengths = {}
    for name, pace in (("slow", 3.0), ("fast", 0.001)):
        clock = iter(range(10_000))
        monkeypatch.setattr(run, "perf_counter", lambda clock=clock, pace=pace: pace * next(clock))
        X, y = blobs()
        done: list[int] = []
        learning_curve(
            X, y, models={"nb": NaiveBayes(tradeoff=1)}, train_sizes=[10], n_splits=200,
            progress=lambda *report, done=done: done.append(report[0]),
        )  # fmt: skip
        assert done[-1] == 200
        lengths[name] = [b - a for a, b in pairwise([0, *done])]
    assert max(lengths["slow"]) <= max(2, run.n_threads())
    assert max(lengths["fast"]) > 50


def test_ctrl_c_amid_compiled_splits_keeps_the_batches_before():
    X, y = blobs()

    def stop(done: int, total: int, text: str) -> None:
        if done > 5:
            raise KeyboardInterrupt

    models = {"nb": NaiveBayes(tradeoff=1)}
    part = learning_curve(X, y, models=models, train_sizes=[10, 40], n_splits=500, progress=stop)
    whole = learning_curve(X, y, models=models, train_sizes=[10, 40], n_splits=500)
    assert 5 < part.n_splits < 500
    assert not part.complete
    assert part.frame().equals(whole.frame()[: len(part.frame())])


# -- checkpoints -------------------------------------------------------------------------------


def whole_run(file: Path | str, models: str, tells: bool = False) -> Any:
    """Run, or continue, a curve of 24 splits to its end."""
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X = rng.normal(size=(80, 2)) + y[:, None]
    made = {
        "compiled": NaiveBayes(tradeoff=1),
        "nested": NaiveBayes("gaussian", tradeoff=0.5),
        "fitted": Slow(),
    }
    return learning_curve(
        X, y, models={name: made[name] for name in models.split(",")}, train_sizes=[10, 30, 60],
        n_splits=24, checkpoint=file,
        progress=(lambda done, total, text: print(done, flush=True)) if tells else None,
    )  # fmt: skip


def told_run(file: Path, models: str, pause: float) -> None:
    """Do the same, slowly."""
    Slow.pause = pause
    print("complete" if whole_run(file, models, True).complete else "interrupted")


@pytest.fixture
def start() -> Iterator[Callable[..., Forked]]:
    """Run it in a process of its own, which may be stopped."""
    begun: list[Forked] = []

    def starts(*arguments: Any) -> Forked:
        begun.append(Forked(told_run, *arguments))
        return begun[-1]

    yield starts
    for process in begun:
        process.end()


def told(process: Forked, done: int) -> None:
    """Wait until so many splits are reported."""
    for line in process.stdout:
        if int(line) >= done:
            return
    raise AssertionError("the run ended before it was stopped")


def finish(process: Forked) -> str:
    out, _ = process.communicate()
    assert process.returncode == 0
    return out.split()[-1]


@pytest.mark.slow
def test_a_killed_run_continues_to_the_same_bytes(tmp_path, start):
    models = "fitted,compiled,nested"
    whole = whole_run(tmp_path / "whole", models)
    file = tmp_path / "killed"
    # Killed twice, between two reports: in the middle of whatever it was at.
    for done in (3, 9):
        killed = start(file, models, 0.01)
        told(killed, done)
        time.sleep(0.02)
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        assert killed.returncode == -signal.SIGKILL
        lines = file.read_bytes().count(b"\n")
        assert done < lines < 25  # the heading and some splits, not all
    with file.open("ab") as torn:
        torn.write(b'{"scores": {"nb": [[0.1')  # as a write that was cut short leaves it
    continued = whole_run(file, models)
    assert whole.complete
    assert continued.complete
    assert file.read_bytes() == (tmp_path / "whole").read_bytes()
    assert continued.frame().equals(whole.frame())


def test_a_run_stopped_by_ctrl_c_returns_and_continues(tmp_path, start):
    stopped = start(tmp_path / "stopped", "fitted", 0.05)
    told(stopped, 3)
    stopped.send_signal(signal.SIGINT)
    assert finish(stopped) == "interrupted"
    assert 3 < (tmp_path / "stopped").read_bytes().count(b"\n") < 25
    assert whole_run(tmp_path / "stopped", "fitted").complete


def test_wherever_a_file_was_cut_the_run_continues_to_the_same_bytes(tmp_path):
    X, y = blobs()
    file = tmp_path / "file"
    models = {"b": Breaks(20), "nb": NaiveBayes(tradeoff=1), "half": NaiveBayes(tradeoff=0.5)}

    def run() -> Any:
        return learning_curve(
            X, y, models=models, train_sizes=[10, 40], n_splits=4, checkpoint=file
        )

    whole = run()
    content = file.read_bytes()
    heading = content.index(b"\n") + 1
    for end in [0, heading, *np.linspace(heading + 1, len(content), 9).astype(int)]:
        file.write_bytes(content[:end])
        again = run()
        assert file.read_bytes() == content
        assert again.frame().equals(whole.frame())
        assert again.notes == whole.notes


def test_a_checkpoint_is_continued_with_more_splits_and_read_with_fewer(tmp_path):
    X, y = blobs()
    models = {"b": Breaks(20), "g": GaussianNB()}
    settings = {"train_sizes": [10, 40], "checkpoint": tmp_path / "file"}
    learning_curve(X, y, models=models, n_splits=2, **settings)
    five = learning_curve(X, y, models=models, n_splits=5, **settings)
    whole = learning_curve(X, y, models=models, n_splits=5, train_sizes=[10, 40])
    assert five.frame().equals(whole.frame())
    assert five.notes == whole.notes == ("b: 5 fits failed: 10 rows are too few",)
    assert learning_curve(X, y, models=models, n_splits=3, **settings).n_splits == 3
    assert (tmp_path / "file").read_bytes().count(b"\n") == 6


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"models": {"g": GaussianNB(var_smoothing=1e-3)}}, "models"),
        ({"models": {"other": GaussianNB()}}, "models"),
        ({"train_sizes": [10, 41]}, "sizes"),
        ({"train_size": 70}, "sizes"),
        ({"random_state": 1}, "seed"),
        ({"X": blobs(seed=1)[0]}, "data"),
        ({"y": blobs()[1][::-1]}, "data"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_and_kept(tmp_path, change, named):
    X, y = blobs()
    file = tmp_path / "file"
    settings = {"models": {"g": GaussianNB()}, "X": X, "y": y, "train_sizes": [10, 40]}
    settings |= {"n_splits": 2, "checkpoint": file}
    learning_curve(**settings)
    before = file.read_bytes()
    with pytest.raises(DataError, match=f"has other {named}; repeat the run"):
        learning_curve(**(settings | change))
    assert file.read_bytes() == before


@pytest.mark.parametrize("content", [b"precious\n", b"no newline", b'{"format": 1}\n', b"\xff\n"])
def test_a_file_of_something_else_is_refused_and_kept(tmp_path, content):
    X, y = blobs()
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(DataError, match="expected a new file or one that learning_curve wrote"):
        learning_curve(X, y, models={"g": GaussianNB()}, n_splits=2, checkpoint=file)
    assert file.read_bytes() == content


def test_a_file_that_another_run_writes_is_refused(tmp_path, start):
    first = start(tmp_path / "shared", "fitted", 0.05)
    told(first, 2)
    with pytest.raises(DataError, match="expected a file that no other run is writing"):
        learning_curve(
            *blobs(), models={"g": GaussianNB()}, n_splits=2, checkpoint=tmp_path / "shared"
        )
    assert finish(first) == "complete"
    assert whole_run(tmp_path / "alone", "fitted").complete
    assert (tmp_path / "shared").read_bytes() == (tmp_path / "alone").read_bytes()


@pytest.mark.parametrize("change", ["repeated", "left out", "swapped"])
def test_records_that_do_not_count_up_are_refused(tmp_path, change):
    # As two runs leave them where files cannot be locked.
    file = tmp_path / "file"
    settings = {"train_sizes": [10, 40], "checkpoint": file}
    learning_curve(*blobs(), models={"g": GaussianNB()}, n_splits=4, **settings)
    head, a, b, c, d = file.read_bytes().splitlines(keepends=True)
    lines = {"repeated": [a, b, b, c], "left out": [a, c, d], "swapped": [b, a, c, d]}[change]
    file.write_bytes(head + b"".join(lines))
    with pytest.raises(DataError, match=r"expected split \d in line \d .* changed the file"):
        learning_curve(*blobs(), models={"g": GaussianNB()}, n_splits=4, **settings)
    assert file.read_bytes() == head + b"".join(lines)


def test_models_that_cannot_be_told_apart_have_no_checkpoint(tmp_path):
    X, y = blobs()
    model = make_pipeline(FunctionTransformer(lambda rows: rows), GaussianNB())
    with pytest.raises(DataError, match=r"checkpoint: expected models that can be pickled, .* 'p'"):
        learning_curve(X, y, models={"p": model}, n_splits=2, checkpoint=tmp_path / "file")
    assert not (tmp_path / "file").exists()
    assert learning_curve(X, y, models={"p": model}, n_splits=2).complete


def test_a_checkpoint_in_a_folder_that_is_not_there_is_an_error(tmp_path):
    X, y = blobs()
    with pytest.raises(OSError, match="No such file"):
        learning_curve(
            X, y, models={"g": GaussianNB()}, n_splits=2, checkpoint=tmp_path / "a" / "b"
        )
