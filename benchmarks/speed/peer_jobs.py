r"""
The jobs of peers that need an environment of their own.

This file is run by the interpreter of that environment, and imports nothing of this
project: a peer may need other versions of the same packages. It reads a request from
its input and writes the processor times of the jobs, in seconds, as JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

Times = dict[str, list[float]]


def _seconds(job: Callable[[], object], repeats: int) -> list[float]:
    times = []
    for _ in range(repeats + 1):
        start = time.process_time()
        job()
        times.append(time.process_time() - start)
    return times[1:]  # the first call is a warm-up


def time_aepsych(X: list[list[float]], Y: list[float], repeats: int) -> Times:
    r"""A fit and a suggestion by AEPsych's classification model.

    Args:
        X: Trials in the unit cube.
        Y: Their outcomes.
        repeats: The number of times each job is done.

    Returns:
        The times of each job.
    """
    torch: Any = importlib.import_module("torch")
    models: Any = importlib.import_module("aepsych.models")
    generators: Any = importlib.import_module("aepsych.generators")
    acquisition: Any = importlib.import_module("aepsych.acquisition")
    objectives: Any = importlib.import_module("aepsych.acquisition.objective")
    torch.set_num_threads(1)
    inputs = torch.tensor(X, dtype=torch.double)
    labels = torch.tensor(Y, dtype=torch.double)
    dim = inputs.shape[-1]
    kept = []

    def fit() -> None:
        model = models.GPClassificationModel(dim=dim)
        model.fit(inputs, labels)
        kept.append(model)

    times = {"fit": _seconds(fit, repeats)}
    generator = generators.OptimizeAcqfGenerator(
        lb=torch.zeros(dim),
        ub=torch.ones(dim),
        acqf=acquisition.BernoulliMCMutualInformation,
        acqf_kwargs={"objective": objectives.ProbitObjective()},
    )
    times["suggest"] = _seconds(lambda: generator.gen(1, model=kept[-1]), repeats)
    return times


def time_trieste(X: list[list[float]], Y: list[float], repeats: int) -> Times:
    r"""A fit by Trieste's variational classifier.

    Args:
        X: Trials in the unit cube.
        Y: Their outcomes.
        repeats: The number of times each job is done.

    Returns:
        The times of each job.
    """
    np: Any = importlib.import_module("numpy")
    data: Any = importlib.import_module("trieste.data")
    space: Any = importlib.import_module("trieste.space")
    gpflow: Any = importlib.import_module("trieste.models.gpflow")
    inputs = np.array(X)
    outcomes = data.Dataset(inputs, np.array(Y)[:, None])
    box = space.Box([0.0] * inputs.shape[1], [1.0] * inputs.shape[1])

    def fit() -> None:
        built = gpflow.build_vgp_classifier(outcomes, box)
        model = gpflow.VariationalGaussianProcess(built)
        model.optimize(outcomes)

    return {"fit": _seconds(fit, repeats)}


JOBS = {"aepsych": time_aepsych, "trieste": time_trieste}


def main() -> None:
    r"""Answer one request."""
    warnings.simplefilter("ignore")
    request = json.load(sys.stdin)
    package = request.pop("package")
    try:
        importlib.import_module(package)
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))
        return
    times = JOBS[package](**request)
    print(json.dumps({"version": version(package), "times": times}))


if __name__ == "__main__":
    main()
