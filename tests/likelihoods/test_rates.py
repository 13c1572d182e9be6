r"""How likelihoods show their rates."""

from __future__ import annotations

import torch

from botorch_binary_context import PreferenceLikelihood, ProbitLikelihood


def test_repr_shows_rates() -> None:
    fixed = ProbitLikelihood(guess_rate=0.5, lapse_rate=0.02)
    assert repr(fixed) == "ProbitLikelihood(guess_rate=0.5, lapse_rate=0.02)"


def test_repr_says_what_is_learned() -> None:
    learned = ProbitLikelihood(0.25, lapse_rate=0.03, learn_lapse_rate=True)
    assert "guess_rate=0.25, lapse_rate=0.03 (learned)" in repr(learned)
    batch = ProbitLikelihood(learn_lapse_rate=True, batch_shape=torch.Size([3]))
    assert "lapse_rate=batch (learned)" in repr(batch)


def test_repr_of_duels() -> None:
    assert repr(PreferenceLikelihood()).startswith("PreferenceLikelihood(")
