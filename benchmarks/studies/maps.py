r"""
``python -m benchmarks map``: how fast is a threshold learned everywhere?

Simulated observers whose threshold along the context depends on one parameter. Trials
are chosen by rules for maps, by their information (``bald``), or from a Sobol sequence;
all rules have the same model, the same first trials and the same noise. The functions
``detection`` and ``discrimination`` are those that AEPsych is tested on
[Owen2021adaptive]_, over the same box.

.. [Owen2021adaptive]
    L. Owen, J. Browder, B. Letham, G. Stocek, C. Tymms, M. Shvartsman. Adaptive
    nonparametric psychophysics. arXiv:2104.09549, 2021.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product

import polars as pl
import torch
from botorch.fit import fit_gpytorch_mll
from torch import Tensor

from benchmarks.studies.experiment import FIT_OPTIONS, derive_seed
from benchmarks.studies.table_study import Job, TableStudy
from benchmarks.tables import format_mean, format_table
from botorch_binary_context.bands import first_fall
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.functionals import VALUE
from botorch_binary_context.inference import ExpectationPropagation, Inference, Laplace
from botorch_binary_context.models import (
    ApproximateMarginalLogLikelihood,
    psychometric_gp,
)
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.optim import SearchOptions
from botorch_binary_context.probability import normal_cdf
from botorch_binary_context.rules import suggest
from botorch_binary_context.trials import TrialSpace

NAME = "map"
RULES = ("sobol", "random", "bald", "map-straddle", "map-mi", "map-eavc")
SPACE = ContextSpace(
    torch.tensor([[-1.0, -1.0], [1.0, 1.0]], dtype=torch.double), [1], [0.0]
)
FIRST_TRIALS = 5
TRIALS = 150
SEEDS = 10
CHECKPOINTS = (25, 50, 75, 100, 125, 150)
LEARN_AT = (20, 40, 60, 80, 110)
SEARCH = SearchOptions(num_restarts=3, raw_samples=64, max_evaluations=10)
GRID = 41
# The level set is halfway between guesses and certainty: f = 0.


def contrast_sensitivity(x: Tensor, s: Tensor) -> Tensor:
    """A threshold that is lowest at one frequency, with a constant slope."""
    return 5.0 * (s - (-0.4 + 0.9 * (x - 0.2) ** 2))


def _width(x: Tensor) -> Tensor:
    """The divisor of the intensity in the functions of Owen et al. (2021)."""
    return 2 * (0.05 + 0.4 * (-1 + 0.2 * x) ** 2 * x**2)


def detection(x: Tensor, s: Tensor) -> Tensor:
    """Of Owen et al. (2021): the slope varies with the threshold."""
    return 4 * (s + 1) / _width(x) - 4


def discrimination(x: Tensor, s: Tensor) -> Tensor:
    """Of Owen et al. (2021): at chance where the intensity is lowest.

    Theirs is passed with probability ``Φ(2 (s + 1) / width)``, from one half on; this
    is the latent function that does so with two alternatives.
    """
    p = 2 * normal_cdf(2 * (s + 1) / _width(x)) - 1
    return torch.special.ndtri(p.clamp(1e-12, 1 - 1e-12))


FUNCTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "contrast": contrast_sensitivity,
    "detection": detection,
    "discrimination": discrimination,
}
# That of the discrimination function is at chance at one half.
OBSERVERS = (
    ("detection", 2),
    ("detection", 26),
    ("discrimination", 2),
    ("contrast", 2),
    ("contrast", 26),
)
INFERENCES: dict[str, Callable[[], Inference]] = {
    "ep": ExpectationPropagation,
    "laplace": Laplace,
}


@dataclass(frozen=True)
class Task:
    r"""One rule on one kind of observer, all seeds as a batch.

    Attributes:
        function: The name of the latent function.
        alternatives: The number of alternatives that the observer chooses from.
        inference: The name of the inference.
        rule: The name of the rule, or ``sobol``.
        seeds: The number of repetitions.
    """

    function: str
    alternatives: int
    inference: str
    rule: str
    seeds: int

    @property
    def name(self) -> str:
        """A name for the file of results."""
        return f"{self.function}-{self.alternatives}-{self.inference}-{self.rule}"

    def success(self, trials: Tensor) -> Tensor:
        """The true success probability of ``... x d`` trials."""
        f = FUNCTIONS[self.function](trials[..., 0], trials[..., 1])
        guess = 1 / self.alternatives
        return guess + (1 - guess) * normal_cdf(f)


def run_task(task: Task) -> pl.DataFrame:
    r"""Run the experiments of a task.

    Args:
        task: The task.

    Returns:
        A row for every seed and checkpoint.
    """
    torch.set_num_threads(1)
    trials, noise = draw_randomness(task)
    first = trials[:, :FIRST_TRIALS]
    model = make_model(task, first, answer(task, first, noise[:, :FIRST_TRIALS]))
    frames = []
    for i in range(FIRST_TRIALS, TRIALS):
        trial = trials[:, i : i + 1]
        if task.rule != "sobol":
            seed = derive_seed(task.name, i)
            trial = suggest(model, SPACE, task.rule, SEARCH, seed)
        outcome = answer(task, trial, noise[:, i : i + 1])
        model = model.condition_on_observations(trial, outcome)
        if i + 1 in LEARN_AT:
            learn(model)
        if i + 1 in CHECKPOINTS:
            frames.append(measure(task, model, i + 1))
    return pl.concat(frames)


def learn(model: LatentGP) -> None:
    r"""Learn the hyperparameters of a model.

    Args:
        model: The model, which is changed.
    """
    mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
    fit_gpytorch_mll(mll, optimizer_kwargs={"options": FIT_OPTIONS})
    model.eval()


def draw_randomness(task: Task) -> tuple[Tensor, Tensor]:
    r"""Quasi-random trials and uniform numbers, the same for all rules.

    Args:
        task: The task.

    Returns:
        The trials, ``seeds x TRIALS x 2``, and the numbers, ``seeds x TRIALS``.
    """
    box = TrialSpace(SPACE, VALUE)
    trials = []
    noise = []
    for seed in range(task.seeds):
        own = derive_seed(NAME, task.function, task.alternatives, seed)
        trials.append(box.draw_quasi_random(TRIALS, own).squeeze(-2))
        generator = torch.Generator().manual_seed(own)
        noise.append(torch.rand(TRIALS, generator=generator, dtype=torch.double))
    return torch.stack(trials), torch.stack(noise)


def answer(task: Task, trials: Tensor, noise: Tensor) -> Tensor:
    r"""The answers of the simulated observers.

    Args:
        task: The task.
        trials: ``seeds x n x 2`` trials.
        noise: Uniform numbers, ``seeds x n``.

    Returns:
        A ``seeds x n x 1`` tensor of zeros and ones.
    """
    return (noise < task.success(trials)).to(trials).unsqueeze(-1)


def make_model(task: Task, X: Tensor, Y: Tensor) -> LatentGP:
    r"""The model of a task.

    Args:
        task: The task.
        X: The trials so far, ``seeds x n x 2``.
        Y: Their outcomes.
    """
    guess = 1 / task.alternatives
    inference = INFERENCES[task.inference]()
    return psychometric_gp(X, Y, SPACE, guess, inference=inference)


def measure(task: Task, model: LatentGP, trials: int) -> pl.DataFrame:
    r"""The error of the threshold curve, and of the map of what is above it.

    Args:
        task: The task.
        model: The model of the trials so far.
        trials: The number of these trials.

    Returns:
        A row for every seed.
    """
    side = torch.linspace(-1, 1, GRID, dtype=torch.double)
    grid = torch.cartesian_prod(side, side)
    rows = grid.reshape(-1, *[1] * len(model.batch_shape), 1, 2)
    with torch.no_grad():
        mean, variance = model.moments(rows)  # GRID² x seeds
    below = normal_cdf(-mean / variance.sqrt()).mT  # seeds x GRID²
    f = FUNCTIONS[task.function](grid[:, 0], grid[:, 1])
    truth = (f < 0).to(below)
    found = _thresholds(mean.mT.unflatten(-1, (GRID, GRID)))
    error = (found - _thresholds(f.unflatten(-1, (GRID, GRID)))).abs().mean(dim=-1)
    return pl.DataFrame(
        {
            "function": [task.function] * task.seeds,
            "alternatives": [task.alternatives] * task.seeds,
            "inference": [task.inference] * task.seeds,
            "rule": [task.rule] * task.seeds,
            "trials": [trials] * task.seeds,
            "seed": list(range(task.seeds)),
            "threshold": error.tolist(),
            "volume": (below - truth).abs().mean(dim=-1).tolist(),
            "brier": (below - truth).square().mean(dim=-1).tolist(),
        }
    )


def _thresholds(values: Tensor) -> Tensor:
    """Where the latent function rises above zero along the context."""
    position = first_fall(values.flip(-1), 0.0).clamp(0, GRID - 1)
    return 1 - 2 * position / (GRID - 1)


def tasks(seeds: int) -> Iterator[Task]:
    r"""All tasks of the study.

    Args:
        seeds: The number of repetitions.

    Yields:
        The tasks.
    """
    for (function, alternatives), rule in product(OBSERVERS, RULES):
        yield Task(function, alternatives, "ep", rule, seeds)
    for rule in ("sobol", "bald"):
        yield Task("contrast", 2, "laplace", rule, seeds)


def jobs(seeds: int) -> Iterator[Job]:
    r"""The tasks of :func:`tasks`, by name.

    Args:
        seeds: The number of repetitions.

    Yields:
        The jobs.
    """
    for task in tasks(seeds):
        yield task.name, partial(run_task, task)


def _describe(frame: pl.DataFrame) -> list[str]:
    """The sections of the report."""
    return [
        f"# The study `{NAME}`\n\nThe mean error of the threshold, as a share of the "
        "range of the context, and the expected absolute volume error, both in "
        f"percent, after some trials ({frame['seed'].n_unique()} seeds, with standard "
        f"errors). `python -m benchmarks {NAME}` makes it.",
        _compare(frame),
        _format(frame, "threshold", 0.5),
        _format(frame, "volume", 1.0),
        _format(frame, "brier", 1.0),
    ]


def answers_needed(frame: pl.DataFrame, column: str) -> pl.DataFrame:
    r"""The number of answers a rule needs for the last error of the Sobol sequence.

    Args:
        frame: The results.
        column: The measure of the error; its mean over the seeds is interpolated
            between the checkpoints.

    Returns:
        A row for every observer and rule: the ``share`` of the answers of the Sobol
        sequence, infinite if the error is not reached.
    """
    keys = ["function", "alternatives", "inference"]
    means = frame.group_by(*keys, "rule", "trials").agg(pl.col(column).mean())
    rows = []
    for key, group in means.sort("trials").group_by(keys):
        sobol = group.filter(rule="sobol")
        for (rule,), curve in group.filter(pl.col("rule") != "sobol").group_by("rule"):
            common = sobol.filter(pl.col("trials").is_in(curve["trials"].implode()))
            if common.is_empty():
                continue
            last, error = common.select("trials", column).row(-1)
            points = curve.select("trials", column).rows()
            rows.append([*key, rule, _first_below(points, error) / last])
    schema = [*keys, "rule", "share"]
    return pl.DataFrame(rows, schema=schema, orient="row").sort(schema[:4])


def _first_below(points: list[tuple[int, float]], value: float) -> float:
    """Where a line through points first falls to a value; infinite if nowhere."""
    if points[0][1] <= value:
        return float(points[0][0])
    for (x0, y0), (x1, y1) in pairwise(points):
        if y1 <= value:
            return x0 + (y0 - value) / (y0 - y1) * (x1 - x0)
    return math.inf


def _compare(frame: pl.DataFrame) -> str:
    """How many of the Sobol sequence's answers rules need, by each measure."""
    keys = ["function", "alternatives", "inference", "rule"]
    measures = ("threshold", "volume", "brier")
    tables = [answers_needed(frame, name).rename({"share": name}) for name in measures]
    joined = tables[0].join(tables[1], on=keys).join(tables[2], on=keys)
    rows = []
    for row in joined.iter_rows():
        shares = ["more" if math.isinf(x) else f"{100 * x:.0f} %" for x in row[4:]]
        rows.append([" ".join(map(str, row[:3])), f"`{row[3]}`", *shares])
    return (
        "## Answers needed\n\nFor the mean error that the Sobol sequence has at its "
        "last checkpoint, as a share of its answers; interpolated between checkpoints, "
        "the first of which is after 25.\n\n"
        + format_table(["observer", "rule", *measures], rows)
    )


def _format(frame: pl.DataFrame, column: str, scale: float) -> str:
    """A table of one measure."""
    keys = ["function", "alternatives", "inference", "rule"]
    rows = []
    for key, group in frame.sort(keys).group_by(keys, maintain_order=True):
        cells = []
        for trials in CHECKPOINTS:
            values = 100 * scale * group.filter(pl.col("trials") == trials)[column]
            if not len(values):
                cells.append(None)
                continue
            cells.append(format_mean(values, 1))
        rows.append([" ".join(map(str, key[:3])), f"`{key[3]}`", *cells])
    header = ["observer", "rule", *(f"after {n}" for n in CHECKPOINTS)]
    return f"## {column.capitalize()}\n\n" + format_table(header, rows)


STUDY = TableStudy(NAME, "how fast thresholds are learned", SEEDS, jobs, _describe)
