r"""
One task of a study: a rule on a function, all seeds as one batched model.

A seed fixes the first random trials of a function and, for every trial, the uniform
number that its outcome is drawn with; both are the same for all rules, and do not
depend on how many seeds or iterations there are. What a rule itself draws comes from a
seed of the study, the function, the rule and the iteration, for the whole batch.
"""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch
from torch import Tensor

from benchmarks.definitions import INITIAL_TRIALS, STUDIES, Study
from benchmarks.hyperparameters import Hyperparameters
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.models import BinaryLaplaceGP, PreferenceLaplaceGP
from botorch_binary_context.models.laplace_gp import LaplaceGP
from botorch_binary_context.problems import (
    ContextProblem,
    DuelContextProblem,
    make_objective,
)
from botorch_binary_context.rules import recommend, suggest

#: The columns of the results. ``score`` is the performance of the parameters that are
#: inferred to be best after an iteration, ``context`` the one of its trial, ``seconds``
#: the time to suggest the trials of all seeds, divided by their number.
SCHEMA = pl.Schema(
    {
        "study": pl.String,
        "function": pl.String,
        "rule": pl.String,
        "seed": pl.Int32,
        "iteration": pl.Int32,
        "score": pl.Float32,
        "context": pl.Float32,
        "seconds": pl.Float32,
    }
)

# Rules draw from the generator of the process, so a process runs one task at a time,
# also in a Dask worker with several threads.
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class Task:
    r"""What is computed as a whole: one rule on one function.

    Attributes:
        study: The name of the study.
        function: The name of the function.
        rule: The name of the rule.
        seeds: The number of repetitions.
        iterations: The number of trials after the random ones.
        hyperparameters: Those of the function.
        device: The device of the model.
    """

    study: str
    function: str
    rule: str
    seeds: int
    iterations: int
    hyperparameters: Hyperparameters
    device: str = "cpu"

    def __str__(self) -> str:
        return f"{self.rule} on {self.function}"


def derive_seed(*parts: str | int) -> int:
    r"""A seed that is the same in every process and on every machine.

    Args:
        parts: What the seed is for.

    Returns:
        A number of 32 bits.
    """
    text = "\n".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest())


def run_task(task: Task) -> pl.DataFrame:
    r"""Run the experiments of a task on one thread.

    Args:
        task: The task.

    Returns:
        The results, one row for every seed and iteration, in the columns of ``SCHEMA``.
    """
    with _ONE_AT_A_TIME:
        torch.set_num_threads(1)
        study = STUDIES[task.study]
        problem = study.problem(make_objective(task.function)).to(task.device)
        columns = _optimise(task, study, problem)
    seeds = np.repeat(np.arange(task.seeds), task.iterations)
    data = {
        "study": [task.study] * len(seeds),
        "function": [task.function] * len(seeds),
        "rule": [task.rule] * len(seeds),
        "seed": seeds,
        "iteration": np.tile(np.arange(1, task.iterations + 1), task.seeds),
    } | {name: column.flatten().cpu().numpy() for name, column in columns.items()}
    return pl.DataFrame(data).cast(SCHEMA)  # pyright: ignore[reportArgumentType]


def _optimise(task: Task, study: Study, problem: ContextProblem) -> dict[str, Tensor]:
    """Scores, contexts and times, each ``seeds x iterations``."""
    space = problem.space
    first, noise = draw_randomness(task, problem)
    model = _make_model(task, study, problem, first, noise[:, :INITIAL_TRIALS])
    rows: dict[str, list[Tensor]] = {"score": [], "context": [], "seconds": []}
    for i in range(task.iterations):
        seed = derive_seed(task.study, task.function, task.rule, i)
        start = time.perf_counter()
        points = suggest(model, space, task.rule, seed=seed)  # seeds x sides x d
        seconds = (time.perf_counter() - start) / task.seeds
        trial = points.unsqueeze(-3) if _is_duel(problem) else points
        labels = draw_labels(problem, trial, noise[:, [INITIAL_TRIALS + i]])
        model = model.condition_on_observations(trial, labels)
        rows["score"].append(problem.score(recommend(model, space)))
        rows["context"].append(points[:, 0, 0])
        rows["seconds"].append(torch.full((task.seeds,), seconds))
    return {name: torch.stack(column, dim=-1) for name, column in rows.items()}


def _is_duel(problem: ContextProblem) -> bool:
    return isinstance(problem, DuelContextProblem)


def draw_randomness(task: Task, problem: ContextProblem) -> tuple[Tensor, Tensor]:
    r"""What does not depend on the rule: the first trials, and the noise of outcomes.

    Args:
        task: The task.
        problem: The problem.

    Returns:
        The first trials, ``seeds x n x d`` or ``seeds x n x 2 x d`` for duels, and
        uniform numbers, ``seeds x (n + iterations)``.
    """
    sides = 2 if _is_duel(problem) else 1
    free = 1 + sides * problem.objective.dim
    generator = torch.Generator()
    first, noise = [], []
    for seed in range(task.seeds):
        generator.manual_seed(derive_seed(task.function, seed))
        for numbers, shape in (
            (first, (INITIAL_TRIALS, free)),
            (noise, (INITIAL_TRIALS + task.iterations,)),
        ):
            numbers.append(
                torch.rand(shape, generator=generator, dtype=torch.double, device="cpu")
            )
    trials = _to_trials(problem.space, torch.stack(first).to(task.device), sides)
    return trials, torch.stack(noise).to(task.device)


def _to_trials(space: ContextSpace, unit: Tensor, sides: int) -> Tensor:
    """Trials from free variables in the unit cube; a duel has one context."""
    low, high = space.context_bounds
    context = torch.lerp(low, high, unit[..., :1])
    parameters = unit[..., 1:].unflatten(-1, (sides, -1))
    trials = space.join(parameters, context.unsqueeze(-2))
    return trials if sides == 2 else trials.squeeze(-2)


def draw_labels(problem: ContextProblem, trials: Tensor, noise: Tensor) -> Tensor:
    r"""Outcomes of trials.

    Args:
        problem: The problem.
        trials: A ``seeds x n x d`` tensor, or ``seeds x n x 2 x d`` for duels.
        noise: A ``seeds x n`` tensor of uniform numbers.

    Returns:
        A ``seeds x n x 1`` tensor of zeros and ones.
    """
    return (noise < problem.success_probability(trials)).to(trials).unsqueeze(-1)


def _make_model(
    task: Task, study: Study, problem: ContextProblem, trials: Tensor, noise: Tensor
) -> LaplaceGP:
    """The model of the first trials, with the hyperparameters of the function."""
    model_class = PreferenceLaplaceGP if _is_duel(problem) else BinaryLaplaceGP
    labels = draw_labels(problem, trials, noise)
    kernel = study.kernel(task.hyperparameters).to(task.device)
    return model_class(trials, labels, covar_module=kernel)
