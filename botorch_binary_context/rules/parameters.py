r"""
How rules of two stages choose the parameters, ``batch_shape x num_rows x (d - m)``.
"""

from __future__ import annotations

from statistics import NormalDist

import torch
from torch import Tensor

from botorch_binary_context.acquisition.analytic import (
    BinaryUpperConfidenceBound,
    LatentUpperConfidenceBound,
    MaximallyUncertainChallenge,
)
from botorch_binary_context.acquisition.entropy_search import maximize_paths
from botorch_binary_context.acquisition.posterior_mean import maximize_posterior_mean
from botorch_binary_context.rules.base import Selection, draw_point_set
from botorch_binary_context.sampling.paths import draw_sample_paths

BOLD_BETA = NormalDist().inv_cdf(0.99)


def by_ucb(selection: Selection) -> Tensor:
    r"""Parameters of the largest binary upper confidence bound."""
    acqf = BinaryUpperConfidenceBound(selection.model)
    return selection.maximize_parameters(acqf.evaluate)


def by_bold_ucb(selection: Selection) -> Tensor:
    r"""Parameters of the largest binary UCB at 99 instead of 95 %: more exploration."""
    acqf = BinaryUpperConfidenceBound(selection.model, beta=BOLD_BETA)
    return selection.maximize_parameters(acqf.evaluate)


def by_latent_ucb(selection: Selection) -> Tensor:
    r"""Parameters of the largest upper confidence bound of the latent function."""
    acqf = LatentUpperConfidenceBound(selection.model)
    return selection.maximize_parameters(acqf.evaluate)


def by_thompson_sampling(selection: Selection) -> Tensor:
    r"""Parameters that maximize a function drawn from the posterior."""
    return _path_maximizers(selection, 1)


def by_self_sparring(selection: Selection) -> Tensor:
    r"""A duel of the maximizers of two functions drawn from the posterior (KSS)."""
    return _path_maximizers(selection, 2)


def by_uncertain_challenge(selection: Selection) -> Tensor:
    r"""A duel of the maximally uncertain challenger and the incumbent (MUC)."""
    model, space = selection.model, selection.space
    incumbent, _ = maximize_posterior_mean(model, space, selection.options)
    acqf = MaximallyUncertainChallenge(model, space.at_reference(incumbent))
    challenger = selection.maximize_parameters(acqf.evaluate)
    return torch.cat([challenger, incumbent.unsqueeze(-2)], dim=-2)


def _path_maximizers(selection: Selection, num_paths: int) -> Tensor:
    space = selection.space
    paths = draw_sample_paths(selection.model, num_paths, bounds=space.bounds)
    return maximize_paths(paths, space, draw_point_set())[0].movedim(0, -2)
