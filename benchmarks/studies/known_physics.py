r"""
``python -m benchmarks run questplus``: examiners who know the physics of lenses.

Limits to compare with. QUEST+ knows how every lens blurs, how steep the patient's
psychometric function is, what acuity the best lens gives and how strong prescriptions
are at most, and has to find the prescription alone. The examiner of
:mod:`benchmarks.studies.law_examiner` has an exact posterior, too, but knows neither
the slope nor the acuity (``law``); nor, beginning with five random letters, how strong
prescriptions are (``law, whole box``). Then it knows what the package's model
``acuity`` knows, and that lenses follow the law exactly. The patients are those of
``fresh-refraction-anywhere``. QUEST+ is that of the package ``questplus``, which is
looked for in ``.venv/peers``, where ``make test`` puts it.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
import torch

from benchmarks.studies import fresh, refraction, store
from benchmarks.studies.blurred_letters import lost_acuity, success_probability
from benchmarks.studies.experiment import derive_seed
from benchmarks.studies.law_examiner import LawExaminer, Lens, Letter
from benchmarks.studies.report_file import read_conclusions, write_sections
from benchmarks.tables import format_mean, format_table
from botorch_binary_context.problems.refraction import LETTER_SIZES, MAX_POWER

NAME = "questplus"
#: The tasks: the number of alternatives, and the slope of the patients.
TASKS = ((26, 5.0), (2, 5.0), (26, 2.0))
TASK = ("alternatives", "slope")  # their columns
PATIENTS = 40
LETTERS = 100
CHECKPOINTS = (30, 60, 100)
RANDOM_TRIALS = 5  # with which the package's rules begin
# The grids: letter sizes, lenses to look through, and possible prescriptions.
SIZES = np.arange(-0.6, 1.8, 0.1)
LENSES = np.arange(-4.0, 4.1, 1.0)
PRESCRIPTIONS = np.arange(-3.0, 3.1, 0.25)
# The package's models, from the one that knows least.
MODELS = ("power", "peak", "blur", "acuity")
#: The package's results on the same patients: study and functions, by task.
OURS = {
    (26, 5.0): (
        "fresh-refraction-anywhere-ep",
        refraction.name_cases([5], MODELS),
    ),
    (2, 5.0): (
        "fresh-alternatives",
        refraction.name_cases(
            [5], ("2 alternatives", *(f"2 alternatives, {x}" for x in MODELS[1:]))
        ),
    ),
    (26, 2.0): (
        "fresh-refraction-anywhere-ep",
        refraction.name_cases([2], MODELS),
    ),
}


def make_staircase(alternatives: int, slope: float) -> Any:
    r"""QUEST+ of the prescription, with everything else known.

    Args:
        alternatives: The number of letters to choose from.
        slope: The slope of the patient's psychometric function.

    Returns:
        A ``questplus.QuestPlus``.
    """
    sys.path.append(str(Path(sys.prefix) / "peers"))
    questplus = import_module("questplus")
    xarray = import_module("xarray")

    class Lenses(questplus.QuestPlus):
        def _gen_likelihoods(self) -> Any:
            domains = {**self.stim_domain, **self.param_domain}
            size, sphere, cylinder, best_sphere, best_cylinder = np.meshgrid(
                *domains.values(), indexing="ij", sparse=True
            )
            read = success_probability(
                size,
                sphere - best_sphere,
                cylinder - best_cylinder,
                alternatives,
                slope,
            )
            return xarray.DataArray(
                np.stack([read, 1 - read]),
                dims=["read", *domains],
                coords={**self.outcome_domain, **domains},
            )

    return Lenses(
        stim_domain={"size": SIZES, "sphere": LENSES, "cylinder": LENSES},
        param_domain={"best_sphere": PRESCRIPTIONS, "best_cylinder": PRESCRIPTIONS},
        outcome_domain={"read": [1, 0]},
        func="norm_cdf",  # not used: the likelihoods are those above
        stim_scale="linear",
    )


class QuestPlusExaminer:
    r"""QUEST+ of the prescription, with everything else known."""

    def __init__(self, alternatives: int, slope: float) -> None:
        r"""
        Args:
            alternatives: The number of letters to choose from.
            slope: The slope of the patient's psychometric function.
        """
        self.staircase = make_staircase(alternatives, slope)

    def ask(self) -> Letter:
        r"""The size and the lens of the next letter."""
        letter = self.staircase.next_stim
        return letter["size"], letter["sphere"], letter["cylinder"]

    def tell(self, letter: Letter, is_read: bool) -> None:
        r"""Learn from an answer.

        Args:
            letter: The size and the lens of the letter.
            is_read: Whether it was read.
        """
        stimulus = dict(zip(("size", "sphere", "cylinder"), letter, strict=True))
        self.staircase.update(stim=stimulus, outcome={"read": int(is_read)})

    def recommend(self) -> Lens:
        r"""The mean of the prescription."""
        found = self.staircase.param_estimate
        return found["best_sphere"], found["best_cylinder"]


class Examiner(Protocol):
    r"""Chooses letters, learns from the answers and recommends a lens."""

    def ask(self) -> Letter:
        """The size and the lens of the next letter."""
        ...

    def tell(self, letter: Letter, is_read: bool, /) -> None:
        """Learn from an answer."""
        ...

    def recommend(self) -> Lens:
        """The lens that is inferred to be best."""
        ...


# Makes an examiner, for a number of alternatives, the patient's slope and the
# examiner's own source of randomness.
MakeExaminer = Callable[[int, float, np.random.Generator], Examiner]


def _know_everything(
    alternatives: int, slope: float, generator: np.random.Generator
) -> Examiner:
    return QuestPlusExaminer(alternatives, slope)


def _know_the_law(most_power: float) -> MakeExaminer:
    """Examiners who know how strong prescriptions are at most."""

    def make(
        alternatives: int, slope: float, generator: np.random.Generator
    ) -> Examiner:
        return LawExaminer(alternatives, generator, most_power)

    return make


@dataclass(frozen=True)
class Method:
    r"""A way to examine.

    Attributes:
        make: Makes the examiner.
        num_random: The number of letters of random sizes, through random lenses, with
            which the examination begins.
    """

    make: MakeExaminer
    num_random: int = 0


#: All ways by their names in the report.
METHODS = {
    "QUEST+": Method(_know_everything),
    "law": Method(_know_the_law(refraction.MOST_POWER)),
    "law, whole box": Method(_know_the_law(MAX_POWER), RANDOM_TRIALS),
}


def examine(
    method: str, patient: int, alternatives: int, slope: float
) -> list[dict[str, Any]]:
    r"""Examine a patient.

    Args:
        method: The name of the examiner.
        patient: The number of the patient.
        alternatives: The number of letters to choose from.
        slope: The slope of the patient's psychometric function.

    Returns:
        A row for every letter.
    """
    lens = refraction.draw_prescriptions(patient + 1, fresh.PATIENTS)[patient].tolist()
    noise = np.random.default_rng(derive_seed(NAME, alternatives, patient))
    own = np.random.default_rng(derive_seed(NAME, method, alternatives, patient))
    examiner = METHODS[method].make(alternatives, slope, own)
    rows = []
    for number in range(1, LETTERS + 1):
        is_random = number <= METHODS[method].num_random
        letter = _draw_letter(own) if is_random else examiner.ask()
        size, sphere, cylinder = letter
        errors = sphere - lens[0], cylinder - lens[1]
        chance = success_probability(size, *errors, alternatives, slope)
        examiner.tell(letter, noise.random() < chance)
        sphere, cylinder = examiner.recommend()
        rows.append(
            {
                "method": method,
                "alternatives": alternatives,
                "slope": slope,
                "patient": patient,
                "letter": number,
                "regret": float(lost_acuity(sphere - lens[0], cylinder - lens[1])),
            }
        )
    return rows


def _draw_letter(generator: np.random.Generator) -> Letter:
    """A letter of a random size, through a random lens."""
    size = generator.uniform(*LETTER_SIZES)
    sphere, cylinder = generator.uniform(-MAX_POWER, MAX_POWER, 2)
    return size, sphere, cylinder


def run(arguments: argparse.Namespace) -> None:
    r"""Examine the patients that are missing, and store each.

    Args:
        arguments: The parsed command line; ``--seeds`` is the number of patients.
    """
    torch.set_num_threads(1)
    path = _path(arguments.output)
    table = store.read_table(path)
    done = set()
    if table is not None:
        done = set(table.select("method", "patient", *TASK).iter_rows())
    patients = range(arguments.seeds or PATIENTS)
    for patient, task, method in itertools.product(patients, TASKS, METHODS):
        if (method, patient, *task) in done:
            continue
        rows = pl.DataFrame(examine(method, patient, *task))
        table = rows if table is None else pl.concat([table, rows])
        store.save(table, path)
        alternatives, slope = task
        print(f"{NAME}: {method}, {patient=}, {alternatives=}, {slope=}", flush=True)


def _path(root: Path) -> Path:
    return root / NAME / "results.parquet"


def write_report(root: Path) -> Path:
    r"""Write the report, next to the package's results on the same patients.

    Args:
        root: The folder of all results.

    Returns:
        The path of the Markdown file.
    """
    table = store.require_table(_path(root))
    title = " ".join((__doc__ or "").split("\n\n")[1].split())
    sections = [
        f"# The study `{NAME}`\n\n{title} `python -m benchmarks run {NAME}` makes it. "
        "The acuity in logMAR that the recommended lens loses, mean ± standard error "
        "(worst), by the number of letters; the patients of the package's rules are "
        "all those of their study.",
        read_conclusions(root / NAME),
        format_table(
            ["alternatives", "slope", "method", *(f"{n} letters" for n in CHECKPOINTS)],
            [row for task in TASKS for row in _compare(table, task, root)],
        ),
    ]
    return write_sections(root / NAME, sections)


def _compare(
    table: pl.DataFrame, task: tuple[int, float], root: Path
) -> list[list[str]]:
    """The examiners and every rule of the package's study, a row each."""
    alternatives, slope = task
    mine = table.filter(alternatives=alternatives, slope=slope)
    named = [str(alternatives), f"{slope:g}"]
    rows = [
        [*named, method, *_cells(mine.filter(method=method), 0)] for method in METHODS
    ]
    study, functions = OURS[task]
    frame = store.load(root / study).select(
        "function", "rule", letter="iteration", regret=-pl.col("score")
    )
    for function in functions:
        ours = frame.filter(pl.col("function") == function)
        for (rule,), group in ours.group_by("rule", maintain_order=True):
            method = f"`{rule}`, {refraction.CASES[function].surrogate}"
            rows.append([*named, method, *_cells(group, RANDOM_TRIALS)])
    return rows


def _cells(frame: pl.DataFrame, before: int) -> list[str]:
    """Mean, standard error and worst at the checkpoints."""
    cells = []
    for letters in CHECKPOINTS:
        values = frame.filter(pl.col("letter") == letters - before)["regret"].to_numpy()
        cells.append(f"{format_mean(values, 3)} ({values.max():.3f})")
    return cells
