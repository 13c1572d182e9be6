r"""
One task of a study: a rule on a function, all seeds as one batched model.

A seed fixes the first random trials of a function and, for every trial, the uniform
number with which its outcome is drawn; both are the same for all rules, and do not
depend on how many seeds or iterations there are. The random numbers of a rule itself
come from a seed of the study, the function, the rule and the iteration, for the whole
batch.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import torch
from botorch.fit import fit_gpytorch_mll
from torch import Tensor

from benchmarks.studies.cases import Case
from benchmarks.studies.definitions import STUDIES
from benchmarks.studies.study import INITIAL_TRIALS
from botorch_binary_context.models import ApproximateMarginalLogLikelihood
from botorch_binary_context.problems import ContextProblem
from botorch_binary_context.rules import recommend, suggest
from botorch_binary_context.trials import TrialSpace

#: The columns of the results. ``score`` is the performance of the parameters that are
#: inferred to be best after an iteration or, where trials come in batches, after its
#: batch, ``context`` the (first) one of its trial, ``seconds`` the time to suggest the
#: trials of all seeds, divided by their number.
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
#: The type of further columns, those of :attr:`.Case.errors`.
FURTHER = pl.Float32

# The last digits of the hyperparameters of a whole batch are not worth their time.
FIT_OPTIONS = {"ftol": 1e-6}
# Rules draw from the generator of the process, so a process runs one task at a time,
# also in a Dask worker with several threads.
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class Task:
    r"""The unit of computation: one rule on one function.

    Attributes:
        study: The name of the study.
        function: The name of the function.
        rule: The name of the rule.
        seeds: The number of repetitions.
        iterations: The number of trials after the random ones.
        hyperparameters: The hyperparameters of the function, as its study loads them.
        device: The device of the model.
    """

    study: str
    function: str
    rule: str
    seeds: int
    iterations: int
    hyperparameters: Any
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
        The results, one row for every seed and iteration, in the columns of ``SCHEMA``
        and those of :attr:`.Case.errors`.
    """
    with _ONE_AT_A_TIME:
        torch.set_num_threads(1)
        columns = _optimize(task, make_case(task))
    seeds = np.repeat(np.arange(task.seeds), task.iterations)
    data = {
        "study": [task.study] * len(seeds),
        "function": [task.function] * len(seeds),
        "rule": [task.rule] * len(seeds),
        "seed": seeds,
        "iteration": np.tile(np.arange(1, task.iterations + 1), task.seeds),
    } | {name: column.flatten().cpu().numpy() for name, column in columns.items()}
    further = {name: FURTHER for name in data if name not in SCHEMA}
    schema = pl.Schema({**SCHEMA, **further})
    frame = pl.DataFrame(data).select(schema.names())
    return frame.cast(schema)  # pyright: ignore[reportArgumentType]


def make_case(task: Task) -> Case:
    r"""The problem of a task and the model that is made of it, on its device.

    Args:
        task: The task.
    """
    study = STUDIES[task.study]
    case = study.case(task.function, task.hyperparameters, task.seeds)
    return replace(case, problem=case.problem.to(task.device))


def _optimize(task: Task, case: Case) -> dict[str, Tensor]:
    """Scores, contexts and times, each ``seeds x iterations``, and further columns."""
    problem = case.problem
    space = case.problem.space
    first, noise = draw_randomness(task, case)
    labels = draw_labels(problem, first, noise[:, :INITIAL_TRIALS])
    model = case.model(first, labels)
    study = STUDIES[task.study]
    options = study.searches.get(task.rule, study.effort)
    rows = defaultdict(list)
    for i in range(0, task.iterations, case.batch_size):
        seed = derive_seed(task.study, task.function, task.rule, i)
        q = min(case.batch_size, task.iterations - i)
        start = time.perf_counter()
        trials = suggest(model, space, task.rule, options, seed, q, goal=case.goal)
        seconds = (time.perf_counter() - start) / (task.seeds * q)
        done = INITIAL_TRIALS + i
        labels = draw_labels(problem, trials, noise[:, done : done + q])
        model = model.condition_on_observations(trials, labels)
        if not case.refits.isdisjoint(range(done + 1, done + q + 1)):
            # Learn during the experiment, starting from the former hyperparameters.
            mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
            fit_gpytorch_mll(mll, optimizer_kwargs={"options": FIT_OPTIONS})
        for trial in trials.unbind(dim=1):
            rows["context"].append(problem.functional.rows(trial.unsqueeze(1))[:, 0, 0])
            rows["seconds"].append(noise.new_full((task.seeds,), seconds))
        if (i + q) % study.measure_every == 0 or i + q == task.iterations:
            best = recommend(model, space, study.effort, goal=case.goal)
            best = best.unsqueeze(-2)  # seeds x 1 x (d - m)
            found = {"score": problem.score(best).squeeze(-1)}
            for name, value in (found | case.errors(problem, best)).items():
                rows[name] += [value] * (i + q - len(rows[name]))
    return {name: torch.stack(column, dim=-1) for name, column in rows.items()}


def draw_randomness(task: Task, case: Case) -> tuple[Tensor, Tensor]:
    r"""What does not depend on the rule: the first trials, and the noise of outcomes.

    Args:
        task: The task.
        case: Its case.

    Returns:
        The first trials, ``seeds x n x d`` or ``seeds x n x 2 x d`` for duels, and
        uniform numbers, ``seeds x (n + iterations)``.
    """
    functional = case.problem.functional
    box = TrialSpace(case.problem.space, functional)
    free = box.bounds.shape[-1]
    generator = torch.Generator()
    first = []
    noise = []
    for seed in range(task.seeds):
        generator.manual_seed(derive_seed(case.randomness, seed))
        for numbers, shape in (
            (first, (INITIAL_TRIALS, free)),
            (noise, (INITIAL_TRIALS + task.iterations,)),
        ):
            numbers.append(
                torch.rand(shape, generator=generator, dtype=torch.double, device="cpu")
            )
    rows = box.scale(torch.stack(first).to(task.device)).flatten(-3, -2)
    return functional.trials(rows), torch.stack(noise).to(task.device)


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
