r"""
How rules of two stages choose the parameters, ``batch_shape x num_rows x (d - m)``.
"""

from __future__ import annotations

from statistics import NormalDist

import torch
from torch import Tensor

from botorch_binary_context.acquisition.best_option import ExpectedBestOption
from botorch_binary_context.acquisition.entropy_search import (
    PATH_SEARCH,
    ROUGH_PATH_SEARCH,
    maximize_paths,
)
from botorch_binary_context.acquisition.goal_bounds import (
    GoalUpperConfidenceBound,
    LatentGoalUpperConfidenceBound,
)
from botorch_binary_context.acquisition.posterior_mean import maximize_posterior_mean
from botorch_binary_context.inference.given import GivenContrasts
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.rules.base import Selection, draw_point_set, widen
from botorch_binary_context.sampling.paths import NUM_CONTRASTS, draw_sample_paths

BOLD_BETA = NormalDist().inv_cdf(0.99)


def by_ucb(selection: Selection) -> Tensor:
    r"""Parameters with the largest binary upper confidence bound."""
    acqf = GoalUpperConfidenceBound(selection.model, selection.space, selection.target)
    return selection.maximize_goal(acqf.bound_at)


def by_bold_ucb(selection: Selection) -> Tensor:
    r"""Parameters with the largest binary UCB at 99 %, not 95 %: more exploration."""
    acqf = GoalUpperConfidenceBound(
        selection.model, selection.space, selection.target, beta=BOLD_BETA
    )
    return selection.maximize_goal(acqf.bound_at)


def by_latent_ucb(selection: Selection) -> Tensor:
    r"""Parameters with the largest upper confidence bound of the latent function."""
    acqf = LatentGoalUpperConfidenceBound(
        selection.model, selection.space, selection.target
    )
    return selection.maximize_goal(acqf.bound_at)


def by_thompson_sampling(selection: Selection) -> Tensor:
    r"""Parameters that maximize a function drawn from the posterior."""
    return _path_maximizers(selection, 1)


def by_self_sparring(selection: Selection) -> Tensor:
    r"""A duel of the maximizers of two functions drawn from the posterior (KSS)."""
    return _path_maximizers(selection, 2)


def by_best_option(selection: Selection) -> Tensor:
    r"""The duel whose better side has the largest expected value (EUBO)."""
    acqf = ExpectedBestOption(selection.model, selection.space, selection.target)
    return selection.maximize_sides(acqf.value_at, 2, widen(selection.options))


def by_hallucination(selection: Selection) -> Tensor:
    r"""A duel of the incumbent and a challenger chosen by a hallucination (HB).

    One draw of the training contrasts from the true posterior is taken as the truth;
    the challenger has the largest expected improvement on the incumbent.
    """
    space = selection.space
    goal = selection.target
    incumbent = _incumbent(selection)
    # Pending duels need no expected outcomes: each duel uses another draw.
    believed = hallucinate(selection.answered_model)
    acqf = ExpectedBestOption(believed, space, goal)

    def better(x: Tensor) -> Tensor:
        return acqf.value_at(torch.stack(torch.broadcast_tensors(x, incumbent), -2))

    challenger = selection.maximize_goal(better)
    return torch.cat([challenger, incumbent.unsqueeze(-2)], dim=-2)


def hallucinate(model: LatentGP) -> LatentGP:
    r"""A model that takes one draw of its training contrasts as the truth.

    Args:
        model: The model.

    Returns:
        A copy whose posterior is conditioned on a draw from the true posterior of the
        contrasts; torch's generator picks one of the draws that the model keeps.
    """
    draws = model.sample_contrasts(NUM_CONTRASTS).values  # S x batch_shape x n
    shape = (1, *model.batch_shape, 1)
    index = torch.randint(len(draws), shape, device=draws.device)
    values = draws.gather(0, index.expand(1, *draws.shape[1:])).squeeze(0)
    return model.with_inference(GivenContrasts(values)).eval()


def by_uncertain_challenge(selection: Selection) -> Tensor:
    r"""A duel of the maximally uncertain challenger and the incumbent (MUC)."""
    model = selection.model
    space = selection.space
    goal = selection.target
    incumbent = _incumbent(selection)
    challenger = selection.maximize_goal(
        lambda x: goal.challenge(model, space, x, incumbent)
    )
    return torch.cat([challenger, incumbent.unsqueeze(-2)], dim=-2)


def _incumbent(selection: Selection) -> Tensor:
    """The parameters that are best on average, ``batch_shape x (d - m)``."""
    model = selection.model
    space = selection.space
    goal = selection.target
    if selection.is_restricted:
        best = selection.maximize_goal(lambda x: goal.mean(model, space, x))
        return best.squeeze(-2)
    return maximize_posterior_mean(model, space, selection.options, goal=goal)[0]


def _path_maximizers(selection: Selection, num_paths: int) -> Tensor:
    if selection.is_restricted:
        maxima = [_allowed_path_maximizer(selection) for _ in range(num_paths)]
        return torch.cat(maxima, dim=-2)
    space = selection.space
    # Pending trials need no expected outcomes: another function is drawn each time.
    model = selection.answered_model
    paths = draw_sample_paths(model, num_paths, bounds=space.bounds)
    options = PATH_SEARCH if selection.pending is None else ROUGH_PATH_SEARCH
    maxima, _ = maximize_paths(
        paths, space, draw_point_set(), options, selection.target
    )
    return maxima.movedim(0, -2)


def _allowed_path_maximizer(selection: Selection) -> Tensor:
    """The maximizer of a drawn function among the allowed trials."""
    space = selection.space
    model = selection.answered_model
    goal = selection.target
    paths = draw_sample_paths(model, 1, bounds=space.bounds)

    def value(x: Tensor) -> Tensor:  # the path has its own dimension
        rows = goal.rows(space, x).unsqueeze(1)
        return goal.combine(paths(rows), model).squeeze(1)

    return selection.maximize_goal(value)
