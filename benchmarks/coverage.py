r"""
``python -m benchmarks run coverage``: do intervals hold what they say?

Simulated experiments whose subjects are drawn from the priors of the package's default
models, hyperparameters included. The trials are chosen by the default rules on
expectation propagation, and the hyperparameters are learned as in an experiment. After
some trials the 90 % intervals of three quantities are compared with the truth: by
Laplace's method (with hyperparameters of its own evidence), by expectation propagation,
and by draws from the true posterior.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.optim.utils import sample_all_priors
from botorch.utils.sampling import manual_seed
from torch import Tensor

from benchmarks import store
from benchmarks.experiment import FIT_OPTIONS
from benchmarks.tables import format_table
from botorch_binary_context.acquisition.entropy_search import (
    MAX_FEATURES,
    PATH_SEARCH,
    ROUGH_PATH_SEARCH,
    maximize_paths,
)
from botorch_binary_context.bands import (
    Band,
    exact_latent_band,
    exact_probability_band,
    first_fall,
    latent_band,
    probability_band,
)
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.inference import Laplace
from botorch_binary_context.models import (
    ApproximateMarginalLogLikelihood,
    PreferenceGP,
    psychometric_gp,
    should_learn,
)
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.rules import recommend, suggest
from botorch_binary_context.sampling.paths import (
    PosteriorSamplePaths,
    draw_exact_paths,
    draw_sample_paths,
)

NAME = "coverage"
INFERENCES = ("laplace", "ep", "exact")
SUBJECTS = 200
CHECKPOINTS = (30, 60, 100)
INITIAL_TRIALS = 5
CREDIBLE, WIDTH = 0.9, 1.6448536269514722
NUM_PATHS, NUM_SAMPLES = 64, 512
LINE = 121  # values of the context, between which curves are straight
AIM = 0.86, 0.94


@dataclass(frozen=True)
class Kind:
    r"""A kind of experiment.

    Attributes:
        rule: The rule that chooses the trials.
        space: The box of the trials.
        make: Makes the model of trials and their labels.
    """

    rule: str
    space: ContextSpace
    make: Callable[[Tensor, Tensor], LatentGP]


def _psychometric(guess_rate: float) -> Kind:
    bounds = torch.tensor([[-1.0, 0.0, 0.0], [1.0, 1.0, 1.0]], dtype=torch.double)
    space = ContextSpace(bounds, context_dims=[0], reference_context=[0.0])
    return Kind("ucb-ald", space, lambda X, Y: psychometric_gp(X, Y, space, guess_rate))


def _duels() -> Kind:
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
    return Kind("muc-ald", ContextSpace(bounds), PreferenceGP)


KINDS = {
    "26 letters": _psychometric(1 / 26),
    "two alternatives": _psychometric(0.5),
    "duels": _duels(),
}


@dataclass(frozen=True)
class Subjects:
    r"""Simulated subjects: functions drawn from the prior of a model."""

    kind: Kind
    paths: PosteriorSamplePaths
    best: Tensor  # batch_shape x (d - m)

    @classmethod
    def draw(cls, kind: Kind, number: int, seed: int) -> Subjects:
        """Functions with hyperparameters of their own."""
        q, dim = (2, 2) if kind.rule.startswith("muc") else (1, 3)
        shape = (number, 0, q, dim) if q == 2 else (number, 0, dim)
        with manual_seed(seed):
            empty = torch.zeros(shape, dtype=torch.double)
            prior = kind.make(empty, torch.zeros(number, 0, 1, dtype=torch.double))
            sample_all_priors(prior)
            paths = draw_sample_paths(prior.eval(), 1, kind.space.bounds, seed=seed)
        best, _ = maximize_paths(paths, kind.space, options=PATH_SEARCH)
        return cls(kind, paths, best[0])

    def values(self, rows: Tensor) -> Tensor:
        """The latent function of every subject at ``batch_shape x q x d`` rows."""
        with torch.no_grad():
            return self.paths(rows)[0]

    def answer(self, rows: Tensor) -> Tensor:
        """Answers to trials, ``batch_shape x n x 1``, of their stacked rows."""
        model = self.paths.model
        p = model.likelihood.probability(model.functional(self.values(rows)))
        return (torch.rand_like(p) < p).to(rows).unsqueeze(-1)


def simulate(name: str, subjects: int = SUBJECTS, seed: int = 0) -> pl.DataFrame:
    r"""Run the experiments of a kind and look at their intervals.

    Args:
        name: The name of the kind.
        subjects: The number of experiments; they run as one batch.
        seed: The seed of what is random.

    Returns:
        For every experiment, checkpoint, quantity and way of inference whether the
        interval held the truth, and how wide it was.
    """
    torch.set_num_threads(1)
    kind, frames = KINDS[name], []
    truth = Subjects.draw(kind, subjects, seed)
    functional = truth.paths.model.functional
    with manual_seed(seed + 1):
        low, high = kind.space.bounds
        shape = subjects, INITIAL_TRIALS * functional.num_rows, kind.space.dim
        rows = low + (high - low) * torch.rand(shape, dtype=torch.double)
        model = kind.make(functional.trials(rows), truth.answer(rows))
        for n in range(INITIAL_TRIALS + 1, max(CHECKPOINTS) + 1):
            trial = suggest(model, kind.space, kind.rule, seed=n)
            answers = truth.answer(functional.rows(trial))
            model = model.condition_on_observations(trial, answers)
            if should_learn(n):
                learn(model)
            if n in CHECKPOINTS:
                frames.append(look(name, n, model, truth))
    return pl.concat(frames)


def learn(model: LatentGP) -> None:
    """Learn the hyperparameters of all experiments by the model's own evidence."""
    mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
    fit_gpytorch_mll(mll, optimizer_kwargs={"options": FIT_OPTIONS})
    model.eval()


def look(name: str, n: int, model: LatentGP, truth: Subjects) -> pl.DataFrame:
    """Compare intervals of all quantities with the truth."""
    laplace = model.with_inference(Laplace())
    learn(laplace)
    frames = []
    for inference, chosen in (("laplace", laplace), ("ep", model), ("exact", model)):
        best = recommend(chosen, truth.kind.space)
        found = {
            "probability": _probability(chosen, truth, best, inference),
            **_parameters(chosen, truth, inference),
        }
        if truth.kind.space.num_contexts:
            found["threshold"] = _threshold(chosen, truth, best, inference)
        for quantity, (true, band) in found.items():
            covered = (band.low <= true) & (true <= band.high)
            frame = {
                "kind": [name] * len(true),
                "trials": [n] * len(true),
                "inference": [inference] * len(true),
                "quantity": [quantity] * len(true),
                "subject": list(range(len(true))),
                "covered": covered.tolist(),
                "width": (band.high - band.low).tolist(),
            }
            frames.append(pl.DataFrame(frame))
    return pl.concat(frames)


def _probability(
    model: LatentGP, truth: Subjects, best: Tensor, inference: str
) -> tuple[Tensor, Band]:
    """The success of the recommended parameters; for duels against the center."""
    space = truth.kind.space
    rows = space.at_reference(best).unsqueeze(-2)
    if model.functional.num_rows == 2:
        center = space.bounds.mean(dim=0).expand_as(rows)
        rows = torch.cat([rows, center], dim=-2)
    functional, likelihood = model.functional, model.likelihood
    true = likelihood.probability(functional(truth.values(rows))).squeeze(-1)
    with torch.no_grad():
        if inference == "exact":
            return true, exact_probability_band(model, rows, CREDIBLE, NUM_SAMPLES)
        return true, probability_band(model, rows, WIDTH)


def _threshold(
    model: LatentGP, truth: Subjects, best: Tensor, inference: str
) -> tuple[Tensor, Band]:
    """How hard a test of the recommended parameters may be, as a position."""
    space = truth.kind.space
    # The first context is the easiest, as large letters are.
    contexts = torch.linspace(1.0, -1.0, LINE, dtype=torch.double).unsqueeze(-1)
    line = space.join(best.unsqueeze(-2), contexts)  # batch_shape x LINE x d
    values = truth.values(line)
    first, last = values[..., 0], values[..., -1]
    true = (LINE - 1) * first / (first - last)  # a line in the context
    true = torch.where(true < 0, -torch.inf, true)
    true = torch.where((true > LINE - 1) | (first <= last), torch.inf, true)
    points = line.movedim(-2, 0)  # LINE x batch_shape x d
    with torch.no_grad():
        if inference == "exact":
            band = exact_latent_band(model, points, CREDIBLE, NUM_SAMPLES)
        else:
            band = latent_band(model, points, WIDTH)
    return true, Band(*[first_fall(curve.movedim(0, -1), 0.0) for curve in band])


def _parameters(
    model: LatentGP, truth: Subjects, inference: str
) -> dict[str, tuple[Tensor, Band]]:
    """Each of the best parameters, by the maxima of functions of the posterior."""
    space = truth.kind.space
    draw = draw_exact_paths if inference == "exact" else draw_sample_paths
    with torch.no_grad():
        paths = draw(model, NUM_PATHS, space.bounds, MAX_FEATURES, 0)
        optima, _ = maximize_paths(paths, space, options=ROUGH_PATH_SEARCH)
    ends = np.quantile(
        optima.numpy(), [(1 - CREDIBLE) / 2, (1 + CREDIBLE) / 2], 0, method="weibull"
    )
    low, high = torch.from_numpy(ends)
    return {
        f"parameter {i + 1}": (
            truth.best[..., i],
            Band(low[..., i], low[..., i], high[..., i]),
        )
        for i in range(low.shape[-1])
    }


def run(arguments: argparse.Namespace) -> None:
    r"""Run the simulations that are not finished, each in a process of its own.

    Args:
        arguments: The parsed command line.
    """
    folder = arguments.output / NAME
    missing = [name for name in KINDS if not _path(folder, name).exists()]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.workers, mp_context=context) as pool:
        subjects = arguments.seeds or SUBJECTS
        futures = {name: pool.submit(simulate, name, subjects) for name in missing}
        for name, future in futures.items():
            store.save(future.result(), _path(folder, name))
            print(f"{NAME}: {name} is finished")


def _path(folder: Path, name: str) -> Path:
    return store.result_path(folder, name, NAME)


def write_report(root: Path) -> Path:
    r"""Write the report.

    Args:
        root: The folder of all results.

    Returns:
        The path of the Markdown file.
    """
    folder = root / NAME
    found = [_path(folder, name) for name in KINDS if _path(folder, name).exists()]
    frame = pl.concat([pl.read_parquet(path) for path in found])
    conclusions = folder / "conclusions.md"
    sections = [
        "# The study `coverage`\n\nHow often 90 % intervals hold the truth, in "
        f"simulated experiments ({frame['subject'].n_unique()} of each kind), with the "
        "standard error of such a share; the aim is "
        f"{AIM[0]:.0%} to {AIM[1]:.0%}. `python -m benchmarks run {NAME}` makes it.",
        conclusions.read_text(encoding="utf-8").strip() if conclusions.exists() else "",
        format_coverage(frame),
    ]
    path = folder / "report.md"
    path.write_text("\n\n".join(filter(None, sections)) + "\n", encoding="utf-8")
    return path


def format_coverage(frame: pl.DataFrame) -> str:
    r"""The shares of intervals that held the truth, as a table.

    Args:
        frame: The results.

    Returns:
        The table in Markdown.
    """
    keys = ["kind", "quantity", "trials"]
    shares = frame.group_by([*keys, "inference"]).agg(
        pl.col("covered").mean().alias("share"), pl.len().alias("n")
    )
    rows = []
    for key, group in shares.sort(keys).group_by(keys, maintain_order=True):
        cells = {row["inference"]: row for row in group.to_dicts()}
        rows.append([*map(str, key), *[_cell(cells[i]) for i in INFERENCES]])
    return format_table(["experiment", "quantity", "trials", *INFERENCES], rows)


def _cell(row: dict[str, float]) -> str:
    share, n = row["share"], row["n"]
    mark = "" if AIM[0] <= round(share, 3) <= AIM[1] else " *"
    return f"{100 * share:.1f} ± {100 * (share * (1 - share) / n) ** 0.5:.1f}{mark}"
