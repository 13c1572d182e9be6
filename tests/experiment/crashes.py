r"""
Kills running experiments, and looks at what is left: ``python -m`` this module.

One process imports everything and forks; each child works on a journal until it is
killed. The process has one thread, which forking needs. It prints a line of JSON.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import torch
from botorch.exceptions import InputDataError

from botorch_binary_context.experiment import Experiment, Trial
from tests.experiment.simulation import FIXED, MIXED, answer, pass_fail, unmodeled


def work(path: Path, report: Callable[[str], None]) -> None:
    """What a person does after a crash: answer what is pending, then go on."""
    with Experiment.open(path) as experiment:
        report("open")
        while True:
            pending = [t for t in experiment.trials if t.status == "pending"]
            trial = pending[0] if pending else experiment.ask()
            report(f"asked {trial.id}")
            outcome = int(answer(trial))
            report(f"telling {trial.id} {outcome}")
            try:
                experiment.tell(trial.id, outcome)
            except InputDataError:  # another process was quicker
                report(f"refused {trial.id}")
                continue
            report(f"told {trial.id} {outcome}")


def fork(path: Path) -> tuple[int, int]:
    """A child at work: its process id, and where its reports can be read."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            work(path, lambda line: _write(writer, line))
        finally:
            os._exit(1)
    os.close(writer)
    return child, reader


def _write(writer: int, line: str) -> None:
    os.write(writer, f"{line}\n".encode())


def kill(child: int, reader: int, num_reports: int, delay: float) -> list[list[str]]:
    """End a child some time after so many reports; the words of all of them."""
    with os.fdopen(reader, "rb") as file:
        lines = [file.readline() for _ in range(num_reports)]
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "the child ended by itself"
        lines += file.readlines()
    return [line.decode().split() for line in lines]


def check(path: Path, reports: Iterable[list[str]]) -> int:
    """What must hold after a crash; the number of answers."""
    told, telling, asked = {}, {}, set()
    for kind, *numbers in reports:
        if kind == "asked":
            asked.add(int(numbers[0]))
        elif kind == "told":
            assert int(numbers[0]) not in told, "a trial was answered twice"
            told[int(numbers[0])] = int(numbers[1])
        elif kind == "telling":
            telling[int(numbers[0])] = int(numbers[1])
    with Experiment.open(path) as experiment:
        trials = {t.id: t for t in experiment.trials}
        answered = {i: t.outcome for i, t in trials.items() if t.status == "answered"}
        assert told.items() <= answered.items(), "an answer was lost"
        assert answered.items() <= telling.items(), "an answer came from nowhere"
        assert asked <= set(trials), "a question was lost"
        assert sorted(trials) == list(range(1, len(trials) + 1))
        for trial_id in list(answered)[-2:]:
            try:
                experiment.tell(trial_id, 1)
            except InputDataError:
                continue
            raise AssertionError("a trial was answered twice")
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT position FROM trials WHERE outcome IS NOT NULL ORDER BY 1"
        positions = [row[0] for row in connection.execute(query)]
    assert positions == list(range(1, len(answered) + 1)), "an answer counts twice"
    return len(answered)


def check_copy(path: Path, reports: Iterable[list[str]]) -> bool:
    """A copy of the one file has every answer; False if it was being written just then.

    In that moment SQLite keeps a second file, from which it restores the first one.
    """
    being_written = path.with_name(f"{path.name}-journal").exists()
    copy = Path(shutil.copy(path, path.with_name(f"{path.name}-copied")))
    try:
        with Experiment.open(copy) as experiment:
            answered = {t.id: t.outcome for t in experiment.trials}
    except InputDataError:
        assert being_written, "a copy cannot be read"
        return False
    told = {int(i): int(outcome) for kind, i, outcome in _with_outcome(reports, "told")}
    assert told.items() <= answered.items(), "an answer is not in the copy"
    return True


def _with_outcome(reports: Iterable[list[str]], kind: str) -> list[list[str]]:
    return [words for words in reports if words[0] == kind]


def crash_again_and_again(path: Path, times: int, delay: float) -> dict[str, int]:
    """Kill at random moments, and look each time."""
    moments = random.Random(0)
    reports: list[list[str]] = []
    last: Counter[str] = Counter()
    answers = copies = 0
    for _ in range(times):
        child, reader = fork(path)
        new = kill(child, reader, moments.randint(1, 7), delay * moments.random())
        last[new[-1][0]] += 1
        reports += new
        copies += check_copy(path, reports)
        answers = check(path, reports)
    return {"crashes": times, "answers": answers, "copies": copies, **last}


def work_side_by_side(path: Path, num_reports: int) -> dict[str, int]:
    """Two processes on one journal, which get in each other's way."""
    children = [fork(path), fork(path)]
    reports = [kill(child, reader, num_reports, 0.0) for child, reader in children]
    by_each = [sum(words[0] == "told" for words in r) for r in reports]
    answers = check(path, [words for r in reports for words in r])
    return {"answers": answers, "least": min(by_each)}


def rate_together(path: Path, raters: int, num_trials: int) -> dict[str, Any]:
    """Several processes ask and tell as fast as they can, until there are enough."""
    children = [_fork_rater(path, str(i), num_trials) for i in range(raters)]
    slowest = 0.0
    for child, reader in children:
        with os.fdopen(reader) as file:
            slowest = max(slowest, *(float(line) for line in file))
        _, status = os.waitpid(child, 0)
        assert status == 0, "a rater failed"
    with Experiment.open(path) as experiment:
        trials = experiment.trials
    for trial in trials:
        at_once = [t for t in trials if trial.asked_at < t.asked_at < _end(trial)]
        assert trial.values not in [t.values for t in at_once], "asked twice at a time"
    counts = Counter(trial.rater for trial in trials)
    return {
        "answers": sum(trial.status == "answered" for trial in trials),
        "least": min(counts[str(i)] for i in range(raters)),
        "slowest_tell": slowest,
    }


def _end(trial: Trial) -> str:
    return trial.closed_at or "9"


def _fork_rater(path: Path, name: str, num_trials: int) -> tuple[int, int]:
    """A child that reports how long each answer took."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            with Experiment.open(path) as experiment:
                while len(experiment.trials) < num_trials:
                    trial = experiment.ask(rater=name)
                    start = time.perf_counter()
                    experiment.tell(trial.id, answer(trial))
                    _write(writer, f"{time.perf_counter() - start}")
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writer)
    return child, reader


def create_again_and_again(folder: Path, times: int) -> dict[str, int]:
    """Kill processes while they create journals: there is a whole one or none."""
    moments = random.Random(1)
    usual = min(_time_creation(folder / f"created-at-leisure-{i}") for i in range(3))
    made = 0
    for i in range(times):
        path = folder / f"created-{i}"
        child = _fork_creator(path)
        time.sleep(2 * usual * moments.random())
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if path.exists():
            made += 1
            Experiment.open(path).close()
        else:  # nothing is in the way
            Experiment.create(path, unmodeled()).close()
    return {"made": made, "times": times}


def _time_creation(path: Path) -> float:
    start = time.perf_counter()
    os.waitpid(_fork_creator(path), 0)
    return time.perf_counter() - start


def _fork_creator(path: Path) -> int:
    """A child that creates a journal."""
    child = os.fork()
    if child == 0:
        try:
            Experiment.create(path, unmodeled())
        finally:
            os._exit(0)
    return child


def main(folder: Path) -> None:
    """Run everything in a folder."""
    torch.set_num_threads(1)
    settings = {
        "early": unmodeled(),
        "modelled": pass_fail(initial_trials=2),
        "shared": unmodeled(),
        "rated": pass_fail(MIXED, initial_trials=10, hyperparameters=FIXED),
    }
    paths = {name: folder / name for name in settings}
    for name, path in paths.items():
        Experiment.create(path, settings[name]).close()
    results = {
        "early": crash_again_and_again(paths["early"], 40, delay=0.01),
        "modelled": crash_again_and_again(paths["modelled"], 6, delay=0.2),
        "shared": work_side_by_side(paths["shared"], 60),
        "rated": rate_together(paths["rated"], 5, 30),
        "created": create_again_and_again(folder, 30),
    }
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
