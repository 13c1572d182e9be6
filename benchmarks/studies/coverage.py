r"""
``python -m benchmarks run coverage``: do intervals hold what they say?

Simulated experiments whose subjects are drawn from the priors of the package's default
models, hyperparameters included. The trials are chosen by the default rules on
expectation propagation, and the hyperparameters are learned as in an experiment. After
some trials the 90 % intervals of some quantities are compared with the truth: by
Laplace's method (with hyperparameters of its own evidence), by expectation propagation,
by draws from the true posterior, and by these averaged over what the hyperparameters
may be, as the recommendations of experiments are.
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

from benchmarks.studies import store
from benchmarks.studies.experiment import FIT_OPTIONS
from benchmarks.studies.job_tables import find_table, read_tables
from benchmarks.studies.learning import LEARN_AT
from benchmarks.studies.report_file import read_conclusions, write_sections
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
from botorch_binary_context.functionals import DIFFERENCE, VALUE, Functional
from botorch_binary_context.inference import Laplace
from botorch_binary_context.models import (
    ApproximateMarginalLogLikelihood,
    AveragedGP,
    PreferenceGP,
    psychometric_gp,
)
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.optim import maximize_from
from botorch_binary_context.optima import draw_optima
from botorch_binary_context.rules import frozen, recommend, suggest
from botorch_binary_context.sampling.paths import (
    PosteriorSamplePaths,
    draw_exact_paths,
    draw_sample_paths,
)

NAME = "coverage"
INFERENCES = ("laplace", "ep", "exact", "averaged")
SUBJECTS = 200
CHECKPOINTS = (30, 60, 100)
INITIAL_TRIALS = 5
CREDIBLE = 0.9
WIDTH = 1.6448536269514722
NUM_PATHS = 64
NUM_SAMPLES = 512
# Experiments that are averaged over hyperparameters, which takes seconds for each.
NUM_AVERAGED = 100
AT_ONCE = 10
NUM_SETS = 16  # of hyperparameters; experiments take more after few answers
LINE = 121  # values of the context, between which curves are straight
AIM = 0.86, 0.94

#: The truth of a quantity for every experiment, and its interval.
Compared = tuple[Tensor, Band]


@dataclass(frozen=True)
class Kind:
    r"""A kind of experiment.

    Attributes:
        rule: The rule that chooses the trials.
        functional: What the trials observe.
        space: The box of the trials.
        make: Makes the model of trials and their labels.
    """

    rule: str
    functional: Functional
    space: ContextSpace
    make: Callable[[Tensor, Tensor], LatentGP]


def _psychometric(guess_rate: float) -> Kind:
    bounds = torch.tensor([[-1.0, 0.0, 0.0], [1.0, 1.0, 1.0]], dtype=torch.double)
    space = ContextSpace(bounds, context_dims=[0], reference_context=[0.0])

    def make(X: Tensor, Y: Tensor) -> LatentGP:
        return psychometric_gp(X, Y, space, guess_rate)

    return Kind("ucb-ald", VALUE, space, make)


def _duels() -> Kind:
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
    return Kind("muc-ald", DIFFERENCE, ContextSpace(bounds), PreferenceGP)


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
        rows = torch.zeros(number, 0, kind.space.dim, dtype=torch.double)
        none = kind.functional.trials(rows)
        with manual_seed(seed):
            prior = kind.make(none, torch.zeros(number, 0, 1, dtype=torch.double))
            sample_all_priors(prior)
            paths = draw_sample_paths(prior.eval(), 1, kind.space.bounds, seed=seed)
        best, _ = maximize_paths(paths, kind.space, options=PATH_SEARCH)
        return cls(kind, paths, best[0])

    def values(self, rows: Tensor) -> Tensor:
        """The latent function of every subject at ``batch_shape x q x d`` rows."""
        with torch.no_grad():
            return self.paths(rows)[0]

    def _at_reference(self, parameters: Tensor) -> Tensor:
        rows = self.kind.space.at_reference(parameters).unsqueeze(-2)
        return self.paths(rows).squeeze(-1)

    def near(self, parameters: Tensor) -> Tensor:
        """The optimum that parameters lead to uphill, ``batch_shape x k``."""
        bounds = self.kind.space.parameter_bounds
        start = parameters.expand(1, *parameters.shape).unsqueeze(0)
        with torch.no_grad(), frozen(self.paths.model):
            found = maximize_from(self._at_reference, start, bounds, PATH_SEARCH)
        return found[0][0]

    def loss(self, parameters: Tensor) -> Tensor:
        """How much better the best parameters are than given ones, ``batch_shape``."""
        with torch.no_grad():
            best, other = (self._at_reference(x)[0] for x in (self.best, parameters))
            return (best - other).clamp_min(0.0)

    def answer(self, rows: Tensor) -> Tensor:
        """Answers to trials, ``batch_shape x n x 1``, given their stacked rows."""
        model = self.paths.model
        p = model.likelihood.probability(model.functional(self.values(rows)))
        return (torch.rand_like(p) < p).to(rows).unsqueeze(-1)


def simulate(name: str, subjects: int = SUBJECTS, seed: int = 0) -> pl.DataFrame:
    r"""Run the experiments of a kind and look at their intervals.

    Args:
        name: The name of the kind.
        subjects: The number of experiments; they run as one batch.
        seed: The seed of all random choices.

    Returns:
        For every experiment, checkpoint, quantity and way of inference whether the
        interval held the truth, and how wide it was.
    """
    torch.set_num_threads(1)
    kind = KINDS[name]
    frames = []
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
            if n in LEARN_AT:
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
        frames += _frames(found, name, n, inference)
    return pl.concat([*frames, look_at_averages(name, n, model, truth)])


def _frames(
    found: dict[str, Compared], name: str, n: int, inference: str
) -> list[pl.DataFrame]:
    frames = []
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
    return frames


def look_at_averages(
    name: str, n: int, model: LatentGP, truth: Subjects
) -> pl.DataFrame:
    """Intervals that allow for the hyperparameters, of a few experiments at a time."""
    with torch.no_grad():
        best = recommend(model, truth.kind.space)
    number = min(len(best), NUM_AVERAGED)
    parts = []
    for first in range(0, number, AT_ONCE):
        few = slice(first, first + AT_ONCE)
        averaged = AveragedGP(_take(model, truth.kind, few), NUM_SETS)
        parts.append(_averaged_bands(averaged, truth.kind.space, best[few]))
    bands = {
        quantity: _join([part[quantity] for part in parts]) for quantity in parts[0]
    }
    truths = _truths(model, truth, best)
    found = {
        quantity: (truths[quantity][:number], band) for quantity, band in bands.items()
    }
    return pl.concat(_frames(found, name, n, "averaged"))


def _join(bands: list[Band]) -> Band:
    return Band(*[torch.cat(ends) for ends in zip(*bands, strict=True)])


def _averaged_bands(
    averaged: AveragedGP, space: ContextSpace, best: Tensor
) -> dict[str, Band]:
    rows = _trial_rows(averaged.model, space, best)
    with torch.no_grad():
        draws = draw_optima(averaged, space, best, NUM_PATHS, 0, NUM_SAMPLES)
        high = draws.losses.quantile(CREDIBLE, dim=0)
        bands = {
            "probability": exact_probability_band(
                averaged, rows, CREDIBLE, NUM_SAMPLES
            ),
            **_intervals("parameter", draws.optima),
            **_intervals("local optimum", draws.near),
            "loss": Band(high, torch.zeros_like(high), high),
        }
        if space.num_contexts:
            line = _line(space, best)
            band = exact_latent_band(averaged, line, CREDIBLE, NUM_SAMPLES)
            bands["threshold"] = _falls(band)
    return bands


def _truths(model: LatentGP, truth: Subjects, best: Tensor) -> dict[str, Tensor]:
    rows = _trial_rows(model, truth.kind.space, best)
    success = model.likelihood.probability(model.functional(truth.values(rows)))
    truths = {
        "probability": success.squeeze(-1),
        **_by_column("parameter", truth.best),
        **_by_column("local optimum", truth.near(best)),
        "loss": truth.loss(best),
    }
    if truth.kind.space.num_contexts:
        truths["threshold"] = _true_threshold(truth, best)
    return truths


def _take(model: LatentGP, kind: Kind, few: slice) -> LatentGP:
    """Some experiments of a batch."""
    trials, targets = model.trials_by_kind()[0][1:]
    part = kind.make(trials[few], targets[few].unsqueeze(-1))
    number = model.batch_shape[0]
    state = {
        key: value[few] if value.ndim and value.shape[0] == number else value
        for key, value in model.state_dict().items()
    }
    part.load_state_dict(state)
    return part.eval()


def _probability(
    model: LatentGP, truth: Subjects, best: Tensor, inference: str
) -> Compared:
    """The success of the recommended parameters; for duels against the center."""
    rows = _trial_rows(model, truth.kind.space, best)
    functional = model.functional
    likelihood = model.likelihood
    true = likelihood.probability(functional(truth.values(rows))).squeeze(-1)
    with torch.no_grad():
        if inference == "exact":
            return true, exact_probability_band(model, rows, CREDIBLE, NUM_SAMPLES)
        return true, probability_band(model, rows, WIDTH)


def _trial_rows(model: LatentGP, space: ContextSpace, best: Tensor) -> Tensor:
    rows = space.at_reference(best).unsqueeze(-2)
    if model.functional.num_rows == 2:
        center = space.bounds.mean(dim=0).expand_as(rows)
        rows = torch.cat([rows, center], dim=-2)
    return rows


def _threshold(
    model: LatentGP, truth: Subjects, best: Tensor, inference: str
) -> Compared:
    """How hard a test with the recommended parameters may be, as a position."""
    points = _line(truth.kind.space, best)
    with torch.no_grad():
        if inference == "exact":
            band = exact_latent_band(model, points, CREDIBLE, NUM_SAMPLES)
        else:
            band = latent_band(model, points, WIDTH)
    return _true_threshold(truth, best), _falls(band)


def _line(space: ContextSpace, best: Tensor) -> Tensor:
    """Ever harder trials, ``LINE x batch_shape x d``: the first letters are large."""
    contexts = torch.linspace(1.0, -1.0, LINE, dtype=torch.double).unsqueeze(-1)
    return space.join(best.unsqueeze(-2), contexts).movedim(-2, 0)


def _true_threshold(truth: Subjects, best: Tensor) -> Tensor:
    line = _line(truth.kind.space, best).movedim(0, -2)  # batch_shape x LINE x d
    values = truth.values(line)
    first, last = values[..., 0], values[..., -1]
    true = (LINE - 1) * first / (first - last)  # a line in the context
    true = torch.where(true < 0, -torch.inf, true)
    return torch.where((true > LINE - 1) | (first <= last), torch.inf, true)


def _falls(band: Band) -> Band:
    return Band(*[first_fall(curve.movedim(0, -1), 0.0) for curve in band])


def _parameters(
    model: LatentGP, truth: Subjects, inference: str
) -> dict[str, Compared]:
    """Each of the best parameters, by the maxima of functions of the posterior."""
    space = truth.kind.space
    draw = draw_exact_paths if inference == "exact" else draw_sample_paths
    with torch.no_grad():
        paths = draw(model, NUM_PATHS, space.bounds, MAX_FEATURES, 0)
        optima, _ = maximize_paths(paths, space, options=ROUGH_PATH_SEARCH)
    bands = _intervals("parameter", optima)
    truths = _by_column("parameter", truth.best)
    return {quantity: (truths[quantity], band) for quantity, band in bands.items()}


def _by_column(name: str, parameters: Tensor) -> dict[str, Tensor]:
    columns = parameters.unbind(dim=-1)
    return {f"{name} {i + 1}": column for i, column in enumerate(columns)}


def _intervals(name: str, draws: Tensor) -> dict[str, Band]:
    """The interval of each parameter, between quantiles of its draws."""
    tails = [(1 - CREDIBLE) / 2, (1 + CREDIBLE) / 2]
    ends = np.quantile(draws.numpy(), tails, 0, method="weibull")
    low, high = (_by_column(name, torch.from_numpy(end)) for end in ends)
    return {key: Band(low[key], low[key], high[key]) for key in low}


def run(arguments: argparse.Namespace) -> None:
    r"""Run the simulations that are not finished, each in a process of its own.

    Args:
        arguments: The parsed command line.
    """
    folder = arguments.output / NAME
    missing = [n for n in KINDS if find_table(_path(folder, n)) is None]
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
    frame = read_tables(folder)
    sections = [
        "# The study `coverage`\n\nHow often 90 % intervals hold the truth, in "
        f"simulated experiments ({frame['subject'].n_unique()} of each kind, of which "
        f"{NUM_AVERAGED} are averaged over hyperparameters), with the standard error "
        "of such a share; the aim is "
        f"{AIM[0]:.0%} to {AIM[1]:.0%}. `python -m benchmarks run {NAME}` makes it.",
        read_conclusions(folder),
        format_coverage(frame),
    ]
    return write_sections(folder, sections)


def format_coverage(frame: pl.DataFrame) -> str:
    r"""The shares of intervals that held the truth, as a table.

    Args:
        frame: The results.
    """
    keys = ["kind", "quantity", "trials"]
    shares = frame.group_by([*keys, "inference"]).agg(
        pl.col("covered").mean().alias("share"), pl.len().alias("n")
    )
    rows = []
    for key, group in shares.sort(keys).group_by(keys, maintain_order=True):
        cells = {row["inference"]: row for row in group.to_dicts()}
        shown = [_cell(cells[i]) if i in cells else "" for i in INFERENCES]
        rows.append([*map(str, key), *shown])
    return format_table(["experiment", "quantity", "trials", *INFERENCES], rows)


def _cell(row: dict[str, float]) -> str:
    share = row["share"]
    n = row["n"]
    mark = "" if AIM[0] <= round(share, 3) <= AIM[1] else " *"
    return f"{100 * share:.1f} ± {100 * (share * (1 - share) / n) ** 0.5:.1f}{mark}"
