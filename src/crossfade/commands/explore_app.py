"""A small application that serves the page of one table, for one person on this machine."""

from __future__ import annotations

import asyncio
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final

import narwhals.stable.v2 as nw
import numpy as np

from crossfade._optional import import_optional
from crossfade._typing import Floats
from crossfade.charts.theme import shown
from crossfade.commands.output import console
from crossfade.commands.tables import OpenTable
from crossfade.comparison import compare
from crossfade.comparison.models import SHORT_NAMES
from crossfade.comparison.problem import ComparisonTask, read_problem
from crossfade.comparison.results import ComparisonResult, Status
from crossfade.errors import DataError
from crossfade.report.figures import LABELS, METRICS
from crossfade.report.page import check_installed, render_message, render_page

_FIRST_MODELS: Final = ("nb", "majority")
_FIRST_SPLITS: Final = 5
_MOST_SPLITS: Final = 100

#: Pages that are kept: going back costs nothing.
_MOST_PAGES: Final = 20

#: Seconds that a request waits for its page before it is answered with how far the work is.
_PATIENCE: Final = 0.5

#: Seconds after which nobody waits for a page: one that is waited for is asked for every second.
_UNREAD: Final = 5.0

#: Seconds between two looks whether a page under way is still waited for.
_LOOK_SECONDS: Final = 0.5

#: Seconds that a connection has for the header of its request.
_HEADER_SECONDS: Final = 10.0

#: Seconds between two pictures of the table of a comparison under way.
_TABLE_SECONDS: Final = 0.8

_HEADERS: Final = {
    "Connection": "close",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "frame-ancestors 'none'",
}


@dataclass(frozen=True)
class PageChoice:
    """What a person asked to see.

    `columns`, `classes`: Their numbers; empty for all.
    `models`: Short names.
    """

    columns: tuple[int, ...]
    classes: tuple[int, ...]
    models: tuple[str, ...]
    criterion: str
    splits: int

    @classmethod
    def read(cls, query: Any, with_costs: bool = False) -> PageChoice:
        """Return the choice that the address's query spells, where decisions have costs or not."""
        models = tuple(dict.fromkeys(query.getlist("model"))) or _FIRST_MODELS
        criterion = query.get("criterion", "cost" if with_costs else "log_loss")
        criteria = LABELS if with_costs else METRICS
        for name, known in [*((m, SHORT_NAMES) for m in models), (criterion, criteria)]:
            if name not in known:
                raise DataError(f"expected one of {', '.join(known)}, got {shown(name)!r}")
        splits = _whole("splits", query.get("splits", str(_FIRST_SPLITS)))
        if not 2 <= splits <= _MOST_SPLITS:
            raise DataError(f"splits: expected 2 to {_MOST_SPLITS}, got {splits}")
        return cls(
            tuple(sorted({_whole("column", text) for text in query.getlist("column")})),
            tuple(sorted({_whole("class", text) for text in query.getlist("class")})),
            models,
            criterion,
            splits,
        )


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise DataError(f"{name}: expected a whole number, got {shown(text)!r}")
    return int(text)


@dataclass
class Explorer:
    """Makes pages of one table.

    `cost`: What decisions cost, as in :func:`~crossfade.comparison.compare`.
    `problem`: The table, checked.
    `doing`: Which page is being made: steps done, steps in all, what comes now.
    `so_far`: When its table was last taken down, and that table.
    """

    table: OpenTable
    random_state: int
    cost: Any = None
    problem: ComparisonTask = field(init=False)
    doing: tuple[PageChoice, int, int, str] | None = None
    so_far: tuple[float, ComparisonResult] | None = None

    def __post_init__(self) -> None:
        self.problem = read_problem(self.table.X, self.table.y, self.cost)

    def read(self, query: Any) -> PageChoice:
        """Return the choice that an address's query spells."""
        return PageChoice.read(query, with_costs=self.problem.evaluator.costs is not None)

    def page(self, choice: PageChoice, is_wanted: Callable[[], bool] = lambda: True) -> str:
        """Return the page of a choice; Abandoned where it is not wanted any longer."""

        def watch(status: Status) -> None:
            if not is_wanted():
                raise Abandoned
            left = status.seconds_left
            time = "" if left is None else f", at most {left:.0f} s left"
            self.doing = (choice, status.done, status.total, f"{status.doing}{time}")
            # By the thread that fills the table: nobody else may read it meanwhile.
            if self.so_far is None or monotonic() - self.so_far[0] > _TABLE_SECONDS:
                found = status.partial()
                if found is not None:
                    self.so_far = monotonic(), found

        self.so_far = None
        self.doing = (choice, 0, 1, "reading the table")
        try:
            X, y = self._part(choice)
            result = compare(
                X,
                y,
                models=choice.models,
                n_splits=choice.splits,
                criterion=choice.criterion,
                cost=self._costs(choice),
                random_state=self.random_state,
                watch=watch,
            )
            return render_page(result, self.table, controls=self._controls(choice))
        finally:
            if is_wanted():  # else the next page is under way already
                self.doing = self.so_far = None

    def waiting(self, choice: PageChoice) -> str:
        """Return the page that is shown until that of a choice is made."""
        of, done, total, text = self.doing or (None, 0, 1, "")
        so_far = self.so_far
        if of != choice:
            so_far = None
            done, total, text = 0, 1, "another comparison is running"
        heading = f"Comparing {shown(Path(self.table.name).name, 80)}"
        text = shown(text[:1].upper() + text[1:], 200)
        table = None if so_far is None else so_far[1]
        return render_message(heading, f"{text}.", progress=(done, total), so_far=table)

    def _part(self, choice: PageChoice) -> tuple[Any, Any]:
        """Return the chosen rows and columns of the table, and their labels."""
        evaluator = self.problem.evaluator
        X, y = evaluator.X, evaluator.y
        n_columns, n_classes = self.problem.data.n_columns, len(evaluator.classes)
        if choice.classes:
            if max(choice.classes) >= n_classes or len(choice.classes) < 2:
                raise DataError(f"classes: expected two or more of the numbers below {n_classes}")
            rows = np.flatnonzero(np.isin(evaluator.codes, choice.classes))
            X, y = evaluator.rows(rows), y[rows]
        if choice.columns:
            if max(choice.columns) >= n_columns:
                raise DataError(f"columns: expected numbers below {n_columns}")
            if isinstance(X, np.ndarray):
                X = X[:, list(choice.columns)]
            else:
                names = [self.problem.table.schema.names[j] for j in choice.columns]
                X = nw.from_native(X, eager_only=True).select(names).to_native()
        return X, y

    def _costs(self, choice: PageChoice) -> Floats | None:
        """Return what decisions among the chosen classes cost."""
        costs: Floats | None = self.problem.evaluator.costs
        if costs is None or not choice.classes:
            return costs
        return costs[np.ix_(choice.classes, choice.classes)]

    def _controls(self, choice: PageChoice) -> dict[str, Any]:
        """Return what the page's form offers, and what of it is chosen."""
        data = self.problem.data
        criteria = METRICS if self.problem.evaluator.costs is None else LABELS
        return {
            "columns": _options(data.column_names, choice.columns),
            "classes": _options(data.classes, choice.classes),
            "models": [(key, name, key in choice.models) for key, name in SHORT_NAMES.items()],
            "criteria": [(key, name, key == choice.criterion) for key, name in criteria.items()],
            "splits": choice.splits,
            "most_splits": _MOST_SPLITS,
        }


def _options(names: tuple[str, ...], chosen: tuple[int, ...]) -> list[tuple[int, str, bool]]:
    return [(j, shown(name), not chosen or j in chosen) for j, name in enumerate(names)]


@dataclass
class Making:
    """A page under way."""

    choice: PageChoice
    given_up: bool = False


class Pages:
    """Pages made one after the other: the latest choice first, and none that nobody waits for."""

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer
        self._pages: dict[PageChoice, asyncio.Future[str]] = {}
        self._asked: dict[PageChoice, float] = {}
        self._queue: list[PageChoice] = []  # the latest last
        self._woken = asyncio.Event()

    def asked_for(self, choice: PageChoice) -> asyncio.Future[str]:
        """Return the page of a choice, which will be made where it is not."""
        self._asked[choice] = monotonic()
        if choice not in self._pages:
            self._pages[choice] = asyncio.get_running_loop().create_future()
            # Nobody may come back for it; its error is then nobody's.
            self._pages[choice].add_done_callback(lambda page: page.cancelled() or page.exception())
            self._queue.append(choice)
            self._woken.set()
        return self._pages[choice]

    async def work(self) -> None:
        """Make pages for as long as this runs."""
        from anyio import to_thread

        while True:
            await self._woken.wait()
            self._woken.clear()
            while (choice := self._next()) is not None:
                making = Making(choice)
                wanted = partial(self._is_wanted, making)
                make = partial(self._explorer.page, choice, wanted)
                page = self._pages[choice]
                made = asyncio.create_task(to_thread.run_sync(make, abandon_on_cancel=True))
                try:
                    # A long fit says nothing of itself: it is left behind, and ends at its end.
                    while not (await asyncio.wait([made], timeout=_LOOK_SECONDS))[0]:
                        if not wanted():
                            raise Abandoned
                    page.set_result(made.result())
                except Abandoned:
                    self.forget(choice)
                except Exception as error:
                    page.set_exception(error)
                finally:
                    making.given_up = True
                    made.cancel()
                kept = [one for one, page in self._pages.items() if page.done()]
                for one in kept[: max(0, len(kept) - _MOST_PAGES)]:
                    self.forget(one)

    def _next(self) -> PageChoice | None:
        """Return the latest choice that somebody waits for; the others are forgotten."""
        while self._queue:
            choice = self._queue.pop()
            if monotonic() - self._asked[choice] < _UNREAD:
                return choice
            self.forget(choice)
        return None

    def _is_wanted(self, making: Making) -> bool:
        """Return whether a page under way is to be made to its end."""
        if making.given_up:
            return False
        return not self._queue or monotonic() - self._asked[making.choice] < _UNREAD

    def forget(self, choice: PageChoice) -> None:
        """Make the page of a choice anew when it is next asked for."""
        if (page := self._pages.pop(choice, None)) is not None:
            page.cancel()


class Abandoned(Exception):
    """Nobody waits for a page any longer, and somebody waits for another."""


def application(
    explorer: Explorer, token: str, hosts: list[str], announce: Callable[[], None]
) -> Any:
    """Return the ASGI application: one page below a secret path, read only."""
    from starlette.applications import Starlette
    from starlette.datastructures import QueryParams
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, Response
    from starlette.routing import Route

    pages = Pages(explorer)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        pages.asked_for(explorer.read(QueryParams()))  # what is asked for first
        work = asyncio.create_task(pages.work())
        announce()
        yield
        work.cancel()

    def answer(text: str, code: int = 200) -> Response:
        return HTMLResponse(text, status_code=code, headers=_HEADERS)

    async def page(request: Request) -> Response:
        if not secrets.compare_digest(request.path_params["token"].encode(), token.encode()):
            return answer(render_message("There is nothing here", _WRONG_TOKEN), 404)
        try:
            choice = explorer.read(request.query_params)
            made = pages.asked_for(choice)
            if not (await asyncio.wait([made], timeout=_PATIENCE))[0] or made.cancelled():
                return answer(explorer.waiting(choice), 202)
            if made.exception() is not None:  # reported once; whoever asks again tries again
                pages.forget(choice)
            return answer(made.result())
        except ValueError as error:
            return answer(render_message("This cannot be shown", str(error)), 400)
        except Exception as error:  # the last resort of a program that people see
            text = f"{type(error).__name__}: {error} (this is a fault of crossfade)"
            print(f"error: {shown(text, 600)}", file=sys.stderr)
            return answer(render_message("This went wrong", text), 500)

    return Starlette(
        routes=[Route("/{token}/", page, methods=["GET"])],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts)],
        lifespan=lifespan,
    )


_WRONG_TOKEN: Final = "Use the whole address that crossfade explore printed."


def serve(table: OpenTable, *, host: str, port: int, random_state: int, cost: Any = None) -> None:
    """Serve the page until Ctrl-C, and print where."""
    import_optional("starlette", "crossfade explore")  # missed before the table is read
    uvicorn = import_optional("uvicorn", "crossfade explore")
    check_installed()
    explorer = Explorer(table, random_state, cost)
    listener = socket.create_server((host, port), family=_family(host))
    token = secrets.token_urlsafe(24)
    hosts = ["127.0.0.1", "localhost", "[::1]", host]
    address = f"[{host}]" if ":" in host else host

    def announce() -> None:
        out = console()
        out.print(f"http://{address}:{listener.getsockname()[1]}/{token}/", soft_wrap=True)
        out.print("Open it in a browser on this machine; press Ctrl-C to stop.", style="dim")

    app = application(explorer, token, ["*"] if host in ("0.0.0.0", "::") else hosts, announce)
    # Of what the server says, nothing is for people.
    config = uvicorn.Config(
        app,
        http=_protocol(),
        log_level="critical",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    with listener:
        _server(config).run(sockets=[listener])


def _server(config: Any) -> Any:
    """Return a server that leaves Ctrl-C to the command line."""
    import uvicorn

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    return Server(config)


def _protocol() -> Any:
    """Return the server's side of a connection, which waits for one request and not for long."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Protocol(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.loop.call_later(_HEADER_SECONDS, self._end_idle)

        def _end_idle(self) -> None:
            if self.cycle is None:
                self.transport.close()

    return Protocol


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
