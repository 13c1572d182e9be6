r"""
Thresholds by a dense grid of psychometric functions, to choose priors.

Without parameters an experiment's model is ``f(s) = a s + b``, so its posterior is that
of two numbers, and a grid of them needs no approximation. Hundreds of experiments with
some prior take seconds, each choosing its trials by the information they give, as
"bald" does. That is how the priors of experiments that only look for a threshold were
chosen; the study ``threshold-coverage`` then shows what they do in real experiments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import polars as pl
import torch
from torch import Tensor
from torch.distributions import Normal

from botorch_binary_context.bands import first_fall

#: The 90 % intervals.
TAILS = (0.05, 0.95)
SLOPES_OF_GRID = 70
CONTEXTS_OF_GRID = 101
HIGHEST_SLOPE = 60.0
HIGHEST_OFFSET = 24.0
STEP_OF_OFFSET = 0.2
NODES = 1024  # of the integral over medians of slopes


@dataclass(frozen=True)
class SlopePrior:
    r"""The prior of a psychometric function, for contexts in [-1, 1].

    The slope is normal around a log-normal number, the offset is normal around zero.

    Attributes:
        median: The median of the log-normal number.
        spread: The standard deviation of its logarithm.
        variance: That of the slope around it.
        offset_variance: That of the offset.
    """

    median: float
    spread: float
    variance: float
    offset_variance: float

    def __str__(self) -> str:
        return " / ".join(f"{number:g}" for number in astuple(self))


class Grid:
    r"""The slopes and offsets of psychometric functions, with a prior's weights.

    Attributes:
        contexts: Contexts from the easiest to the hardest.
        values: The functions at these contexts, ``functions x contexts``.
        log_prior: The logarithms of the functions' prior weights.
    """

    def __init__(self, prior: SlopePrior) -> None:
        r"""
        Args:
            prior: The prior.
        """
        # More slopes where they are small: the functions differ more there.
        root = torch.linspace(-2.0, HIGHEST_SLOPE**0.5, SLOPES_OF_GRID).double()
        slopes = root * root.abs()
        half = HIGHEST_OFFSET
        offsets = torch.arange(-half, half + STEP_OF_OFFSET, STEP_OF_OFFSET).double()
        self.contexts = torch.linspace(1.0, -1.0, CONTEXTS_OF_GRID).double()
        self.values = (
            slopes[:, None, None] * self.contexts + offsets[:, None]
        ).flatten(0, 1)
        widths = torch.gradient(slopes)[0]
        weights = (_slope_density(prior, slopes) * widths).log()
        offset = Normal(0.0, prior.offset_variance**0.5).log_prob(offsets)
        self.log_prior = (weights[:, None] + offset).flatten()


def _slope_density(prior: SlopePrior, slopes: Tensor) -> Tensor:
    """The density of the sum of a log-normal number and a normal one."""
    steps = (torch.arange(NODES).double() + 0.5) / NODES
    medians = prior.median * (prior.spread * torch.special.ndtri(steps)).exp()
    around = Normal(medians[:, None], prior.variance**0.5)
    return around.log_prob(slopes).exp().mean(dim=0).clamp_min(1e-300)


def simulate_on_grid(
    prior: SlopePrior,
    alternatives: int,
    slope: float,
    subjects: int,
    checkpoints: Sequence[int],
    seed: int,
) -> pl.DataFrame:
    r"""Run experiments with a prior, each on a grid.

    Args:
        prior: The prior of the experiments.
        alternatives: The number of alternatives of a trial.
        slope: The slope of the simulated psychometric functions.
        subjects: The number of experiments.
        checkpoints: The numbers of trials after which to examine intervals.
        seed: The seed of all random choices.

    Returns:
        A row for every experiment and checkpoint, with the columns "covered", "width"
        and "error" of the study ``threshold-coverage``.
    """
    luck = torch.Generator().manual_seed(seed)
    truth = 1.6 * torch.rand(subjects, generator=luck, dtype=torch.double) - 0.8
    grid = Grid(prior)
    guess = 1.0 / alternatives
    passes = guess + (1.0 - guess) * torch.special.ndtr(grid.values)
    surprise = _entropy(passes)
    is_below = (grid.values < 0.0).double()
    log_weights = grid.log_prior.repeat(subjects, 1)
    frames = []
    for n in range(1, max(checkpoints) + 1):
        weights = log_weights.softmax(dim=-1)
        information = _entropy(weights @ passes) - weights @ surprise
        best = information.argmax(dim=-1)
        shown = grid.contexts[best]
        p = guess + (1.0 - guess) * torch.special.ndtr(slope * (shown - truth))
        passed = torch.rand(subjects, generator=luck, dtype=torch.double) < p
        chance = passes[:, best].mT
        log_weights += torch.where(passed[:, None], chance, 1.0 - chance).log()
        if n in checkpoints:
            below = log_weights.softmax(dim=-1) @ is_below
            frames.append(compare(below, truth, n))
    return pl.concat(frames)


def compare(below: Tensor, truth: Tensor, trials: int) -> pl.DataFrame:
    r"""Compare intervals with the thresholds.

    Args:
        below: The probabilities that contexts are beyond the threshold, along a line
            from the easiest to the hardest, ``subjects x contexts``.
        truth: The thresholds, in [-1, 1].
        trials: The number of trials.

    Returns:
        For every subject, whether the interval contains the threshold, how wide it is,
        and the error of its median, as shares of the range.
    """
    position = (1.0 - truth) / 2.0
    length = below.shape[-1] - 1
    low, center, high = (crossing(below, p) / length for p in (TAILS[0], 0.5, TAILS[1]))
    return pl.DataFrame(
        {
            "subject": list(range(len(truth))),
            "trials": [trials] * len(truth),
            "covered": ((low <= position) & (position <= high)).tolist(),
            "width": (high.clamp(0, 1) - low.clamp(0, 1)).tolist(),
            "error": (center.clamp(0, 1) - position).abs().tolist(),
        }
    )


def crossing(below: Tensor, probability: float) -> Tensor:
    r"""Where the threshold is passed with a given probability.

    Args:
        below: The probabilities to be below it, along a line of contexts.
        probability: The probability.

    Returns:
        Positions on the line.
    """
    margin = torch.finfo(below.dtype).eps
    curve = -torch.special.ndtri(below.clamp(margin, 1 - margin))
    tail = torch.special.ndtri(below.new_tensor(probability))
    return first_fall(curve, -float(tail))


def _entropy(p: Tensor) -> Tensor:
    return torch.special.entr(p) + torch.special.entr(1.0 - p)
