"""The live page: answers its own person only, survives the rest, and ends when told to."""

from __future__ import annotations

import asyncio
import http.client
import re
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from sklearn.datasets import load_iris
from starlette.datastructures import QueryParams

from crossfade import NaiveBayes
from crossfade.cli import main
from crossfade.commands import explore_app
from crossfade.commands.tables import open_table
from tests.forked import Forked
from tests.support import choose_shortly


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("explore") / "iris.csv"
    X, y = (part[::3] for part in load_iris(return_X_y=True))
    names = ["<script>sepal", "sepal width", "petal", "petal width"]
    lines = [",".join([*names, "kind"])]
    lines += [",".join([*map(str, row), f"kind {label}"]) for row, label in zip(X, y, strict=True)]
    file.write_text("\n".join(lines) + "\n")
    return file


def explore(table: Path) -> None:
    explore_app._HEADER_SECONDS = 3.0
    explore_app._PATIENCE = 0.1
    explore_app._FIRST_SPLITS = 3
    choose_shortly(pytest.MonkeyPatch())
    main(["explore", str(table), "--target", "kind"])


def endless(*arguments: object, **options: object) -> None:
    """Hours on a thread beside the main one, which no signal ends."""
    time.sleep(36_000)


def explore_without_end(table: Path) -> None:
    NaiveBayes.fit = endless
    explore(table)


class Server:
    """crossfade explore in a process of its own."""

    def __init__(self, table: Path, run: Callable[[Path], None] = explore) -> None:
        self.process = Forked(run, table)
        self.address = self.process.stdout.readline().strip()
        if not self.address:
            raise RuntimeError(self.process.communicate()[1])
        parts = urlsplit(self.address)
        self.port, self.path = parts.port, parts.path

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        """Ask until there is more to see than how far the work is, as a browser does."""
        status, end = 202, time.monotonic() + 120.0
        while status == 202:
            assert time.monotonic() < end
            status, text = self.ask_once(path, method, **headers)
        return status, text

    def ask_once(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def end(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGINT)
        errors = self.process.communicate()[1]
        return self.process.returncode, errors


@pytest.fixture(scope="module")
def server(table):
    running = Server(table)
    yield running
    running.process.end()


def test_it_listens_on_this_machine_under_a_secret(server):
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", server.address)
    status, text = server.ask(f"{server.path}?model=majority")
    assert status == 200
    assert "<h1>iris.csv</h1>" in text
    assert "&lt;script&gt;sepal" in text
    assert "<script>sepal" not in text
    for path in ("/", "/wrong/", server.path[:-2] + "/", server.path + "more", "/%00/"):
        status, text = server.ask(path)
        assert status == 404
        assert "iris" not in text


def test_ten_at_once_get_the_same_page(server):
    with ThreadPoolExecutor(10) as pool:
        query = f"{server.path}?column=0&column=2&class=0&class=2&splits=2&model=majority"
        answers = list(pool.map(server.ask, [query] * 10))
    assert {status for status, _ in answers} == {200}
    assert len({text for _, text in answers}) == 1
    text = answers[0][1]
    assert '<data value="33">33</data> rows' in text
    assert '<data value="2">2</data> columns' in text


@pytest.mark.parametrize(
    "query",
    [
        "column=-1",
        "column=99",
        "column=٣",
        "column=99999999999999999999",
        "class=1",
        "class=7&class=1",
        "model=rm",
        "criterion=<script>",
        "splits=1",
        "splits=1e9",
        "splits=",
    ],
)
def test_what_makes_no_sense_is_refused_in_words(server, query):
    from urllib.parse import quote

    status, text = server.ask(f"{server.path}?{quote(query, safe='=&')}")
    assert status == 400
    assert "expected" in text
    assert "<script>" not in text


def test_it_takes_no_uploads_and_no_other_names(server):
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert server.ask(server.path, method)[0] == 405
    assert server.ask(server.path, Host="elsewhere.example")[0] == 400


@pytest.mark.parametrize(
    "bytes_sent",
    [b"", b"\x00\xff\x16\x03\x01\n\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"A" * 100_000],
)
def test_malformed_requests_do_no_harm(server, bytes_sent):
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(bytes_sent)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(100)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert server.ask("/")[0] == 404


def test_a_connection_without_a_request_is_closed(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(f"GET {server.path} HTTP/1.1\r\nHost: local".encode())
        assert connection.recv(100) == b""


def test_costs_go_with_the_classes_that_are_chosen(table):
    costs = np.array([[0.0, 2.0, 9.0], [3.0, 0.0, 1.0], [4.0, 5.0, 0.0]])
    explorer = explore_app.Explorer(open_table(str(table), "kind").named(), 0, costs)
    query = QueryParams("model=majority&splits=2&class=0&class=2")
    page = explorer.page(explorer.read(query))
    assert '<option value="cost" selected>expected cost</option>' in page
    assert "lowest expected cost" in page
    assert explorer._costs(explorer.read(query)).tolist() == [[0.0, 9.0], [4.0, 0.0]]
    plain = explore_app.Explorer(explorer.table, 0)
    assert plain.read(QueryParams()).criterion == "log_loss"
    with pytest.raises(ValueError, match="cost"):
        plain.read(QueryParams("criterion=cost"))


class Recorder:
    """Stands for the explorer; a page takes until it is let go, and asks whether it is wanted."""

    def __init__(self):
        self.made, self.go = [], threading.Semaphore(0)

    def page(self, choice, is_wanted):
        self.made.append(choice)
        self.go.acquire()
        if not is_wanted():
            raise explore_app.Abandoned
        if choice == "faulty":
            raise ValueError("faulty")
        return f"page of {choice}"


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.005)


def run_elsewhere(recorder: Recorder, clicks: Callable[[], Awaitable[None]]) -> None:
    """Run it on a thread: the browser of other tests has a loop in this one.

    Whatever becomes of it, it ends, and no page is left waiting to be let go.
    """

    async def limited() -> None:
        try:
            async with asyncio.timeout(60):
                await clicks()
        finally:
            recorder.go.release(1_000)

    with ThreadPoolExecutor(1) as elsewhere:
        elsewhere.submit(asyncio.run, limited()).result()


def test_a_page_whose_fit_does_not_end_does_not_hold_up_the_next(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(explore_app, "monotonic", lambda: clock[0])
    monkeypatch.setattr(explore_app, "_LOOK_SECONDS", 0.01)
    recorder = Recorder()

    async def clicks() -> None:
        pages = explore_app.Pages(recorder)
        work = asyncio.create_task(pages.work())
        first = pages.asked_for("long")
        await until(lambda: recorder.made == ["long"])
        clock[0] += explore_app._UNREAD + 1
        second = pages.asked_for("next")
        # Nothing was let go: the first is still at work.
        await until(lambda: recorder.made == ["long", "next"])
        assert first.cancelled()
        recorder.go.release(2)
        assert await second == "page of next"
        work.cancel()

    run_elsewhere(recorder, clicks)


def test_the_latest_request_comes_first_and_unread_ones_not_at_all(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(explore_app, "monotonic", lambda: clock[0])
    recorder = Recorder()

    async def clicks() -> None:
        pages = explore_app.Pages(recorder)
        work = asyncio.create_task(pages.work())
        asked = {}
        for number in range(100):
            asked[number] = pages.asked_for(number)
            if number == 0:
                await until(lambda: recorder.made == [0])
        assert recorder.made == [0]
        clock[0] += explore_app._UNREAD + 1
        asked[99], asked[7] = pages.asked_for(99), pages.asked_for(7)  # these are still looked at
        recorder.go.release(3)
        assert await asked[99] == "page of 99"
        assert await asked[7] == "page of 7"
        # The first was given up in its midst, the others were never begun.
        assert recorder.made == [0, 99, 7]
        assert all(page.cancelled() for n, page in asked.items() if n not in (7, 99))
        # One that was given up is made when it is asked for again, one that was made is kept.
        recorder.go.release(2)
        assert await pages.asked_for(0) == "page of 0"
        assert await pages.asked_for(99) == "page of 99"
        with pytest.raises(ValueError, match="faulty"):
            await pages.asked_for("faulty")
        work.cancel()

    run_elsewhere(recorder, clicks)


@pytest.mark.slow
def test_the_page_in_a_browser_offers_choices(browser, server):
    from tests.report.conftest import Watched

    watched = Watched(browser, server.address)
    watched.page.wait_for_selector("input[name=column]")
    assert watched.said == []
    boxes = watched.page.locator("input[name=column]")
    assert boxes.count() == 4
    boxes.nth(0).uncheck()
    watched.page.locator("#splits").fill("2")
    watched.page.get_by_role("button", name="Compare").click()
    watched.page.wait_for_url("**splits=2**")
    watched.page.wait_for_selector("input[name=column]")
    assert not watched.page.locator("input[name=column]").nth(0).is_checked()
    assert watched.page.locator("header data").nth(1).inner_text() == "3"
    origin = server.address.split("/")[2]
    assert all(url.startswith(("data:", f"http://{origin}/")) for url in watched.asked)
    watched.page.close()


def test_a_page_that_takes_long_says_how_far_it_is(server):
    query = f"{server.path}?splits=40&model=knn"
    status, text = server.ask_once(query)
    assert status == 202
    assert '<meta http-equiv="refresh" content="1">' in text
    assert "Another comparison is running." in text or "<progress value=" in text
    seen = {text}
    while status == 202:
        status, text = server.ask_once(query)
        seen.add(text)
    assert status == 200
    assert any(re.search(r"split \d|Evidence \d|Learning curve", one) for one in seen)


@pytest.mark.parametrize("waits", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_ctrl_c_ends_it_at_once_in_one_line_even_in_the_midst_of_a_fit(table, waits):
    running = Server(table, explore_without_end)
    assert running.ask_once(running.path)[0] == 202
    with closing(http.client.HTTPConnection("127.0.0.1", running.port)) as connection:
        if waits:
            connection.request("GET", f"{running.path}?splits=3")
        code, errors = running.end()
    running.process.end()
    assert (code, errors) == (130, "stopped by the keyboard\n")
    with socket.create_server(("127.0.0.1", running.port)):
        pass  # the port is free again
