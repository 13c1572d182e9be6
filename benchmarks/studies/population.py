r"""
``python -m benchmarks run population``: what earlier patients save the next one.

Patients of one population, with prescriptions and slopes of their own, read letters
through lenses. Some were examined before, with the package's default model; what was
learned from them is given to the models of new patients, by
:func:`~botorch_binary_context.population_prior`. All new patients run as one batch.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import torch
from botorch.fit import fit_gpytorch_mll
from torch import Tensor

from benchmarks.studies import store
from benchmarks.studies.experiment import FIT_OPTIONS
from benchmarks.studies.ideal_examiner import (
    NUM_PARTICLES,
    Examiner,
    read_probability,
)
from benchmarks.studies.learning import LEARN_AT
from benchmarks.studies.report_file import read_conclusions, write_sections
from benchmarks.studies.settings_study import SEARCH
from benchmarks.tables import format_mean, format_table
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.models import (
    ApproximateMarginalLogLikelihood,
    PopulationPrior,
    population_prior,
    psychometric_gp,
)
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.problems import RefractionProblem
from botorch_binary_context.problems.refraction import POWER_VECTOR, visual_acuity
from botorch_binary_context.rules import recommend, suggest

NAME = "population"
RULE = "ucb99-ald"
# A rule that relies on the prior.
LOOK_AHEAD = "mkg"
EARLIER = (5, 20, 100)
PATIENTS = 40
LETTERS = 60
INITIAL = 5
CHECKPOINTS = (10, 15, 20, 25, 30, 40, 50, 60)
# The population: means and standard deviations of sphere and cylinder in diopters,
# and the slope per logMAR with its spread in the logarithm.
SPHERE, CYLINDER = (-1.0, 1.5), (-0.5, 0.7)
PATIENT_SLOPE, PATIENT_SLOPE_SPREAD = 5.0, 0.25
MOST_POWER = 3.5
# New patients, and those examined before: no patient is both.
NEW_SEED, EARLIER_SEED = 1, 2
TODAY = "no earlier patients"
# What nobody knows: the formula of blur, and the distribution of all patients.
IDEAL = "the population and the formula of blur"
CLOUD_SEED = 3


class Patients(RefractionProblem):
    r"""Patients with slopes of their own."""

    def __init__(self, prescriptions: Tensor, slopes: Tensor) -> None:
        r"""
        Args:
            prescriptions: ``n x 2`` spheres and cylinders.
            slopes: ``n`` slopes.
        """
        super().__init__(prescription=prescriptions)
        self.register_buffer("slopes", slopes)

    def latent(self, X: Tensor) -> Tensor:
        r"""``a_j (s - VA(x))``.

        Args:
            X: Trials, ``n x t x 3``.

        Returns:
            An ``n x t`` tensor.
        """
        slopes: Tensor = self.slopes  # pyright: ignore[reportAssignmentType]
        return slopes.unsqueeze(-1) * (X[..., 0] + self.score(X[..., 1:]))


def draw_patients(number: int, seed: int) -> Patients:
    r"""Patients of the population.

    Args:
        number: The number of patients.
        seed: The seed of the draw.
    """
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(number, 3, dtype=torch.double, generator=generator)
    lenses = [m + s * z[:, i] for i, (m, s) in enumerate((SPHERE, CYLINDER))]
    lens = torch.stack(lenses, dim=-1).clamp(-MOST_POWER, MOST_POWER)
    return Patients(
        lens, (math.log(PATIENT_SLOPE) + PATIENT_SLOPE_SPREAD * z[:, 2]).exp()
    )


@dataclass(frozen=True)
class Examination:
    r"""Letters that patients were shown.

    Attributes:
        X: The trials, ``n x letters x 3``.
        Y: Whether they were read, ``n x letters x 1``.
        regrets: The acuity that the recommended lens loses, by the number of letters.
    """

    X: Tensor
    Y: Tensor
    regrets: dict[int, Tensor]


def _model(X: Tensor, Y: Tensor, space: ContextSpace) -> LatentGP:
    return psychometric_gp(X, Y, space, 1 / 26, combinations=POWER_VECTOR)


def examine(
    patients: Patients,
    seed: int,
    prior: PopulationPrior | None = None,
    rule: str = RULE,
) -> Examination:
    r"""Examine patients, all as one batch.

    Args:
        patients: The patients.
        seed: The seed of all random choices.
        prior: The prior learned from earlier patients.
        rule: The rule that chooses the trials.

    Returns:
        The trials, the answers and the regrets.
    """
    space = patients.space
    number = len(patients.prescription)
    generator = torch.Generator().manual_seed(seed)
    low, high = space.bounds
    shape = number, INITIAL, space.dim
    unit = torch.rand(shape, dtype=torch.double, generator=generator)
    X = low + (high - low) * unit
    model = _model(X, patients.observe(X, generator), space)
    model = model.eval() if prior is None else prior.apply(model)
    regrets = {}
    for n in range(INITIAL + 1, LETTERS + 1):
        trial = suggest(model, space, rule, SEARCH, seed=n)
        Y = patients.observe(trial, generator)
        model = model.condition_on_observations(trial, Y)
        if n in LEARN_AT:
            mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
            fit_gpytorch_mll(mll, optimizer_kwargs={"options": FIT_OPTIONS})
            model.eval()
        if n in CHECKPOINTS:
            best = recommend(model, space).unsqueeze(-2)
            regrets[n] = -patients.score(best).squeeze(-1)
    _, trials, labels = model.trials_by_kind()[0]
    return Examination(trials, labels.unsqueeze(-1), regrets)


def examine_ideally(patients: Patients) -> Examination:
    r"""Examine patients with knowledge of the formula and the population.

    Args:
        patients: The patients.

    Returns:
        The regrets; the trials are left out.
    """
    cloud = draw_patients(NUM_PARTICLES, CLOUD_SEED)
    lenses, slopes = patients.prescription, patients.slopes
    assert isinstance(slopes, Tensor)
    regrets: dict[int, list[Tensor]] = {n: [] for n in CHECKPOINTS}
    for j in range(len(lenses)):
        generator = torch.Generator().manual_seed(j)
        examiner = Examiner(cloud.prescription, cloud.slopes, generator)  # pyright: ignore
        for n in range(1, LETTERS + 1):
            X = examiner.ask()
            p = read_probability(X, lenses[j : j + 1], slopes[j : j + 1])
            passed = torch.rand((), dtype=p.dtype, generator=generator) < p
            examiner.tell(X, bool(passed))
            if n in regrets:
                regrets[n].append(visual_acuity(examiner.recommend() - lenses[j]))
    empty = lenses[:0]
    losses = {n: torch.stack(found) for n, found in regrets.items()}
    return Examination(empty, empty, losses)


def _earlier(number: int, examined: Examination, space: ContextSpace) -> list[LatentGP]:
    return [_model(examined.X[j], examined.Y[j], space) for j in range(number)]


def run(arguments: argparse.Namespace) -> None:
    r"""Examine earlier patients and then new ones, in every way that is missing.

    Args:
        arguments: The parsed command line; ``--seeds`` is the number of new patients.
    """
    torch.set_num_threads(1)
    path = _path(arguments.output)
    number = arguments.seeds or PATIENTS
    new = draw_patients(number, NEW_SEED)
    table = store.read_table(path)
    examined = None
    for way, count, with_mean, rule in _ways():
        if table is not None and way in table["way"]:
            continue
        prior = None
        if count:
            if examined is None:
                former = draw_patients(max(EARLIER), EARLIER_SEED)
                examined = examine(former, EARLIER_SEED)
            models = _earlier(count, examined, new.space)
            prior = population_prior(models, mean_function=with_mean)
        rows = _rows(way, examine(new, NEW_SEED, prior, rule))
        table = rows if table is None else pl.concat([table, rows])
        store.save(table, path)
        print(f"{NAME}: {way}: {_describe(rows)}", flush=True)
    assert table is not None
    if IDEAL not in table["way"]:
        table = pl.concat([table, _rows(IDEAL, examine_ideally(new))])
        store.save(table, path)
    print(format_regrets(table))


def _ways() -> list[tuple[str, int, bool, str]]:
    """What is known about how many earlier patients, and the rule."""
    ways = [(TODAY, 0, False, RULE)]
    for count in EARLIER:
        ways.append((f"{count}, hyperparameters", count, False, RULE))
        ways.append((f"{count}, mean function too", count, True, RULE))
    some = EARLIER[len(EARLIER) // 2]
    ways.append((f"{some}, mean function too, {LOOK_AHEAD}", some, True, LOOK_AHEAD))
    return ways


def _rows(way: str, found: Examination) -> pl.DataFrame:
    rows = [
        {"way": way, "patient": i, "letters": n, "regret": regret}
        for n, column in found.regrets.items()
        for i, regret in enumerate(column.tolist())
    ]
    return pl.DataFrame(rows)


def _describe(rows: pl.DataFrame) -> str:
    means = rows.group_by("letters", maintain_order=True).agg(pl.col("regret").mean())
    return ", ".join(f"{n}: {r:.3f}" for n, r in means.rows())


def _path(root: Path) -> Path:
    return root / NAME / "results.parquet"


def write_report(root: Path) -> Path:
    r"""Write the report.

    Args:
        root: The folder of all results.

    Returns:
        The path of the Markdown file.
    """
    table = store.require_table(_path(root))
    sections = [
        f"# The study `{NAME}`\n\nThe acuity in logMAR that the recommended lens loses "
        f"(mean ± standard error over {table['patient'].n_unique()} new patients), by "
        "the number of letters and by what the model knows of earlier patients of the "
        f"same population. `python -m benchmarks run {NAME}` makes it.",
        read_conclusions(root / NAME),
        format_regrets(table),
    ]
    return write_sections(root / NAME, sections)


def format_regrets(table: pl.DataFrame) -> str:
    r"""The mean regrets, a row for each way.

    Args:
        table: The results.
    """
    letters = table["letters"].unique().sort().to_list()
    rows = []
    for way in table["way"].unique(maintain_order=True):
        cells = []
        for n in letters:
            few = table.filter((pl.col("way") == way) & (pl.col("letters") == n))
            cells.append(format_mean(few["regret"], 3))
        rows.append([way, *cells])
    return format_table(["earlier patients", *[f"{n} letters" for n in letters]], rows)
