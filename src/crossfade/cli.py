"""The command line: commands assembled, errors turned into one line and an exit code.

Exit codes: 0 done; 1 a fault of the program; 2 an input that cannot be used; 130 stopped by
Ctrl-C; 141 the output was closed; 143 terminated. A traceback is shown only with the environment
variable ``CROSSFADE_DEBUG=1``.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, Final, NoReturn

from crossfade._optional import EXTRAS, missing_extra
from crossfade.commands.stopping import STOPPED_CODE, Watch, watched

#: Commands, each a function of this name in a module of :mod:`crossfade.commands`, in a few words
#: (None: the first sentence of its docstring). They import what is heavy inside the function, so
#: that ``--help`` stays quick.
_COMMANDS: Final = {
    "compare": "Find out which classifier fits a table, and how sure that is.",
    "curve": "Show how models improve with the number of labelled rows.",
    "fit": None,
    "predict": "Predict the class of each row, with probabilities.",
    "explain": "Show a model's coefficients, or what each column adds to a row's prediction.",
    "export": "Write a model as ONNX or as plain coefficients.",
    "explore": "Look at a comparison in the browser, and change it.",
    "glm": "Fit a generalised linear model, with errors and tests.",
    "tag": "Learn tags from one column file, and tag another.",
}

#: Exit code as a shell has it: 128 and the signal's number.
_CLOSED_PIPE: Final = 141


def build_app(wanted: str | None = None) -> Any:
    """Return the typer application with every command, or with the one that is wanted."""
    import typer

    app = typer.Typer(
        help="Choose, fit and trust a probabilistic classifier: generative, discriminative, and "
        "everything between.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def common(
        version: bool = typer.Option(
            False, "--version", help="Show the version and exit.", is_eager=True, callback=_version
        ),
    ) -> None:
        pass

    for name in [wanted] if wanted in _COMMANDS else _COMMANDS:
        command = getattr(import_module(f"crossfade.commands.{name}"), name)
        app.command(name, short_help=_COMMANDS[name])(command)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        import typer

        from crossfade import __version__

        typer.echo(f"crossfade {__version__}")
        raise typer.Exit


def main(
    arguments: Sequence[str] | None = None,
    build: Callable[[], Any] | None = None,
    name: str = "crossfade",
) -> NoReturn:
    """Run the command line, or another typer application in its manners, and exit."""
    if build is None:
        # Typer takes its time to look at the options of a command: not at those of all the others.
        build = partial(build_app, *(sys.argv[1:] if arguments is None else arguments)[:1])
    # A terminal that cannot show λ or ± gets a question mark, not a traceback.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    early: SystemExit | None = None
    with watched() as watch, _warnings_for_people():
        try:
            code = _flushed(_run(arguments, build, name, watch))
        except SystemExit as exit_:
            early = exit_
    # Asked when the watch has ended: the work may end before it has read that a signal came.
    if watch.code:
        # Threads and processes that are still at work would be waited for.
        sys.stderr.flush()
        os._exit(code if early is None else watch.code)
    if early is not None:
        raise early
    sys.exit(code)


@contextmanager
def _warnings_for_people() -> Iterator[None]:
    """Let a warning that reaches stderr be one line, without the place in the program."""
    before: Any = warnings.formatwarning
    warnings.formatwarning = lambda message, *place: f"warning: {one_line(str(message))}\n"
    try:
        yield
    finally:
        warnings.formatwarning = before


def _flushed(code: int) -> int:
    """Write what stdout still holds; return the exit code."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _CLOSED_PIPE
    except OSError as error:
        code = code or _fail(f"stdout: {error.strerror}", 2, error)
        _forget_output()
    if code == _CLOSED_PIPE:
        _forget_output()
    return code


def _forget_output() -> None:
    """Let Python not complain once more, at its end, of a stdout that takes nothing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: Sequence[str] | None, build: Callable[[], Any], name: str, watch: Watch) -> int:
    try:
        app = build()
        code = app(args=arguments, prog_name=name, standalone_mode=False)
        if code != STOPPED_CODE:
            return code if isinstance(code, int) else 0
    except BrokenPipeError:
        return _CLOSED_PIPE
    except KeyboardInterrupt:
        pass
    except Exception as error:
        # Which exception Ctrl-C is, or the code, depends on typer; libraries may make any other one
        # of it, or of termination.
        if watch.code not in (0, STOPPED_CODE):
            return watch.code
        if not watch.code and type(error).__name__ != "Abort":
            return _tell(error, name)
    watch.tell()
    return STOPPED_CODE


def _tell(error: Exception, name: str) -> int:
    """Say what went wrong and return the exit code."""
    # Newer versions of typer carry click inside, older ones import it: its kinds by their names.
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "NoArgsIsHelpError" in kinds:
        print(error)
        return 2
    if "ClickException" in kinds:
        usage: Any = error
        command = getattr(getattr(error, "ctx", None), "command_path", name)
        told = usage.format_message().replace("Value error, ", "")
        return _fail(f"{told} (see {command} --help)", 2)
    if "ClosedPipeError" in kinds:
        return _CLOSED_PIPE
    if isinstance(error, (ValueError, OSError)) or "MissingExtraError" in kinds:
        return _fail(_describe(error), 2, error)
    if isinstance(error, ImportError) and error.name in EXTRAS:
        return _fail(missing_extra(error.name, "the command line"), 2, error)
    return _unexpected(error)  # the last resort of a program that people see


def _describe(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror}"
    return str(error) or type(error).__name__


def _unexpected(error: Exception) -> int:
    text = f"{type(error).__name__}: {error}"
    hint = "this is a fault of crossfade; CROSSFADE_DEBUG=1 shows where"
    return _fail(f"{text} ({hint})", 1, error)


def _fail(message: str, code: int, error: Exception | None = None) -> int:
    """Say what went wrong in one line on stderr and return the exit code."""
    if error is not None and os.environ.get("CROSSFADE_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    print(f"error: {one_line(message)}", file=sys.stderr)
    return code


def one_line(message: str) -> str:
    """Return text without line breaks or control characters, shortened in its middle if long."""
    text = " ".join("".join(c if c.isprintable() else " " for c in message).split())
    return text if len(text) <= 600 else f"{text[:300]} … {text[-300:]}"


if __name__ == "__main__":
    main()
