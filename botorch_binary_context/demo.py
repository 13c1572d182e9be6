r"""
A simulated experiment from start to end: ``python -m botorch_binary_context.demo``.

A system has two parameters and a quality that nobody can measure. A test of chosen
difficulty is passed or failed. Twenty repetitions run as one batched model; the
difficulty of each test is chosen by what its outcome would teach, or, for comparison,
at random, or fixed at the difficulty that counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import torch
from gpytorch.kernels import ConstantKernel, RBFKernel, ScaleKernel
from torch import Tensor
from torch.special import ndtr
from tqdm import tqdm

from botorch_binary_context.context import ContextSpace
from botorch_binary_context.kernels import AdditiveContextKernel
from botorch_binary_context.models import BinaryLaplaceGP
from botorch_binary_context.rules import recommend, suggest

SLOPE = 3.0
RULES = {
    "ucb-ald": "difficulty chosen",
    "ucb-random": "difficulty at random",
    "ucb-fixed": "always the hard test",
}


@dataclass(frozen=True)
class Run:
    r"""What one rule did.

    Attributes:
        trials: The trials, ``repetitions x n x 3``, the difficulty first.
        outcomes: Their outcomes, ``repetitions x n x 1``.
        quality: The quality of the recommendation after each trial,
            ``repetitions x iterations``.
        best: The last recommendations, ``repetitions x 2``.
    """

    trials: Tensor
    outcomes: Tensor
    quality: Tensor
    best: Tensor


def quality(x: Tensor) -> Tensor:
    r"""The hidden quality of parameters: a high and narrow peak beside a broad one.

    Args:
        x: A ``... x 2`` tensor in the unit square.

    Returns:
        A ``...`` tensor, at most about 2.
    """
    high = 2.9 * (-((x - x.new_tensor([0.3, 0.75])) / 0.15).square().sum(-1) / 2).exp()
    broad = 1.9 * (-((x - x.new_tensor([0.75, 0.3])) / 0.25).square().sum(-1) / 2).exp()
    return high + broad - 0.9


def run_test(trials: Tensor) -> Tensor:
    r"""Outcomes of tests: ``p(pass) = Φ(a (g(x) - t))`` with the difficulty ``t``.

    Args:
        trials: A ``... x 3`` tensor, the difficulty first.

    Returns:
        A ``... x 1`` tensor of zeros and ones.
    """
    margin = SLOPE * (quality(trials[..., 1:]) - trials[..., 0])
    return torch.bernoulli(ndtr(margin)).unsqueeze(-1)


def make_space() -> ContextSpace:
    r"""Difficulties from -2 to 3; the system is to pass hard tests, at 2.5."""
    bounds = torch.tensor(
        [[-2.0, 0.0, 0.0], [3.0, 1.0, 1.0]],
        dtype=torch.float64,
        device=torch.get_default_device(),
    )
    return ContextSpace(bounds, context_dims=[0], reference_context=[2.5])


def make_model(trials: Tensor, outcomes: Tensor) -> BinaryLaplaceGP:
    r"""The surrogate, ``θ t t' + k(x,x') + constant``, hyperparameters set by hand.

    Args:
        trials: A ``repetitions x n x 3`` tensor.
        outcomes: A ``repetitions x n x 1`` tensor.

    Returns:
        The model.
    """
    base_kernel = RBFKernel(ard_num_dims=2)
    base_kernel.lengthscale = torch.full((1, 2), 0.2, device=trials.device)
    smooth = ScaleKernel(base_kernel)
    smooth.outputscale = 9.0
    constant = ConstantKernel()
    constant.constant = torch.full((1,), 9.0, device=trials.device)
    kernel = AdditiveContextKernel(smooth + constant, context_dims=[0])
    kernel.context_variance = 9.0
    return BinaryLaplaceGP(trials, outcomes, covar_module=kernel)


def optimise(rule: str, repetitions: int, iterations: int) -> Run:
    r"""Run an experiment, all repetitions at once.

    Args:
        rule: The rule that chooses the trials.
        repetitions: The number of repetitions.
        iterations: The number of trials after the first five.

    Returns:
        What happened.
    """
    space = make_space()
    low, high = space.bounds
    torch.manual_seed(0)
    shape = (repetitions, 5, space.dim)
    first = torch.rand(shape, dtype=low.dtype, device=low.device)
    trials = low + (high - low) * first
    model = make_model(trials, run_test(trials))
    reached, best = [], None
    for _ in tqdm(range(iterations), desc=f"{RULES[rule]:<21}", unit="trial"):
        trial = suggest(model, space, rule)
        model = model.condition_on_observations(trial, run_test(trial))
        best = recommend(model, space)
        reached.append(quality(best))
    assert best is not None
    outcomes = model.train_targets.unsqueeze(-1)
    return Run(model.train_inputs[0], outcomes, torch.stack(reached, dim=-1), best)


def draw(runs: dict[str, Run], path: Path) -> None:
    r"""The figure of the runs.

    Args:
        runs: The runs by their rules.
        path: Where to save it.
    """
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(15, 4.5), layout="constrained")
    _draw_trials(axes[0], runs["ucb-ald"])
    for rule, run in runs.items():
        mean = run.quality.mean(dim=0)
        error = run.quality.std(dim=0) / run.quality.shape[0] ** 0.5
        steps = range(1, len(mean) + 1)
        axes[1].plot(steps, mean, label=RULES[rule])
        axes[1].fill_between(steps, mean - error, mean + error, alpha=0.2)
        axes[2].plot(steps, run.trials[:, 5:, 0].mean(dim=0), label=RULES[rule])
    axes[1].axhline(2.0, color="gray", linestyle=":", label="best possible")
    axes[1].set(xlabel="trial", ylabel="quality of the recommendation")
    axes[2].set(xlabel="trial", ylabel="mean difficulty of the test")
    for ax in axes[1:]:
        ax.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _draw_trials(ax: Any, run: Run) -> None:
    """The trials of the first repetition on the hidden quality."""
    side = torch.linspace(0, 1, 80, dtype=run.trials.dtype, device=run.trials.device)
    grid = torch.cartesian_prod(side, side)
    values = quality(grid).reshape(80, 80).T
    image = ax.contourf(side, side, values, levels=20, cmap="viridis")
    ax.figure.colorbar(image, ax=ax, label="hidden quality")
    trials, outcomes = run.trials[0], run.outcomes[0, :, 0]
    for label, marker in ((1, "o"), (0, "x")):
        chosen = trials[outcomes == label]
        name = "passed" if label else "failed"
        ax.scatter(
            chosen[:, 1], chosen[:, 2], marker=marker, c="white", s=25, label=name
        )
    ax.scatter(*run.best[0], marker="*", s=250, c="red", label="recommended")
    ax.set(xlabel="$x_1$", ylabel="$x_2$", title="one repetition, difficulty chosen")
    ax.legend(loc="upper right")


def main(argv: Sequence[str] | None = None) -> None:
    r"""Run the demonstration.

    Args:
        argv: The arguments, by default those of the process.
    """
    parser = argparse.ArgumentParser(description="A simulated experiment.")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--figure", type=Path, default=Path("demo.png"))
    arguments = parser.parse_args(argv)
    runs = {
        rule: optimise(rule, arguments.repetitions, arguments.iterations)
        for rule in RULES
    }
    print("\nQuality of the recommended parameters (best possible: 2.0):")
    for rule, run in runs.items():
        last = run.quality[:, -1]
        error = float(last.std()) / len(last) ** 0.5
        print(f"  {RULES[rule]:<21} ({rule}): {float(last.mean()):.2f} ± {error:.2f}")
    draw(runs, arguments.figure)
    print(f"Figure: {arguments.figure.resolve()}")


if __name__ == "__main__":
    main()
