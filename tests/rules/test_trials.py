r"""The trials that rules suggest: their layout, randomness, side effects."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from botorch.models.transforms import Normalize

from botorch_binary_context import (
    BinaryLaplaceGP,
    ContextSpace,
    suggest,
)
from botorch_binary_context.rules import (
    frozen,
)
from tests.devices import RequireDevice
from tests.latent_posteriors import latent
from tests.rules.problems import (
    DETERMINISTIC_RULES,
    LAYOUTS,
    QUICK,
    SPACE,
    SYMMETRIC_RULES,
    UNIT,
    context_model,
    every_rule,
    shifted_model,
    shifted_space,
    sides_of,
)
from tests.small_models import ModelClass, random_model
from tests.tensors import double, uniform


@every_rule
class TestTrials:
    @pytest.mark.parametrize(("columns", "dim", "kernel"), LAYOUTS)
    def test_every_layout_gives_a_trial_that_can_be_told(
        self,
        model_class: ModelClass,
        rule: str,
        columns: list[int],
        dim: int,
        kernel: str,
    ) -> None:
        model = shifted_model(model_class, columns, dim, kernel)
        space = shifted_space(columns, dim)
        trial = suggest(model, space, rule, QUICK, seed=0)
        assert trial.shape == (1, *sides_of(model_class), dim)
        assert not trial.requires_grad
        assert torch.equal(trial, trial.clamp(space.bounds[0], space.bounds[1]))
        # What is suggested can be run and told to the model.
        told = model.condition_on_observations(trial, torch.ones(1, 1).double())
        trial = model.functional.rows(trial)
        assert latent(told, trial).mean.isfinite().all()
        contexts = space.contexts(trial)
        assert torch.equal(contexts, contexts[:1].expand_as(contexts))
        if rule.endswith("fixed"):
            assert torch.equal(contexts[0], space.reference_context)

    @pytest.mark.parametrize("batch_shape", [(1,), (2, 3)])
    def test_batches_get_a_trial_for_each_model(
        self, model_class: ModelClass, rule: str, batch_shape: tuple[int, ...]
    ) -> None:
        model = context_model(model_class, batch_shape=batch_shape)
        trials = suggest(model, SPACE, rule, QUICK, seed=0)
        assert trials.shape == (*batch_shape, 1, *sides_of(model_class), 2)
        assert ((trials >= 0) & (trials <= 1)).all()
        assert torch.equal(trials[..., 0, 0], trials[..., -1, 0])
        if rule == "random":
            assert trials[..., 0, 1].unique().numel() == math.prod(batch_shape)

    def test_no_trials_yet(self, model_class: ModelClass, rule: str) -> None:
        """The first trial is chosen by the prior."""
        for batch_shape in ((), (2,)):
            model = context_model(model_class, n=0, batch_shape=batch_shape)
            trial = suggest(model, SPACE, rule, QUICK, seed=0)
            assert trial.shape == (*batch_shape, 1, *sides_of(model_class), 2)
            assert ((trial >= 0) & (trial <= 1)).all()

    def test_input_transform(self, model_class: ModelClass, rule: str) -> None:
        """The trial is the one of the normalized problem, in the original units."""
        bounds = double([[-2.0, 10.0], [0.0, 30.0]])
        low, width = bounds[0], bounds[1] - bounds[0]
        plain = random_model(model_class)
        model = model_class(
            low + width * plain.train_inputs[0],
            plain.train_targets.unsqueeze(-1),
            covar_module=plain.covar_module,
            input_transform=Normalize(2, bounds=bounds),
        )
        expected = suggest(plain, ContextSpace(UNIT, [0], [0.5]), rule, seed=0)
        found = suggest(model, ContextSpace(bounds, [0], [-1.0]), rule, seed=0)
        found = (found - low) / width
        if rule in SYMMETRIC_RULES:
            found = found.sort(dim=-2).values
            expected = expected.sort(dim=-2).values
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)

    def test_precision_of_the_space(self, model_class: ModelClass, rule: str) -> None:
        space = ContextSpace(UNIT.float(), [0], [1.0])
        trial = suggest(context_model(model_class), space, rule, QUICK, seed=0)
        assert trial.dtype == torch.double

    def test_makes_nothing_on_the_default_device(
        self, model_class: ModelClass, rule: str
    ) -> None:
        model = context_model(model_class, batch_shape=(2,))
        with RequireDevice():
            suggest(model, SPACE, rule, QUICK, seed=0)


@every_rule
class TestRandomness:
    def test_same_seed_gives_the_same_trial(
        self, model_class: ModelClass, rule: str
    ) -> None:
        model = context_model(model_class, batch_shape=(2,))
        first, again = (suggest(model, SPACE, rule, QUICK, seed=5) for _ in range(2))
        assert torch.equal(first, again)

    def test_seed_leaves_the_global_generator_alone(
        self, model_class: ModelClass, rule: str
    ) -> None:
        model = context_model(model_class)
        state = torch.get_rng_state()
        suggest(model, SPACE, rule, QUICK, seed=5)
        assert torch.equal(torch.get_rng_state(), state)

    def test_global_generator(self, model_class: ModelClass, rule: str) -> None:
        model = context_model(model_class)
        trials = []
        with torch.random.fork_rng():
            for _ in range(2):
                torch.manual_seed(7)
                trials.append([suggest(model, SPACE, rule, QUICK) for _ in range(2)])
        assert torch.equal(trials[0][0], trials[1][0])
        assert torch.equal(trials[0][1], trials[1][1])

    def test_other_seeds(self, model_class: ModelClass, rule: str) -> None:
        """What is random differs from seed to seed, what is not does not."""
        model = context_model(model_class)
        trials = torch.stack([suggest(model, SPACE, rule, seed=s) for s in range(4)])
        if rule in SYMMETRIC_RULES:
            trials = trials.sort(dim=-2).values
        deviation = trials.std(dim=0).max()
        if (model_class, rule) in DETERMINISTIC_RULES:
            assert deviation < 1e-4
        elif not rule.startswith(("map-", "cjes", "mkg", "eubo-ald")):
            assert deviation > 1e-2


@every_rule
class TestModelStaysTheSame:
    def test_hyperparameters_are_unchanged_after_a_suggestion(
        self, model_class: ModelClass, rule: str
    ) -> None:
        model = context_model(model_class)
        kernel: Any = model.covar_module
        kernel.base_kernel.raw_outputscale.requires_grad_(False)
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        suggest(model, SPACE, rule, QUICK, seed=0)
        assert before
        for name, parameter in model.named_parameters():
            assert torch.equal(parameter, before[name])
            assert parameter.requires_grad == (not name.endswith("raw_outputscale"))
            assert parameter.grad is None

    def test_posterior_is_unchanged_after_a_suggestion(
        self, model_class: ModelClass, rule: str
    ) -> None:
        model = context_model(model_class)
        X = uniform(5, 2)
        before = latent(model, X).mean
        suggest(model, SPACE, rule, QUICK, seed=0)
        assert torch.equal(latent(model, X).mean, before)

    def test_model_in_training(self, model_class: ModelClass, rule: str) -> None:
        model = context_model(model_class)
        expected = suggest(model, SPACE, rule, QUICK, seed=0)
        model.train()
        assert torch.equal(suggest(model, SPACE, rule, QUICK, seed=0), expected)


def test_frozen_thaws_after_an_error() -> None:
    model = context_model(BinaryLaplaceGP)
    with frozen(model):
        assert not any(p.requires_grad for p in model.parameters())
    with pytest.raises(ZeroDivisionError), frozen(model):
        raise ZeroDivisionError
    assert all(p.requires_grad for p in model.parameters())
