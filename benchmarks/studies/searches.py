r"""
``python -m benchmarks searches``: do searches find what they seek?

On models of the benchmark functions, what the search of a rule finds is compared with
the best of a dense multi-start. The loss is in units of the range of the criterion.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
import torch
from botorch.utils.sampling import manual_seed
from torch import Tensor

from benchmarks.studies import store
from benchmarks.studies.definitions import STUDIES
from benchmarks.studies.experiment import (
    Task,
    derive_seed,
    draw_labels,
    draw_randomness,
    make_case,
)
from benchmarks.studies.job_tables import find_table
from benchmarks.studies.table_study import write_tables
from benchmarks.tables import format_table
from botorch_binary_context.acquisition.analytic import BernoulliMutualInformation
from botorch_binary_context.acquisition.base import TrialAcquisitionFunction
from botorch_binary_context.acquisition.best_option import ExpectedBestOption
from botorch_binary_context.acquisition.entropy_search import (
    ContextualJointEntropySearch,
    maximize_paths,
)
from botorch_binary_context.acquisition.knowledge_gradient import (
    ContextualBinaryKnowledgeGradient,
)
from botorch_binary_context.acquisition.level_set import (
    ExpectedAbsoluteVolumeChange,
    GlobalMutualInformation,
    Straddle,
)
from botorch_binary_context.acquisition.moment_matched import (
    MomentMatchedKnowledgeGradient,
)
from botorch_binary_context.goals import AtReference
from botorch_binary_context.numerics.optim import SearchOptions, maximize
from botorch_binary_context.rules import Selection, frozen
from botorch_binary_context.rules.contexts import most_informative
from botorch_binary_context.rules.joint import (
    by_global_information,
    by_knowledge_gradient,
    by_moment_matched_knowledge_gradient,
    by_mutual_information,
    by_straddling,
    by_volume_change,
    search_entropy,
)
from botorch_binary_context.rules.parameters import (
    by_best_option,
    by_ucb,
    by_uncertain_challenge,
)
from botorch_binary_context.sampling.paths import draw_sample_paths
from botorch_binary_context.trials import TrialSpace

NAME = "searches"
FUNCTIONS = ("Six-Hump Camel", "Goldstein-Price", "Hartmann 3-D", "Hartmann 6D")
NUM_TRIALS = 25
SEEDS = 4
DENSE = SearchOptions(num_restarts=24, raw_samples=4096, max_evaluations=60)
# For criteria each of whose values is itself a search.
NESTED = SearchOptions(num_restarts=24, raw_samples=1024, max_evaluations=40)
LIMIT = 0.01

Score = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Criterion:
    r"""A criterion to maximize, and what the search of a rule found.

    Attributes:
        score: Maps ``r x batch_shape x k`` variables to values.
        bounds: The ``2 x k`` bounds of the variables.
        found: The value that the search of the rule found, ``batch_shape``.
        seconds: The processor time that it took.
        reference: The effort of the search that it is compared with.
    """

    score: Score
    bounds: Tensor
    found: Tensor
    seconds: float
    reference: SearchOptions = DENSE


def ucb(selection: Selection) -> Criterion:
    """The parameters of the largest bound."""
    goal = AtReference()
    model = selection.model
    space = selection.space

    def score(x: Tensor) -> Tensor:
        mean, variance = goal.probability_moments(model, space, x)
        return mean + 1.6448536269514722 * variance.sqrt()

    start = time.process_time()
    found = by_ucb(selection).squeeze(-2)
    seconds = time.process_time() - start
    return Criterion(score, space.parameter_bounds, score(found), seconds)


def path(selection: Selection) -> Criterion:
    """The maximum of a function drawn from the posterior."""
    space = selection.space
    goal = AtReference()
    paths = draw_sample_paths(selection.model, 1, space.bounds)

    def score(x: Tensor) -> Tensor:  # the one path is a dimension of its own
        rows = goal.rows(space, x).unsqueeze(1)
        return goal.combine(paths(rows), selection.model).squeeze(1)

    start = time.process_time()
    _, found = maximize_paths(paths, space, seed=0)
    seconds = time.process_time() - start
    return Criterion(score, space.parameter_bounds, found[0], seconds)


def _of_trials(
    selection: Selection,
    acqf: TrialAcquisitionFunction,
    search: Callable[[], Tensor],
) -> Criterion:
    """The search for a whole trial."""
    trials = selection.trials
    start = time.process_time()
    trial = search()
    seconds = time.process_time() - start
    return Criterion(
        lambda u: acqf.evaluate(trials.decode(u)),
        trials.bounds,
        acqf.evaluate(trial.unsqueeze(0))[0],
        seconds,
    )


def bald(selection: Selection) -> Criterion:
    """The most informative trial."""
    acqf = BernoulliMutualInformation(selection.model)
    return _of_trials(selection, acqf, lambda: by_mutual_information(selection))


def ald(selection: Selection) -> Criterion:
    """The most informative context, for parameters in the middle of the box."""
    space = selection.space
    middle = space.parameter_bounds.mean(dim=0)
    sides = torch.stack([middle, space.parameter_bounds[0]])
    sides = sides[: selection.trials.num_rows]
    parameters = sides.expand(*selection.model.batch_shape, *sides.shape)
    acqf = BernoulliMutualInformation(selection.model)

    def score(s: Tensor) -> Tensor:
        return acqf.evaluate(selection.test(parameters, s))

    start = time.process_time()
    found = most_informative(selection, parameters)
    seconds = time.process_time() - start
    return Criterion(score, space.context_bounds, score(found.unsqueeze(0))[0], seconds)


def muc(selection: Selection) -> Criterion:
    """The most uncertain challenger of the incumbent."""
    space = selection.space
    goal = AtReference()
    start = time.process_time()
    challenger, incumbent = by_uncertain_challenge(selection).unbind(dim=-2)
    seconds = time.process_time() - start

    def score(x: Tensor) -> Tensor:
        return goal.challenge(selection.model, space, x, incumbent)

    found = score(challenger.unsqueeze(0))[0]
    return Criterion(score, space.parameter_bounds, found, seconds)


def eubo(selection: Selection) -> Criterion:
    """The duel whose better side is expected to be best."""
    space = selection.space
    acqf = ExpectedBestOption(selection.model, space, AtReference())
    shape = 2, len(space.parameter_dims)
    start = time.process_time()
    duel = by_best_option(selection)
    seconds = time.process_time() - start
    return Criterion(
        lambda u: acqf.value_at(u.unflatten(-1, shape)),
        torch.cat([space.parameter_bounds] * 2, dim=-1),
        acqf.value_at(duel.unsqueeze(0))[0],
        seconds,
    )


def map_mi(selection: Selection) -> Criterion:
    """The trial that best shows where the threshold is crossed."""
    acqf = GlobalMutualInformation(selection.model, selection.space)
    return _of_trials(selection, acqf, lambda: by_global_information(selection))


def map_eavc(selection: Selection) -> Criterion:
    """The trial that changes the volume below the threshold most."""
    acqf = ExpectedAbsoluteVolumeChange(selection.model, selection.space)
    return _of_trials(selection, acqf, lambda: by_volume_change(selection))


def map_straddle(selection: Selection) -> Criterion:
    """The trial that is most uncertain near the threshold."""
    acqf = Straddle(selection.model)
    return _of_trials(selection, acqf, lambda: by_straddling(selection))


def cjes(selection: Selection) -> Criterion:
    """The trial that is most informative about the optimum."""
    acqf = ContextualJointEntropySearch(selection.model, selection.space)
    return _of_trials(selection, acqf, lambda: search_entropy(selection, acqf))


def mkg(selection: Selection) -> Criterion:
    """The trial of the largest knowledge gradient."""
    acqf = MomentMatchedKnowledgeGradient(selection.model, selection.space)
    return _of_trials(
        selection, acqf, lambda: by_moment_matched_knowledge_gradient(selection)
    )


def kg(selection: Selection) -> Criterion:
    """The trial of the largest knowledge gradient, by refitted posteriors."""
    acqf = ContextualBinaryKnowledgeGradient(selection.model, selection.space)
    criterion = _of_trials(selection, acqf, lambda: by_knowledge_gradient(selection))
    return replace(criterion, reference=NESTED)


CRITERIA = {
    "ucb": ucb,
    "path": path,
    "muc": muc,
    "eubo": eubo,
    "ald": ald,
    "bald": bald,
    "cjes": cjes,
    "mkg": mkg,
    "cbkg": kg,
    "kg": kg,
    "map-mi": map_mi,
    "map-eavc": map_eavc,
    "map-straddle": map_straddle,
}
# Criteria of one kind of trials only.
STUDY_OF = {
    "ucb": "threshold",
    "cbkg": "threshold",
    "kg": "duels",
    "map-mi": "threshold",
    "map-eavc": "threshold",
    "map-straddle": "threshold",
    "muc": "duels",
    "eubo": "duels",
}


def measure(study: str, function: str, name: str, seeds: int) -> pl.DataFrame:
    r"""The loss of one search on the models of one function.

    Args:
        study: ``threshold`` for pass/fail outcomes or ``duels``.
        function: The name of the function.
        name: The name of the criterion.
        seeds: The number of models.

    Returns:
        A row for every model.
    """
    torch.set_num_threads(1)
    load = STUDIES[study].load
    task = Task(study, function, name, seeds, NUM_TRIALS, load(function))
    case = make_case(task)
    _, noise = draw_randomness(task, case)
    box = TrialSpace(case.problem.space, case.problem.functional)
    with manual_seed(derive_seed(NAME, study, function)):
        rows = box.draw(torch.Size([seeds, NUM_TRIALS])).flatten(-3, -2)
    trials = case.problem.functional.trials(rows)
    labels = draw_labels(case.problem, trials, noise[:, :NUM_TRIALS])
    model = case.model(trials, labels).eval()
    selection = Selection(model, case.problem.space, SearchOptions())
    with manual_seed(0), frozen(model), torch.no_grad():
        criterion = CRITERIA[name](selection)
        best, lowest = _dense(criterion, model.batch_shape)
    best = torch.maximum(best, criterion.found)
    loss = (best - criterion.found) / (best - lowest).clamp_min(1e-12)
    return pl.DataFrame(
        {
            "study": [study] * seeds,
            "function": [function] * seeds,
            "criterion": [name] * seeds,
            "seed": list(range(seeds)),
            "loss": loss.tolist(),
            "seconds": [criterion.seconds / seeds] * seeds,
        }
    )


def _dense(criterion: Criterion, shape: torch.Size) -> tuple[Tensor, Tensor]:
    """The largest and the smallest value that a dense search meets."""
    low, high = criterion.bounds
    U = torch.rand(512, *shape, len(low), dtype=low.dtype)
    lowest = criterion.score(low + (high - low) * U).amin(dim=0)
    _, best = maximize(
        criterion.score, criterion.bounds, shape, criterion.reference, seed=1
    )
    return best, lowest


def cases(seeds: int) -> Iterator[tuple[str, str, str, int]]:
    r"""All cases.

    Args:
        seeds: The number of models of each function.

    Yields:
        The arguments of :func:`measure`.
    """
    for name in CRITERIA:
        for study in ("threshold", "duels"):
            if STUDY_OF.get(name, study) == study:
                for function in FUNCTIONS:
                    yield study, function, name, seeds


def run(arguments: argparse.Namespace) -> None:
    r"""Measure the cases that are not finished, and print the table.

    Args:
        arguments: The parsed command line.
    """
    folder = arguments.output / NAME
    for case in cases(arguments.seeds):
        path = store.result_path(folder, f"{case[0]} {case[1]}", case[2])
        if find_table(path) is None:
            store.save(measure(*case), path)
    print(write_report(arguments.output).read_text(encoding="utf-8"))


def write_report(root: Path) -> Path:
    r"""Write the report.

    Args:
        root: The folder of all results.

    Returns:
        The path of the Markdown file.
    """
    return write_tables(root / NAME, _describe)


def _describe(frame: pl.DataFrame) -> list[str]:
    """The sections of the report."""
    rows = []
    for key, group in frame.group_by(["study", "criterion"], maintain_order=True):
        loss = group["loss"]
        lost = int((loss > LIMIT).sum())
        seconds = group["seconds"].mean()
        share = f"{lost} of {len(loss)}"
        worst = f"{100 * loss.max():.1f} %"  # pyright: ignore
        rows.append([f"`{key[1]}`", key[0], share, worst, f"{1000 * seconds:.0f}"])  # pyright: ignore
    header = ["criterion", "study", "more than 1 % lost", "largest loss", "ms"]
    return [
        "# Searches\n\nWhat the searches of rules lose against a dense multi-start, "
        f"in units of the range of the criterion, on {len(FUNCTIONS)} functions. "
        f"`python -m benchmarks {NAME}` makes it.",
        format_table(header, rows),
    ]


def add_command(commands: argparse._SubParsersAction) -> None:
    r"""Add the command to the command line.

    Args:
        commands: Where to add it.
    """
    parser = commands.add_parser(NAME, help="what searches lose")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--output", type=Path, default=store.RESULTS)
    parser.set_defaults(run=run)
