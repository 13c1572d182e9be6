r"""Simulated people who answer by more than one bit."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError

from botorch_binary_context import RatingLikelihood, TiesLikelihood
from botorch_binary_context.likelihoods.best_of import winner_probabilities
from botorch_binary_context.problems import (
    AnsweringProblem,
    RefractionProblem,
    name_winners,
)

PATIENT = RefractionProblem(slope=2.0)
NUMBER = 20_000


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_shares_of_answers_are_their_probabilities():
    X = torch.tensor([0.4, 1.0, -0.5], dtype=torch.double)
    duel = torch.stack([X, torch.tensor([0.4, 0.5, 0.5], dtype=torch.double)])
    for likelihood, trial in (
        (RatingLikelihood(4, widths=[1.0, 0.5], learn_widths=False), X),
        (TiesLikelihood(0.7, learn_width=False), duel),
    ):
        problem = AnsweringProblem(PATIENT, likelihood)
        labels = problem.observe(trial.expand(NUMBER, *trial.shape), generator())
        assert labels.shape == (NUMBER, 1)
        f = PATIENT.latent(trial)
        contrast = f if f.ndim == 0 else f[0] - f[1]
        expected = likelihood.probabilities(contrast).flatten()
        shares = torch.bincount(labels.flatten().long(), minlength=len(expected))
        torch.testing.assert_close(
            shares / NUMBER, expected.float(), atol=0.015, rtol=0
        )
        assert problem.space is not None
        assert problem.optimal_score == PATIENT.optimal_score
        torch.testing.assert_close(problem.score(X[1:]), PATIENT.score(X[1:]))


def test_shares_of_winners():
    contest = torch.tensor(
        [[0.4, 0.3, 0.0], [0.4, -0.4, 0.3], [0.4, 0.8, 0.2]], dtype=torch.double
    )
    winners = name_winners(PATIENT, contest.expand(NUMBER, 3, 3), generator())
    shares = torch.bincount(winners.flatten().long(), minlength=3) / NUMBER
    f = PATIENT.latent(contest)
    expected = winner_probabilities(f, torch.zeros(3, 3, dtype=torch.double))
    torch.testing.assert_close(shares, expected.float(), atol=0.015, rtol=0)
    with pytest.raises(BotorchTensorDimensionError, match="``X`` to hold contests"):
        name_winners(PATIENT, contest)
