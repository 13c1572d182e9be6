r"""
The program ``binary-context``: its commands, their arguments and its errors.

A command is loaded when it is called: those that compute nothing start without torch.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

import botorch_binary_context
from botorch_binary_context.experiment.examples import EXAMPLES

PROGRAM = "binary-context"
#: The exit code of a process that was interrupted, as shells have it.
INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, as for all errors."""
        self.exit(2, f"{self.prog}: {_one_line(message)}\n")


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *rest: Any) -> NoReturn:
        """Look the version up when it is asked for."""
        print(PROGRAM, botorch_binary_context.__version__)
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    r"""Run a command.

    Args:
        argv: The arguments, by default those of the process.

    Returns:
        The exit code.
    """
    try:
        arguments = _make_parser().parse_args(argv)
        with _short_warnings():
            _load(arguments.command)(arguments)
        sys.stdout.flush()  # a full disk is to be noticed here, not at exit
    except KeyboardInterrupt:
        _complain("interrupted")
        return INTERRUPTED
    except Exception as error:
        if not _is_expected(error):
            raise
        _silence_broken_output()
        _complain(str(error))
        return 2
    return 0


def _load(command: str) -> Any:
    module, _, function = command.rpartition(".")
    return getattr(import_module(f"{__package__}.{module}"), function)


def _is_expected(error: Exception) -> bool:
    if isinstance(error, OSError):
        return True
    from botorch.exceptions.errors import BotorchError

    return isinstance(error, BotorchError)


def _complain(message: str) -> None:
    print(f"{PROGRAM}: {_one_line(message)}", file=sys.stderr)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _silence_broken_output() -> None:
    """Python tries to write what is left at exit; once is enough."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Show a warning as one line without the place in the source."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda message, *rest, **more: (
        f"{PROGRAM}: {_one_line(str(message))}\n"
    )
    try:
        yield
    finally:
        warnings.formatwarning = before


def _add_values(parser: _Parser, option: str, description: str) -> None:
    """An option that can be repeated."""
    parser.add_argument(
        option, metavar="NAME=VALUE", action="append", default=[], help=description
    )


def _make_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=PROGRAM, description="Run an experiment, trial by trial.")
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="show the version and exit"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(command: str, description: str, *names: str) -> _Parser:
        name = command.rpartition(".")[2].removesuffix("_")
        sub = commands.add_parser(name, help=description, description=description)
        for positional in names:
            sub.add_argument(positional)
        sub.set_defaults(command=command)
        return sub

    scripted = [
        new := add("beginning.new", "begin an experiment", "config"),
        ask := add("questions.ask", "get the next trial", "journal"),
        tell := add("answers.tell", "give the answer of a trial", "journal"),
        correct := add("answers.correct", "change an answer", "journal"),
        undo := add("answers.undo", "take back the last answer", "journal"),
        own := add("answers.add", "add a trial of one's own", "journal", "outcome"),
        notes := add("answers.describe_", "note or show what it is about", "journal"),
        add("answers.history", "show what happened", "journal"),
        withdraw := add("answers.withdraw", "give up a trial", "journal"),
        exclude := add("answers.exclude", "keep a trial from the model", "journal"),
        include := add("answers.include", "let the model use it again", "journal"),
        add("answers.status", "count trials, list pending ones", "journal"),
        advice := add("questions.recommend", "show the best parameters", "journal"),
        add("csv_files.import_", "add the trials of a CSV file", "journal", "file"),
        demo := add("questions.demo", "run an experiment with a simulated person"),
    ]
    scripted.append(serve := add("serving.serve", "show experiments in the browser"))
    scripted.append(aepsych := add("endpoint.aepsych", "answer AEPsych's clients"))
    aepsych.add_argument("journal", help="the file to make, or to continue")
    aepsych.add_argument("--port", type=int, default=5555, help="0 for any free one")
    aepsych.add_argument(
        "--config", help="AEPsych's configuration, if no client is to send one"
    )
    for sub in scripted:
        sub.add_argument("--json", action="store_true", help="print JSON, for scripts")
    new.add_argument("journal", nargs="?", help="the file to make")
    new.add_argument(
        "--example", choices=EXAMPLES, help="write a commented CONFIG to begin with"
    )
    for sub in (tell, correct, withdraw, exclude, include):
        sub.add_argument("id", type=int)
    for sub in (tell, correct):
        sub.add_argument(
            "outcome",
            help="pass or fail; of duels, first or second; or tie, a rating, sure-pass",
        )
    undo.add_argument("id", type=int, nargs="?", help="another answer than the last")
    notes.add_argument("notes", nargs="*", metavar="NAME=VALUE")
    own.add_argument("values", nargs="+", metavar="NAME=VALUE", help="what was shown")
    own.add_argument("--unused", action="store_true", help="keep it from the model")
    _add_values(tell, "--shown", "what was shown, if it was something else")
    for sub in (tell, own):
        sub.add_argument("--reaction-time", type=float, metavar="SECONDS")
        sub.add_argument("--rater", help="who answered")
    for sub in (new, tell, own):
        _add_values(sub, "--note", "anything to note, by a free name")
    ask.add_argument("-n", type=int, help="ask so many trials at once")
    _add_values(ask, "--context", "the value of a context that is given")
    _add_values(
        advice, "--context", "where to predict success; by default at the reference"
    )
    _add_values(advice, "--at", "other parameters to predict for; of a map, where")
    demo.add_argument("journal", nargs="?", help="a file to make and keep")
    demo.add_argument("--trials", type=int, default=50)
    demo.add_argument(
        "--page", action="store_true", help="show it in the browser, as an eye chart"
    )
    for sub in (demo, serve):
        sub.add_argument("--port", type=int, default=8765, help="0 for any free one")
        sub.add_argument("--open", action="store_true", help="open the browser")
    session = add("session.run", "ask trial after trial at a prompt")
    session.add_argument("journals", nargs="+", metavar="journal")
    session.add_argument("--trials", type=int, help="stop after so many answers")
    session.add_argument(
        "--order",
        choices=("turn", "random"),
        default="turn",
        help="how several experiments alternate",
    )
    _add_server_options(serve)
    add("questions.plot", "save a picture", "journal", "figure")
    export = add("csv_files.export", "write all trials as CSV", "journal")
    export.add_argument("file", nargs="?", help="by default the standard output")
    return parser


def _add_server_options(serve: argparse.ArgumentParser) -> None:
    serve.add_argument("journals", nargs="+", metavar="journal")
    serve.add_argument(
        "--page",
        choices=("eye", "duel", "plain"),
        help="what participants see; by default duel or plain, by the experiment",
    )
    serve.add_argument(
        "--optotypes",
        choices=("sloan", "landolt", "landolt4"),
        default="sloan",
        help="what the eye chart shows",
    )
    serve.add_argument(
        "--size", help="the context that is the size of the letters, in logMAR"
    )
    serve.add_argument("--files", help="a folder with images, sounds or own pages")
    serve.add_argument("--host", default="127.0.0.1", help="where to listen")
    serve.add_argument(
        "--allow-origin",
        metavar="ORIGIN",
        action="append",
        default=[],
        help="let pages of another server use the JSON interface",
    )
    serve.add_argument(
        "--tokens", metavar="FILE", help="keep the addresses in a file for next time"
    )
