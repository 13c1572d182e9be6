r"""Recommendations, and Thompson sampling."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from botorch.models.transforms import Normalize
from scipy.stats import chi2
from torch import Tensor

from botorch_binary_context import (
    AdditiveContextKernel,
    BinaryLaplaceGP,
    ContextSpace,
    MultiplicativeContextKernel,
    PreferenceLaplaceGP,
    recommend,
    suggest,
)
from tests.devices import RequireDevice
from tests.latent_posteriors import latent, latent_covariance
from tests.rules.problems import (
    SPACE,
    both_models,
    context_model,
    element_of,
    shifted_model,
    shifted_space,
    unit_grid,
)
from tests.small_models import AnyModel, ModelClass, random_model, simple_kernel
from tests.tensors import double


@both_models
class TestRecommend:
    @pytest.mark.parametrize("reference", [0.0, 0.4, 1.0])
    def test_recommended_setting_is_the_best_of_a_grid(
        self, model_class: ModelClass, reference: float
    ) -> None:
        kernel = AdditiveContextKernel(simple_kernel(dim=2), context_dims=[1])
        model = random_model(model_class, n=15, dim=3, covar_module=kernel)
        bounds = torch.stack([torch.zeros(3), torch.ones(3)]).double()
        space = ContextSpace(bounds, context_dims=[1], reference_context=[reference])
        best = recommend(model, space)
        assert best.shape == (2,)
        assert not best.requires_grad
        grid = unit_grid(101, 2)

        def mean(parameters: Tensor) -> Tensor:
            context = torch.full_like(parameters[:, :1], reference)
            X = torch.cat([parameters[:, :1], context, parameters[:, 1:]], dim=-1)
            # One by one: the joint covariance is not needed.
            return latent(model, X.unsqueeze(-2)).mean.flatten().detach()

        values = mean(grid)
        assert mean(best.unsqueeze(0)) >= values.max() - 1e-9
        distance = (best - grid[values.argmax()]).abs().max()
        assert distance < 0.02

    def test_reference_context_matters(self, model_class: ModelClass) -> None:
        """With a product kernel the best parameters depend on the context."""
        model = shifted_model(model_class, [0], 2, "product")
        bounds = shifted_space([0], 2).bounds
        for reference in (0.0, 1.0):
            best = recommend(model, ContextSpace(bounds, [0], [reference]))
            grid = torch.linspace(1, 2, 401).double()
            X = torch.stack([torch.full_like(grid, reference), grid], dim=-1)
            values = latent(model, X).mean.squeeze(-1)
            torch.testing.assert_close(
                best, grid[values.argmax()].reshape(1), rtol=0, atol=5e-3
            )

    def test_batch_equals_a_loop(self, model_class: ModelClass) -> None:
        model = context_model(model_class, batch_shape=(5,))
        best = recommend(model, SPACE)
        assert best.shape == (5, 1)
        for i in range(5):
            alone = element_of(model, i)
            torch.testing.assert_close(
                best[i], recommend(alone, SPACE), rtol=0, atol=1e-6
            )

    def test_input_transform(self, model_class: ModelClass) -> None:
        bounds = double([[-2.0, 10.0], [0.0, 30.0]])
        low, width = bounds[0], bounds[1] - bounds[0]
        plain = context_model(model_class)
        model = model_class(
            low + width * plain.train_inputs[0],
            plain.train_targets.unsqueeze(-1),
            covar_module=plain.covar_module,
            input_transform=Normalize(2, bounds=bounds),
        )
        best = recommend(model, ContextSpace(bounds, [0], [0.0]))
        expected = low[1:] + width[1:] * recommend(plain, SPACE)
        torch.testing.assert_close(best, expected, rtol=0, atol=1e-5)

    def test_repeats_itself(self, model_class: ModelClass) -> None:
        model = context_model(model_class)
        state = torch.get_rng_state()
        first = recommend(model, SPACE)
        again = recommend(model, SPACE)
        assert torch.equal(first, again)
        assert torch.equal(torch.get_rng_state(), state)
        assert all(p.requires_grad for p in model.parameters())

    def test_no_trials(self, model_class: ModelClass) -> None:
        best = recommend(context_model(model_class, n=0, batch_shape=(2,)), SPACE)
        assert best.shape == (2, 1)
        assert ((best >= 0) & (best <= 1)).all()

    def test_trials_outside_the_box(self, model_class: ModelClass) -> None:
        model = context_model(model_class)
        space = ContextSpace(double([[0.0, 0.45], [1.0, 0.55]]), [0], [1.0])
        best = recommend(model, space)
        assert 0.45 <= best.item() <= 0.55

    def test_makes_nothing_on_the_default_device(self, model_class: ModelClass) -> None:
        model = context_model(model_class, batch_shape=(2,))
        with RequireDevice():
            recommend(model, SPACE)


# ---------------------------------------------------------------- Thompson sampling


class TestThompsonSampling:
    """Trials are draws from ``p(x* | D)``."""

    num_draws = 2000
    num_bins = 12

    def model(self, model_class: ModelClass, batch_shape: Sequence[int]) -> AnyModel:
        """One model, or a batch of the same one."""
        base = simple_kernel(dim=1)
        base.base_kernel.lengthscale = double([[0.2]])
        base.outputscale = 2.0
        kernel = MultiplicativeContextKernel(base, context_dims=[0])
        single = random_model(model_class, n=6, covar_module=kernel)
        X, Y = single.train_inputs[0], single.train_targets.unsqueeze(-1)
        X = X.expand(*batch_shape, *X.shape)
        Y = Y.expand(*batch_shape, *Y.shape)
        return model_class(X, Y, covar_module=kernel)

    def brute_force(self, model_class: ModelClass) -> Tensor:
        """Maximizers of draws from the joint posterior on a fine grid."""
        grid = torch.linspace(0, 1, 301).double()
        X = torch.stack([torch.ones_like(grid), grid], dim=-1)  # s₀ = 1
        model = self.model(model_class, ())
        mean = latent(model, X).mean.squeeze(-1).detach()
        eigenvalues, eigenvectors = torch.linalg.eigh(latent_covariance(model, X))
        root = (eigenvectors * eigenvalues.clamp_min(0).sqrt()).detach()
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(301, 100_000, generator=generator, dtype=torch.double)
        return grid[(mean.unsqueeze(-1) + root @ noise).argmax(dim=0)]

    def assert_same_distribution(self, draws: Tensor, reference: Tensor) -> None:
        """A chi-square test at the level 1e-4; both ends of the box are bins."""
        inside = reference[(reference > 0) & (reference < 1)]
        shares = torch.linspace(0, 1, self.num_bins - 1).double()[1:-1]
        cuts = torch.cat([double([1e-3]), inside.quantile(shares), double([1 - 1e-3])])
        count = torch.bucketize(draws.contiguous(), cuts).bincount(
            minlength=self.num_bins
        )
        expected = torch.bucketize(reference, cuts).bincount(minlength=self.num_bins)
        # The reference is a sample too: its variance adds to that of the draws.
        ratio = draws.numel() / reference.numel()
        expected = expected * ratio
        assert (expected > 5).all()
        statistic = ((count - expected).square() / (expected * (1 + ratio))).sum()
        assert statistic < chi2.isf(1e-4, self.num_bins - 1)

    def test_outcomes_give_draws_of_the_optimum(self) -> None:
        model = self.model(BinaryLaplaceGP, (self.num_draws,))
        trials = suggest(model, SPACE, "ts-fixed", seed=0)
        assert (trials[..., 0] == 1).all()
        reference = self.brute_force(BinaryLaplaceGP)
        self.assert_same_distribution(trials[:, 0, 1], reference)

    def test_duels_give_two_independent_draws_of_the_optimum(self) -> None:
        """Both sides are draws, independent of each other."""
        model = self.model(PreferenceLaplaceGP, (self.num_draws,))
        duels = suggest(model, SPACE, "kss-random", seed=0).squeeze(-3)
        first, second = duels[..., 1].unbind(-1)
        reference = self.brute_force(PreferenceLaplaceGP)
        self.assert_same_distribution(first, reference)
        self.assert_same_distribution(second, reference)
        correlation = torch.corrcoef(torch.stack([first, second]))[0, 1]
        assert abs(correlation) < 4 / math.sqrt(self.num_draws)


@both_models
def test_recommendation_repeats_itself(model_class: ModelClass) -> None:
    """Whatever torch's generator does; another seed finds the same maximum."""
    model = context_model(model_class)
    first = recommend(model, SPACE, seed=3)
    torch.manual_seed(1)
    assert torch.equal(recommend(model, SPACE, seed=3), first)
    torch.testing.assert_close(
        recommend(model, SPACE, seed=4), first, rtol=0, atol=1e-5
    )
