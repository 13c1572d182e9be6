r"""
``python -m benchmarks information``: what are richer answers worth?

The same simulated observers answer by pass or fail, by pass or fail with a confidence,
or by one of five ratings; or they compare lenses by plain duels, by duels with ties or
by naming the best of three. Answers of one kind of trials come from one latent value
and one draw of noise, cut at more or fewer thresholds; so they differ only in what is
told. The models do not know the thresholds, and learn them with the other
hyperparameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

import polars as pl
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import Normalize
from torch import Tensor
from torch.quasirandom import SobolEngine

from benchmarks.studies.experiment import FIT_OPTIONS, derive_seed
from benchmarks.studies.maps import contrast_sensitivity
from benchmarks.studies.table_study import Job, TableStudy
from benchmarks.tables import format_mean, format_table
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.inference import Laplace
from botorch_binary_context.likelihoods import (
    ConfidenceLikelihood,
    OutcomeLikelihood,
    PreferenceLikelihood,
    ProbitLikelihood,
    RatingLikelihood,
    TiesLikelihood,
)
from botorch_binary_context.likelihoods.best_of import NOISE
from botorch_binary_context.models import (
    ApproximateMarginalLogLikelihood,
    BestOfGP,
    PreferenceGP,
    psychometric_gp,
)
from botorch_binary_context.models.defaults import duel_covar_module
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.optim import SearchOptions
from botorch_binary_context.problems import POWER_VECTOR, RefractionProblem
from botorch_binary_context.problems.answers import answer
from botorch_binary_context.problems.refraction import visual_acuity
from botorch_binary_context.rules import recommend, suggest, suggest_contest
from botorch_binary_context.trials import TrialSpace

NAME = "information"
FIRST_TRIALS = 5
TRIALS = 50
SEEDS = 40
CHECKPOINTS = tuple(range(10, TRIALS + 1, 5))
SHOWN = (20, 30, 40, 50)
LEARN_AT = (10, 20, 30, 40)
SEARCH = SearchOptions(num_restarts=4, raw_samples=128, max_evaluations=20)
OBSERVER_SLOPE = 5.0
#: The distances between the observers' thresholds, which the models do not know.
WIDTH = 1.2
TIE = 0.7

Likelihoods = Callable[[torch.Size, bool], OutcomeLikelihood]
#: The likelihoods of the observer (nothing is learned) and of the model.
OUTCOMES: dict[str, Likelihoods] = {
    "pass/fail": lambda shape, learn: ProbitLikelihood(),
    "confidence": lambda shape, learn: ConfidenceLikelihood(
        widths=None if learn else [WIDTH] * 2, learn_widths=learn, batch_shape=shape
    ),
    "five ratings": lambda shape, learn: RatingLikelihood(
        5, widths=None if learn else [WIDTH] * 3, learn_widths=learn, batch_shape=shape
    ),
}
DUELS: dict[str, Likelihoods] = {
    "duels": lambda shape, learn: PreferenceLikelihood(),
    "ties": lambda shape, learn: (
        TiesLikelihood(batch_shape=shape)
        if learn
        else TiesLikelihood(TIE, learn_width=False)
    ),
}
#: The rules that choose three settings, of which the best is named.
CONTESTS = {"best of three": "qeubo", "best of three by mkg": "mkg"}
NUM_OPTIONS = 3
PROBLEMS = ("refraction", "threshold")


def score(problem: str, x: Tensor) -> Tensor:
    r"""How good parameters are; the best have 0.

    Args:
        problem: The name of the problem.
        x: The error of the parameters, ``... x k``: how far they are from the best.

    Returns:
        A tensor without the last dimension.
    """
    if problem == "refraction":
        return -visual_acuity(x)
    context = torch.zeros_like(x[..., 0])
    best = contrast_sensitivity(context + 0.2, context)
    return (contrast_sensitivity(x[..., 0] + 0.2, context) - best) / OBSERVER_SLOPE


def box(problem: str) -> ContextSpace:
    """The trials of a problem: the context first, from too hard to too easy."""
    if problem == "refraction":
        return RefractionProblem(slope=OBSERVER_SLOPE).space
    bounds = torch.tensor([[-1.0, -1.0], [1.0, 1.0]], dtype=torch.double)
    return ContextSpace(bounds, [0], [0.0])


@dataclass(frozen=True)
class Task:
    r"""One kind of answers on one problem, all seeds as a batch.

    Attributes:
        problem: The name of the problem.
        answers: The name of the kind of answers.
        seeds: The number of repetitions.
    """

    problem: str
    answers: str
    seeds: int

    @property
    def name(self) -> str:
        """A name for the file of results."""
        return f"{self.problem}-{self.answers}".replace("/", "-").replace(" ", "-")

    @property
    def is_duel(self) -> bool:
        """Whether two sets of parameters are compared."""
        return self.answers in DUELS

    @property
    def is_contest(self) -> bool:
        """Whether the best of several is named."""
        return self.answers in CONTESTS

    @property
    def space(self) -> ContextSpace:
        """The box of the trials; a context that both sides share changes nothing."""
        space = box(self.problem)
        if self.answers in OUTCOMES:
            return space
        return ContextSpace(space.parameter_bounds, [], [])

    def likelihood(self, learn: bool) -> OutcomeLikelihood:
        """The likelihood of the observer, or of the model, which learns thresholds."""
        make = (DUELS if self.is_duel else OUTCOMES)[self.answers]
        return make(torch.Size([self.seeds]), learn)

    def best(self) -> Tensor:
        """The best parameters of each observer, ``seeds x k``."""
        low, high = box(self.problem).parameter_bounds
        generator = torch.Generator().manual_seed(derive_seed(NAME, self.problem))
        u = torch.rand(self.seeds, len(low), generator=generator, dtype=torch.double)
        return low + (high - low) * (0.25 + 0.5 * u)


def run_task(task: Task) -> pl.DataFrame:
    r"""Run the experiments of a task.

    Args:
        task: The task.

    Returns:
        A row for every seed and checkpoint.
    """
    torch.set_num_threads(1)
    if task.is_contest:
        return run_contests(task)
    observer = task.likelihood(False)
    space = task.space
    functional = observer.functional
    best = task.best()
    first = TrialSpace(space, functional).draw_quasi_random(
        FIRST_TRIALS, derive_seed(NAME, task.problem)
    )
    first = first.expand(task.seeds, *first.shape)
    noise = _draw_noise(task)
    rows = functional.trials(first.flatten(-3, -2))
    Y = _answer(task, observer, rows, best, noise[:, :FIRST_TRIALS])
    model = _make_model(task, rows, Y)
    frames = []
    for i in range(FIRST_TRIALS, TRIALS):
        seed = derive_seed(task.name, i)
        trial = suggest(model, space, _rule(task), SEARCH, seed)
        answer = _answer(task, observer, trial, best, noise[:, i : i + 1])
        model = model.condition_on_observations(trial, answer)
        frames += _learn_and_check(task, model, best, i + 1)
    return pl.concat(frames)


def run_contests(task: Task) -> pl.DataFrame:
    r"""The same for contests, whose settings have noise of their own.

    Args:
        task: The task.

    Returns:
        A row for every seed and checkpoint.
    """
    space = task.space
    best = task.best()
    generator = torch.Generator().manual_seed(derive_seed(NAME, "noise", task.problem))
    k = NUM_OPTIONS
    shape = task.seeds, TRIALS, k
    noise = torch.randn(shape, generator=generator, dtype=torch.double)

    def name_winner(trials: Tensor, noise: Tensor) -> Tensor:
        error = trials - best[:, None, None]
        f = OBSERVER_SLOPE * score(task.problem, error) + NOISE**0.5 * noise
        return f.argmax(dim=-1, keepdim=True).to(trials)

    low, high = space.bounds
    sobol = SobolEngine(k * space.dim, seed=derive_seed(NAME, task.problem) % 2**31)
    first = sobol.draw(FIRST_TRIALS, dtype=torch.double)
    rows = low + (high - low) * first.unflatten(-1, (k, space.dim))
    rows = rows.expand(task.seeds, *rows.shape)
    model = BestOfGP(
        rows,
        name_winner(rows, noise[:, :FIRST_TRIALS]),
        covar_module=duel_covar_module(space.dim, torch.Size([task.seeds])),
        input_transform=Normalize(space.dim, bounds=space.bounds),
        inference=Laplace(),
    )
    frames = []
    for i in range(FIRST_TRIALS, TRIALS):
        seed = derive_seed(task.name, i)
        rule = CONTESTS[task.answers]
        trial = suggest_contest(model, space, k, None, SEARCH, seed, rule)
        winner = name_winner(trial, noise[:, i : i + 1])
        model = model.condition_on_contests(trial, winner)
        frames += _learn_and_check(task, model, best, i + 1)
    return pl.concat(frames)


def _learn_and_check(
    task: Task, model: LatentGP, best: Tensor, trials: int
) -> list[pl.DataFrame]:
    """Learn hyperparameters and measure the loss, each when it is due."""
    if trials in LEARN_AT:
        mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
        fit_gpytorch_mll(mll, optimizer_kwargs={"options": FIT_OPTIONS})
        model.eval()
    if trials not in CHECKPOINTS:
        return []
    found = recommend(model, task.space).detach()
    return [_as_frame(task, trials, -score(task.problem, found - best))]


def _rule(task: Task) -> str:
    return "eubo-ald" if task.is_duel else "ucb99-ald"


def _draw_noise(task: Task) -> Tensor:
    """Uniform numbers, the same for all kinds of answers."""
    generator = torch.Generator().manual_seed(derive_seed(NAME, "noise", task.problem))
    return torch.rand(task.seeds, TRIALS, generator=generator, dtype=torch.double)


def _answer(
    task: Task, observer: OutcomeLikelihood, trials: Tensor, best: Tensor, noise: Tensor
) -> Tensor:
    """The answers of all observers to ``seeds x n`` trials, ``seeds x n x 1``."""
    space = task.space
    functional = observer.functional
    shifted = best.unsqueeze(-2) if functional.num_rows == 1 else best[:, None, None]
    latent = OBSERVER_SLOPE * score(task.problem, space.parameters(trials) - shifted)
    if functional.num_rows == 1:
        latent = latent + OBSERVER_SLOPE * space.contexts(trials).squeeze(-1)
    else:
        latent = functional(latent.flatten(-2))
    return answer(observer, latent, noise).unsqueeze(-1)


def _make_model(task: Task, X: Tensor, Y: Tensor) -> LatentGP:
    likelihood = task.likelihood(True)
    if task.is_duel:
        return PreferenceGP(
            X,
            Y,
            likelihood=likelihood,
            input_transform=Normalize(task.space.dim, bounds=task.space.bounds),
            inference=Laplace(),
        )
    return psychometric_gp(
        X,
        Y,
        task.space,
        combinations=POWER_VECTOR if task.problem == "refraction" else None,
        inference=Laplace(),
        likelihood=likelihood,
    )


def _as_frame(task: Task, trials: int, loss: Tensor) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "problem": [task.problem] * task.seeds,
            "answers": [task.answers] * task.seeds,
            "trials": [trials] * task.seeds,
            "seed": list(range(task.seeds)),
            "loss": loss.tolist(),
        }
    )


def tasks(seeds: int) -> Iterator[Task]:
    r"""All tasks of the study.

    Args:
        seeds: The number of repetitions.

    Yields:
        The tasks.
    """
    for problem, answers in product(PROBLEMS, (*OUTCOMES, *DUELS, *CONTESTS)):
        yield Task(problem, answers, seeds)


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
        f"# The study `{NAME}`\n\nThe mean loss of the recommended parameters, in "
        "units of the context, after some trials "
        f"({frame['seed'].n_unique()} observers, with standard errors), and after how "
        "many trials richer answers have the mean loss that plain ones have at the "
        f"end. `python -m benchmarks {NAME}` makes it.",
        _format(frame),
    ]


def _format(frame: pl.DataFrame) -> str:
    """The table of losses, with the trials that reach the plain kind's last loss."""
    rows = []
    for problem, plain in product(PROBLEMS, (OUTCOMES, (*DUELS, *CONTESTS))):
        goal = math.nan
        for answers in plain:
            group = frame.filter(pl.col("problem") == problem)
            group = group.filter(pl.col("answers") == answers)
            if group.is_empty():
                continue
            losses = {
                n: group.filter(pl.col("trials") == n)["loss"] for n in CHECKPOINTS
            }
            means = {n: float(values.mean()) for n, values in losses.items()}  # pyright: ignore
            goal = means[TRIALS] if math.isnan(goal) else goal
            reached = trials_to_reach(means, goal)
            cells = [format_mean(losses[n], 3) for n in SHOWN]
            rows.append([problem, answers, *cells, reached])
    header = ["problem", "answers", *(f"after {n}" for n in SHOWN)]
    return format_table([*header, f"as good as plain after {TRIALS}"], rows)


def trials_to_reach(means: dict[int, float], goal: float) -> str:
    r"""The first checkpoint from which on a mean loss stays below a goal.

    Args:
        means: The mean loss at every checkpoint.
        goal: The goal.

    Returns:
        The number of trials, as a text.
    """
    reached = [n for n in means if all(v <= goal for m, v in means.items() if m >= n)]
    return str(min(reached)) if reached else f"> {max(means)}"


STUDY = TableStudy(NAME, "what richer answers are worth", SEEDS, jobs, _describe)
