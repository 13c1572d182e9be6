r"""
``python -m benchmarks run questplus``: QUEST+ that is given the physics of lenses.

A limit to compare with: the examination of somebody who knows how every lens blurs and
how steep the patient's psychometric function is, and has to find the prescription
alone. Of the package's models, ``blur`` and ``acuity`` know the former, and none the
latter. The patients are those of ``fresh-refraction-anywhere``, the method is that of
the package ``questplus``, which is looked for in ``.venv/peers``, where ``make test``
puts it.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from scipy.special import ndtr

from benchmarks.studies import fresh, refraction, store
from benchmarks.studies.experiment import derive_seed
from benchmarks.studies.report_file import read_conclusions, write_sections
from benchmarks.tables import format_mean, format_table

NAME = "questplus"
#: The tasks: the number of alternatives, and the slope of the patients.
TASKS = ((26, 5.0), (2, 5.0), (26, 2.0))
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


def acuity(sphere: Any, cylinder: Any) -> Any:
    r"""``log10(1 + β²)`` of the errors of a lens.

    Args:
        sphere: The error of the sphere in diopters.
        cylinder: That of the cylinder.

    Returns:
        The visual acuity in logMAR.
    """
    return np.log10(1.0 + (sphere**2 + (sphere + cylinder) ** 2) / 2)


def success_probability(
    size: Any, sphere: Any, cylinder: Any, alternatives: int, slope: float
) -> Any:
    r"""How likely a letter is read through a lens.

    Args:
        size: The letter size in logMAR.
        sphere: The error of the sphere in diopters.
        cylinder: That of the cylinder.
        alternatives: The number of letters to choose from.
        slope: The slope of the patient's psychometric function.
    """
    guess = 1.0 / alternatives
    return guess + (1 - guess) * ndtr(slope * (size - acuity(sphere, cylinder)))


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


def examine(patient: int, alternatives: int, slope: float) -> list[dict[str, Any]]:
    r"""Examine a patient.

    Args:
        patient: The number of the patient.
        alternatives: The number of letters to choose from.
        slope: The slope of the patient's psychometric function.

    Returns:
        A row for every letter.
    """
    lens = refraction.draw_prescriptions(patient + 1, fresh.PATIENTS)[patient].tolist()
    generator = np.random.default_rng(derive_seed(NAME, alternatives, patient))
    staircase = make_staircase(alternatives, slope)
    rows = []
    for letter in range(1, LETTERS + 1):
        stimulus = staircase.next_stim
        errors = stimulus["sphere"] - lens[0], stimulus["cylinder"] - lens[1]
        chance = success_probability(stimulus["size"], *errors, alternatives, slope)
        outcome = {"read": int(generator.random() < chance)}
        staircase.update(stim=stimulus, outcome=outcome)
        found = staircase.param_estimate
        loss = acuity(found["best_sphere"] - lens[0], found["best_cylinder"] - lens[1])
        rows.append(
            {
                "alternatives": alternatives,
                "slope": slope,
                "patient": patient,
                "letter": letter,
                "regret": float(loss),
            }
        )
    return rows


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
        done = set(table.select("alternatives", "slope", "patient").iter_rows())
    for patient in range(arguments.seeds or PATIENTS):
        for alternatives, slope in TASKS:
            if (alternatives, slope, patient) in done:
                continue
            rows = pl.DataFrame(examine(patient, alternatives, slope))
            table = rows if table is None else pl.concat([table, rows])
            store.save(table, path)
            print(f"{NAME}: {patient=}, {alternatives=}, {slope=}", flush=True)


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
    """QUEST+ and every rule of the package's study, a row each."""
    alternatives, slope = task
    mine = table.filter(alternatives=alternatives, slope=slope)
    named = [str(alternatives), f"{slope:g}"]
    rows = [[*named, "QUEST+", *_cells(mine, 0)]]
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
