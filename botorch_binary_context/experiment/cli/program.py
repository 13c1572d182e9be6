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
from botorch_binary_context.errors import is_expected, light_errors
from botorch_binary_context.experiment.examples import EXAMPLES

PROGRAM = "binary-context"
#: The exit code of a process that was interrupted, as in shells.
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


def run(argv: Sequence[str] | None = None) -> int:
    r"""Run a command.

    Args:
        argv: The arguments, by default those of the process.

    Returns:
        The exit code.
    """
    try:
        arguments = _make_parser().parse_args(argv)
        with _short_warnings(), light_errors():
            _load(arguments.command)(arguments)
        sys.stdout.flush()  # notice a full disk here, not at exit
    except KeyboardInterrupt:
        _complain("interrupted")
        return INTERRUPTED
    except Exception as error:
        if not (isinstance(error, OSError) or is_expected(error)):
            raise
        _silence_broken_output()
        _complain(str(error))
        return 2
    return 0


def _load(command: str) -> Any:
    module, _, function = command.rpartition(".")
    return getattr(import_module(f"{__package__}.{module}"), function)


def _complain(message: str) -> None:
    print(f"{PROGRAM}: {_one_line(message)}", file=sys.stderr)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _silence_broken_output() -> None:
    """Keep Python from trying to write the rest again at exit."""
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


class _Commands:
    """Adds the commands to a parser, one by one."""

    def __init__(self, parser: _Parser) -> None:
        self._commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(self, command: str, description: str, *names: str) -> _Parser:
        """Add a command with positional arguments, run by a function of a module."""
        name = command.rpartition(".")[2].removesuffix("_")
        sub = self._commands.add_parser(name, help=description, description=description)
        for positional in names:
            sub.add_argument(positional)
        sub.set_defaults(command=command)
        return sub

    def add_scripted(self, command: str, description: str, *names: str) -> _Parser:
        """Add a command that prints JSON if it is asked to."""
        sub = self.add(command, description, *names)
        sub.add_argument("--json", action="store_true", help="print JSON, for scripts")
        return sub


def _make_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=PROGRAM, description="Run an experiment, trial by trial.")
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="show the version and exit"
    )
    commands = _Commands(parser)
    _add_beginning(commands)
    _add_answers(commands)
    _add_changes(commands)
    _add_questions(commands)
    _add_files(commands)
    _add_pages(commands)
    return parser


def _add_beginning(commands: _Commands) -> None:
    new = commands.add_scripted("beginning.new", "begin an experiment", "config")
    new.add_argument("journal", nargs="?", help="the file to make")
    new.add_argument(
        "--example", choices=EXAMPLES, help="write a CONFIG with comments to start from"
    )
    _add_values(new, "--note", "a note under a name of your choice")
    session = commands.add("session.run", "ask trial after trial at a prompt")
    session.add_argument("journals", nargs="+", metavar="journal")
    session.add_argument("--trials", type=int, help="stop after this many answers")
    session.add_argument(
        "--order",
        choices=("turn", "random"),
        default="turn",
        help="how several experiments alternate",
    )
    ask = commands.add_scripted("questions.ask", "get the next trial", "journal")
    ask.add_argument("-n", type=int, help="how many trials to get at once")
    _add_values(ask, "--context", "the value of a context that is given")


def _add_answers(commands: _Commands) -> None:
    tell = commands.add_scripted(
        "answers.tell", "give the answer of a trial", "journal"
    )
    tell.add_argument("id", type=int)
    _add_outcome(tell)
    _add_values(tell, "--shown", "what was shown, if it was something else")
    own = commands.add_scripted(
        "answers.add", "add a trial that was not asked for", "journal", "outcome"
    )
    own.add_argument("values", nargs="+", metavar="NAME=VALUE", help="what was shown")
    own.add_argument(
        "--unused",
        action="store_true",
        help="record it, but do not let the model use it",
    )
    for sub in (tell, own):
        _add_infeasible(sub)
        sub.add_argument("--reaction-time", type=float, metavar="SECONDS")
        sub.add_argument("--rater", help="who answered")
        _add_values(sub, "--note", "a note under a name of your choice")


def _add_outcome(parser: _Parser) -> None:
    parser.add_argument(
        "outcome",
        help="pass or fail, or first or second of a duel; tie, a rating, or sure-pass",
    )


def _add_infeasible(parser: _Parser) -> None:
    parser.add_argument(
        "--infeasible",
        action="append",
        metavar="NAME",
        help="also report what was not feasible, in a duel on which side (repeatable)",
    )


def _add_changes(commands: _Commands) -> None:
    correct = commands.add_scripted("answers.correct", "change an answer", "journal")
    correct.add_argument("id", type=int)
    _add_outcome(correct)
    _add_infeasible(correct)
    undo = commands.add_scripted("answers.undo", "take back the last answer", "journal")
    undo.add_argument(
        "id", type=int, nargs="?", help="of an answer other than the last"
    )
    for command, description in (
        ("answers.withdraw", "give up a trial"),
        ("answers.exclude", "exclude a trial from the model"),
        ("answers.include", "let the model use an excluded trial"),
    ):
        sub = commands.add_scripted(command, description, "journal")
        sub.add_argument("id", type=int)
    notes = commands.add_scripted(
        "answers.describe_", "show or change the notes", "journal"
    )
    notes.add_argument("notes", nargs="*", metavar="NAME=VALUE")


def _add_questions(commands: _Commands) -> None:
    commands.add_scripted("answers.history", "show what happened", "journal")
    commands.add_scripted(
        "answers.status", "count trials, list pending ones, show progress", "journal"
    )
    advice = commands.add_scripted(
        "questions.recommend", "show the best parameters", "journal"
    )
    _add_values(
        advice, "--context", "where to predict success; by default at the reference"
    )
    _add_values(
        advice,
        "--at",
        "other parameters to predict for, or the part of the map to report",
    )


def _add_files(commands: _Commands) -> None:
    commands.add("questions.plot", "save a picture", "journal", "figure")
    export = commands.add("csv_files.export", "write all trials as CSV", "journal")
    export.add_argument("file", nargs="?", help="by default the standard output")
    commands.add_scripted(
        "csv_files.import_", "add the trials of a CSV file", "journal", "file"
    )


def _add_pages(commands: _Commands) -> None:
    demo = commands.add_scripted(
        "questions.demo", "run an experiment with a simulated person"
    )
    demo.add_argument("journal", nargs="?", help="a file to make and keep")
    demo.add_argument("--trials", type=int, default=50)
    demo.add_argument(
        "--page", action="store_true", help="show it in the browser, as an eye chart"
    )
    serve = commands.add_scripted("serving.serve", "show experiments in the browser")
    for sub in (demo, serve):
        sub.add_argument("--port", type=int, default=8765, help="0 for any free one")
        sub.add_argument("--open", action="store_true", help="open the browser")
    _add_server_options(serve)
    aepsych = commands.add_scripted("endpoint.aepsych", "answer AEPsych's clients")
    aepsych.add_argument("journal", help="the file to make, or to continue")
    aepsych.add_argument("--port", type=int, default=5555, help="0 for any free one")
    aepsych.add_argument(
        "--config", help="AEPsych's configuration, if no client sends one"
    )


def _add_server_options(serve: argparse.ArgumentParser) -> None:
    serve.add_argument("journals", nargs="+", metavar="journal")
    serve.add_argument(
        "--page",
        choices=("eye", "duel", "plain"),
        help="what participants see; by default duel or plain, as the experiment needs",
    )
    serve.add_argument(
        "--optotypes",
        choices=("sloan", "landolt", "landolt4"),
        default="sloan",
        help="what the eye chart shows",
    )
    serve.add_argument(
        "--size", help="the context that sets the letter size, in logMAR"
    )
    serve.add_argument(
        "--files", help="a folder with images, sounds or pages of your own"
    )
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
