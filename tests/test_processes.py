"""Work on processes gives what work here gives, whatever happens to it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from functools import partial
from time import perf_counter, sleep

import numpy as np
import pytest

import crossfade.processes
from crossfade.blocks import n_threads, threads
from crossfade.processes import map_in_order, processes_kept, work_as_chosen


@pytest.fixture
def eager(monkeypatch):
    """Processes are used for any work, however short."""
    monkeypatch.setattr(crossfade.processes, "_WORTH_SECONDS", -1.0)


def whereabouts(item):
    return item, os.getpid(), n_threads()


def root(item, offset):
    return np.sqrt(item) + offset


def root_of_four(item):
    return root(item, 0.0)


def refuse_threes(item):
    if item == 3:
        raise KeyError("three")
    return item


def test_order_and_values_are_those_of_a_loop(eager):
    with threads(2):
        found = list(map_in_order(partial(root, offset=np.ones(2)), range(7)))
    np.testing.assert_array_equal(found, [root(i, np.ones(2)) for i in range(7)])


def test_other_processes_work_with_one_thread(eager):
    with threads(2):
        found = list(map_in_order(whereabouts, range(5)))
    assert [item for item, _, _ in found] == list(range(5))
    assert found[0][1:] == (os.getpid(), 2)
    assert all(process != os.getpid() and number == 1 for _, process, number in found[1:])


@pytest.mark.parametrize("share", [True, False])
def test_short_work_stays_here(share):
    with threads(2):
        found = list(map_in_order(whereabouts, range(4), share=share))
    assert {process for _, process, _ in found} == {os.getpid()}


def test_work_stays_here_where_one_thread_is_allowed(eager):
    with threads(1):
        found = list(map_in_order(whereabouts, range(4)))
    assert {process for _, process, _ in found} == {os.getpid()}


@pytest.mark.parametrize("held", [threading.Lock(), (item for item in ())])
def test_what_cannot_be_pickled_is_done_here(eager, held):
    items = iter(range(4))

    def work(item):
        return item, type(held)

    with threads(2):
        found = list(map_in_order(work, range(4)))
        chosen = list(work_as_chosen(work, partial(next, items, None), lambda: 1e3))
    assert found == [(i, type(held)) for i in range(4)]
    assert chosen == [(i, (i, type(held))) for i in range(4)]


def test_processes_that_are_kept_do_the_next_work_and_end_with_the_last(eager):
    items = iter(range(4))
    with threads(2), processes_kept():
        first = {
            process
            for _, (_, process, _) in work_as_chosen(
                whereabouts, partial(next, items, None), lambda: 1e3
            )
        }
        found = list(map_in_order(whereabouts, range(4)))
        assert list(map_in_order(root_of_four, [4])) == [2.0]  # is no work for several
        with pytest.raises(KeyError, match="three"):
            list(map_in_order(refuse_threes, range(6)))
        later = list(map_in_order(whereabouts, range(3)))
    assert [item for item, _, _ in found] == list(range(4))
    # The first of two processes may do all of the first work.
    kept = first | {process for _, process, _ in found}
    assert len(kept) <= 2
    assert {n for _, _, n in found} == {1}
    # What failed took its processes along.
    assert kept.isdisjoint(process for _, process, _ in later)
    assert not [c for c in multiprocessing.active_children() if c.name.startswith("LokyProcess")]


class LoadsOnlyHere:
    """Can be pickled, but unpickled in the process that made it only."""

    def __reduce__(self):
        return load_here, (os.getpid(),)


def load_here(process):
    if process != os.getpid():
        raise ImportError("no such module in this process")
    return LoadsOnlyHere()


def kill_other_process(item, here, how):
    if item == 3 and os.getpid() != here:
        how(os.getpid())
    return item


def kill(process):
    os.kill(process, signal.SIGKILL)


def leave(process):
    os._exit(3)


def test_what_cannot_be_unpickled_elsewhere_is_done_here(eager):
    with threads(2):
        assert list(map_in_order(type, [LoadsOnlyHere()] * 4)) == [LoadsOnlyHere] * 4


@pytest.mark.parametrize("how", [kill, pytest.param(leave, marks=pytest.mark.slow)])
def test_what_a_killed_process_leaves_is_done_here(eager, how):
    work = partial(kill_other_process, here=os.getpid(), how=how)
    with threads(2):
        assert list(map_in_order(work, range(6))) == list(range(6))
        # The next work finds whole processes again.
        found = list(map_in_order(whereabouts, "abc"))
        assert os.getpid() not in {process for _, process, _ in found[1:]}


def test_a_thread_starts_no_processes(eager):
    found = []

    def work():
        with threads(2):
            found.extend(map_in_order(whereabouts, range(4)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert {process for _, process, _ in found} == {os.getpid()}


def test_a_worker_starts_no_processes(eager, monkeypatch):
    monkeypatch.setattr(multiprocessing.current_process(), "name", "LokyProcess-1")
    with threads(2):
        found = list(map_in_order(whereabouts, range(4)))
    assert {process for _, process, _ in found} == {os.getpid()}


def test_an_error_reaches_the_caller(eager):
    with threads(2), pytest.raises(KeyError, match="three"):
        list(map_in_order(refuse_threes, range(6)))


def slowly(item):
    sleep(0.05)
    return item


def test_a_reader_may_stop_early(eager):
    with threads(2):
        results = map_in_order(slowly, range(50))
        assert [next(results) for _ in range(3)] == [0, 1, 2]
        results.close()  # without a warning, although work is under way
        assert [item for item, _, _ in map_in_order(whereabouts, range(3))] == [0, 1, 2]


@pytest.mark.skipif(not hasattr(signal, "siginterrupt"), reason="only there calls go on")
def test_control_c_is_obeyed_while_processes_work_and_calls_go_on(eager):
    """As they do once a library, such as polars, has put its own handler before Python's."""
    signal.siginterrupt(signal.SIGINT, False)
    seconds, begun = iter([0, 8, 8]), perf_counter()
    with threads(2), closing(work_as_chosen(sleep, partial(next, seconds), lambda: 1e3)) as done:
        assert next(done) == (0, None)
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            with pytest.raises(KeyboardInterrupt):
                next(done)
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    assert perf_counter() - begun < 8.0


def test_nothing_to_do():
    assert list(map_in_order(abs, [])) == []


@pytest.mark.skipif(os.name != "posix", reason="only there a process can be asked for safely")
def test_what_a_killed_run_left_behind_is_removed_by_the_next(tmp_path, monkeypatch):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    monkeypatch.setattr(crossfade.processes, "gettempdir", lambda: str(tmp_path))
    stale = tmp_path / f"crossfade-{ended.pid}-abc"
    kept = [tmp_path / f"crossfade-{os.getpid()}-abc", tmp_path / "crossfade-mine-abc"]
    for folder in (stale, *kept):
        folder.mkdir()
        (folder / "function").write_bytes(b"data")
    crossfade.processes._remove_left_behind()
    assert not stale.exists()
    assert all((folder / "function").exists() for folder in kept)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs the folder /proc")
def test_a_parent_that_nobody_has_waited_for_has_ended(monkeypatch):
    # In a container whose first process asks for no exit status, it stays a zombie for ever.
    alive = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    ended = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert ended.stdout.read() == b""
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    for process, has_ended in ((alive, False), (ended, True)):
        monkeypatch.setattr(os, "getppid", lambda pid=process.pid: pid)
        assert crossfade.processes._has_ended(process.pid) is has_ended
    monkeypatch.undo()
    assert crossfade.processes._has_ended(alive.pid)  # is no parent of this process
    alive.communicate(b"\n")
    ended.stdout.close()
    ended.wait()
