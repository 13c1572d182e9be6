"""Run the session of the page "In the lab" and save what it prints and draws.

The commands are real, and a simulated person answers. ``python scripts/run_lab.py``
writes ``docs/_static/lab/``.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from botorch_binary_context.experiment import Experiment, Trial
from botorch_binary_context.experiment.cli import main
from botorch_binary_context.experiment.demo import simulated_person

OUTPUT = Path(__file__).resolve().parents[1] / "docs" / "_static" / "lab"
JOURNAL = "patient-7.journal"
NUM_TRIALS = 60
NUM_LINES = 6  # of the exported table


def run_command(command: str) -> str:
    """What a command prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        if main(command.split()) != 0:
            raise RuntimeError(command)
    return printed.getvalue()


@contextlib.contextmanager
def typing(words: Iterator[str]) -> Iterator[None]:
    """Type words in place of a person, and show them."""
    before = builtins.input

    def read(prompt: str) -> str:
        word = next(words)
        print(f"{prompt}{word}")
        return word

    builtins.input = read
    try:
        yield
    finally:
        builtins.input = before


def answer_until(number: int) -> None:
    """Ask the simulated person, in Python, up to a number of trials."""
    reads = simulated_person(seed=7)
    with Experiment.open(JOURNAL) as experiment:
        while len(experiment.trials) < number or _pending(experiment):
            waiting = _pending(experiment)
            trial = waiting[0] if waiting else experiment.ask()
            experiment.tell(trial.id, reads(trial))


def _pending(experiment: Experiment) -> list[Trial]:
    return [trial for trial in experiment.trials if trial.status == "pending"]


def save(name: str, text: str) -> None:
    """Save the output of a step."""
    (OUTPUT / f"{name}.txt").write_text(text, encoding="utf-8")


def run_session() -> None:
    """From the settings to the exported table."""
    run_command("new --example eye eye.toml")
    settings = Path("eye.toml").read_text(encoding="utf-8")
    Path("eye.toml").write_text(f"seed = 7\n{settings}", encoding="utf-8")
    run_command(f"new eye.toml {JOURNAL}")
    with typing(iter("pfufq")):
        save("run", run_command(f"run {JOURNAL}").lstrip())
    answer_until(12)
    save("status", run_command(f"status {JOURNAL}"))
    run_command(f"plot {JOURNAL} {OUTPUT / 'early.png'}")
    answer_until(NUM_TRIALS)
    run_command(f"plot {JOURNAL} {OUTPUT / 'late.png'}")
    save("recommend", run_command(f"recommend {JOURNAL}"))
    table = run_command(f"export {JOURNAL}").splitlines()
    save("export", "\n".join([*table[:NUM_LINES], "…"]) + "\n")


if __name__ == "__main__":
    OUTPUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run_session()
