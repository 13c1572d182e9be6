r"""
The kernel of each benchmark function, chosen as in section 4 of the paper.

``python -m benchmarks hyperparameters`` fits the three kernels to 1000 random samples
of each function by maximum likelihood and predicts 3000 other points; the kernel with
the lowest error is the function's. The functions are scaled, ``log1p`` first where the
authors take the logarithm, and live in the unit cube. Lengthscales are in its units,
bounded to ``LENGTHSCALE_BOUNDS``; the output scale is bounded to
``OUTPUTSCALE_BOUNDS`` (see :mod:`benchmarks.studies.regression`).

Every function is written to the data file when it is finished, and functions in the
file are not computed again: a run that was killed resumes. Delete the file to start
over.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from botorch.exceptions import InputDataError
from tqdm import tqdm

from benchmarks.studies.regression import KERNELS, Fit, fit_kernel, predict
from botorch_binary_context.problems import (
    BENCHMARKS,
    BinaryContextProblem,
    get_benchmark,
    make_objective,
)

PATH = Path(__file__).with_suffix(".json")
NUM_SAMPLES = 1000
NUM_TEST_POINTS = 3000
SEED = 0


@dataclass(frozen=True)
class Hyperparameters(Fit):
    r"""The kernel of a benchmark function; lengthscales are in units of the unit cube.

    Attributes:
        rmse: The error of the prediction with each of the three kernels.
    """

    rmse: Mapping[str, float]


def load(
    name: str, kernel: str | None = None, path: Path | None = None
) -> Hyperparameters:
    r"""The hyperparameters of a benchmark function.

    Args:
        name: The name in the paper.
        kernel: The kernel, by default the one with the lowest error.
        path: The data file, by default the one of the package.

    Example:
        >>> covar_module = load("Levy").covar_module()
        >>> load("Levy", kernel=get_benchmark("Levy").kernel)  # the paper's kernel
    """
    get_benchmark(name)
    results = read(PATH if path is None else path)
    if name not in results:
        raise InputDataError(f"Expected hyperparameters of {name!r} in the data file.")
    return choose(results[name], kernel)


def choose(
    result: Mapping[str, Mapping[str, Any]], kernel: str | None = None
) -> Hyperparameters:
    r"""The kernel with the lowest error.

    Args:
        result: The result of :func:`compare_kernels`.
        kernel: The kernel to take instead.
    """
    rmse = {name: fit["rmse"] for name, fit in result.items()}
    chosen = min(rmse, key=rmse.__getitem__) if kernel is None else kernel
    if chosen not in rmse:
        raise InputDataError(
            f"Expected ``kernel`` to be one of {list(rmse)}, but got {kernel!r}."
        )
    fit = {**result[chosen], "lengthscales": tuple(result[chosen]["lengthscales"])}
    return Hyperparameters(**{**fit, "kernel": chosen, "rmse": rmse})


def compare_kernels(name: str) -> dict[str, dict[str, Any]]:
    r"""Fit the three kernels to samples of a function and predict other points.

    Args:
        name: The name in the paper.

    Returns:
        For each kernel ``lengthscales``, ``outputscale``, ``log_likelihood`` and
        ``rmse``.
    """
    problem = BinaryContextProblem(make_objective(name))
    generator = torch.Generator().manual_seed(SEED)
    shape = (NUM_SAMPLES + NUM_TEST_POINTS, problem.objective.dim)
    X = torch.rand(shape, dtype=torch.double, generator=generator)
    Y = problem.score(X)
    train = slice(None, NUM_SAMPLES)
    test = slice(NUM_SAMPLES, None)
    result = {}
    for kernel in KERNELS:
        fit = fit_kernel(kernel, X[train], Y[train])
        error = predict(fit, X[train], Y[train], X[test]) - Y[test]
        result[kernel] = asdict(fit) | {"rmse": error.square().mean().sqrt().item()}
        del result[kernel]["kernel"]
    return result


def read(path: Path) -> dict[str, dict[str, dict[str, Any]]]:
    r"""The results in a data file, by function and kernel.

    Args:
        path: The file, which may not exist yet.
    """
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def add(path: Path, name: str, result: Mapping[str, Any]) -> None:
    r"""Add a function to a data file, which is replaced in one step.

    Args:
        path: The file.
        name: The name in the paper.
        result: The result of :func:`compare_kernels`.
    """
    results = {**read(path), name: result}
    ordered = {key: results[key] for key in BENCHMARKS if key in results}
    text = json.dumps(ordered, indent=2, ensure_ascii=False) + "\n"
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=path.name, delete=False
    ) as file:
        file.write(text)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def make(names: Iterable[str], path: Path, workers: int = 1) -> None:
    r"""Compute the functions that a data file lacks.

    Args:
        names: The names in the paper.
        path: The file.
        workers: The number of processes, each with one thread.
    """
    finished = read(path)
    missing = [name for name in names if name not in finished]
    results = tqdm(
        _results(missing, workers),
        desc="hyperparameters",
        unit="function",
        total=len(missing),
    )
    for name, result in results:
        add(path, name, result)


def _results(
    names: list[str], workers: int
) -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:
    if workers == 1:
        yield from ((name, compare_kernels(name)) for name in names)
        return
    with ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), torch.set_num_threads, (1,)
    ) as pool:
        futures = {pool.submit(compare_kernels, name): name for name in names}
        for future in as_completed(futures):
            yield futures[future], future.result()


def format_choices(choices: Mapping[str, Hyperparameters]) -> str:
    r"""The choices as a Markdown table, and how many are the paper's.

    Args:
        choices: Hyperparameters by function.
    """
    lines = [
        f"| function | chosen | paper | {' | '.join(KERNELS)} |",
        "|---|---|---|" + "---:|" * len(KERNELS),
    ]
    for name, choice in choices.items():
        errors = " | ".join(f"{choice.rmse[kernel]:.2g}" for kernel in KERNELS)
        paper = BENCHMARKS[name].kernel
        lines.append(f"| {name} | {choice.kernel} | {paper} | {errors} |")
    same = sum(BENCHMARKS[name].kernel == x.kernel for name, x in choices.items())
    total = f"The chosen kernel is the paper's on {same} of {len(choices)} functions."
    return "\n".join([*lines, "", total])


def add_command(commands: Any) -> None:
    r"""Add ``hyperparameters`` to the command line.

    Args:
        commands: The result of ``add_subparsers``.
    """
    parser = commands.add_parser(
        "hyperparameters", help="choose the kernel of each function"
    )
    parser.add_argument(
        "--functions", nargs="+", choices=BENCHMARKS, default=list(BENCHMARKS),
        metavar="NAME", help="names in the paper, by default all",
    )  # fmt: skip
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--output", type=Path, default=PATH, help="the data file")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    r"""Complete the data file and print the choices.

    Args:
        arguments: The parsed command line.
    """
    torch.set_num_threads(1)
    make(arguments.functions, arguments.output, arguments.workers)
    results = read(arguments.output)
    print(format_choices({name: choose(results[name]) for name in arguments.functions}))
