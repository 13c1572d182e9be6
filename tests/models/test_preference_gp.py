from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models import PairwiseGP
from botorch.posteriors import GPyTorchPosterior
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.utils.containers import SliceContainer
from botorch.utils.datasets import RankingDataset, SupervisedDataset
from gpytorch.means import ConstantMean
from hypothesis import given
from linear_operator import to_dense
from torch import Tensor

from botorch_binary_context import PreferenceLaplaceGP
from tests.closeness import assert_all_close
from tests.golden_numbers import golden_duels, golden_preference_kernel, load_golden
from tests.latent_posteriors import label_posterior, latent, latent_covariance
from tests.small_models import random_model, random_trials, simple_kernel
from tests.strategies import duel_data
from tests.tensors import double, uniform

GOLDEN_CASES = [
    pytest.param(case, id=f"n{case['n']}-{case['base']}-{case['variant']}")
    for case in load_golden("preference")
]


def golden_model(case: dict[str, Any]) -> PreferenceLaplaceGP:
    """The model of a golden case."""
    contextual = case["variant"].startswith("ctx")
    return PreferenceLaplaceGP(
        golden_duels(case["u"], contextual),
        double(case["c"]).unsqueeze(-1),
        covar_module=golden_preference_kernel(case),
    )


def assert_near(found: Tensor, expected: Any, atol: float = 1e-9) -> None:
    torch.testing.assert_close(found.detach(), double(expected), rtol=0, atol=atol)


@pytest.mark.parametrize("case", GOLDEN_CASES)
class TestGolden:
    def test_mode_equals_the_golden_numbers(self, case: dict[str, Any]) -> None:
        approximation = golden_model(case).laplace_approximation
        assert_near(approximation.mode, case["mode"])
        assert_near(approximation.sqrt_information.square(), case["W"])
        assert_near(approximation.weights, case["grad_log_lik"])

    def test_duels_equal_the_golden_numbers(self, case: dict[str, Any]) -> None:
        model = golden_model(case)
        pairs = golden_duels(case["u_test"], case["variant"].startswith("ctx"))
        values = latent(model, pairs).distribution
        difference = model.likelihood.functional.of_distribution(values)
        assert_near(difference.mean.squeeze(-1), case["latent_mean"])
        assert_near(difference.variance.squeeze(-1), case["latent_variance"], 1e-10)
        posterior = model.probability_posterior(pairs)
        assert_near(posterior.mean.flatten(), case["probability"])
        assert_near(posterior.variance.flatten(), case["probability_variance"], 1e-10)

    def test_value_function(self, case: dict[str, Any]) -> None:
        # The value of x less that of 0, both in the context 1.
        x = double(case["x_value"])
        if case["variant"].startswith("ctx"):
            x = torch.cat([torch.ones_like(x[:, :1]), x], dim=-1)
        origin = x.clone()
        origin[:, -case["d"] :] = 0.0
        model = golden_model(case)
        value = latent(model, x).mean - latent(model, origin[:1]).mean
        assert_near(value.squeeze(-1), case["value_mu_vs_x0"])


class TestPreferenceLaplaceGP:
    def test_definition_in_the_space_of_values(self) -> None:
        # Gaussian conditioning of the 2n values on n differences with noise 1 / W.
        model = random_model(PreferenceLaplaceGP, n=3)
        approximation = model.laplace_approximation
        rows = model.train_inputs[0].flatten(0, 1)
        X = uniform(4, 2, seed=3)
        joint = to_dense(simple_kernel()(torch.cat([rows, X]))).detach().numpy()
        A = np.kron(np.eye(3), [[1.0, -1.0]])  # differences of pairs
        k, cross, own = joint[:6, :6], joint[6:, :6], joint[6:, 6:]
        noise = np.diag(1 / approximation.sqrt_information.numpy() ** 2)
        gain = cross @ A.T @ np.linalg.inv(A @ k @ A.T + noise)
        posterior = latent(model, X)
        targets = approximation.mode.numpy() + noise @ approximation.weights.numpy()
        assert_near(posterior.mean.squeeze(-1), gain @ targets, 1e-10)
        assert_near(latent_covariance(model, X), own - gain @ A @ cross.T, 1e-10)

    def test_constant_mean_cancels(self) -> None:
        mean_module = ConstantMean()
        mean_module.constant = double(5.0)
        shifted = random_model(PreferenceLaplaceGP, mean_module=mean_module)
        model = random_model(PreferenceLaplaceGP)
        X = uniform(5, 2, seed=3)
        assert_all_close(latent(shifted, X).mean, latent(model, X).mean + 5.0)
        assert_all_close(latent(shifted, X).variance, latent(model, X).variance)
        assert_all_close(
            shifted.laplace_approximation.log_evidence,
            model.laplace_approximation.log_evidence,
        )

    def test_agrees_with_pairwise_gp_in_sign(self) -> None:
        datapoints = uniform(12, 2)
        utility = datapoints.sum(dim=-1)
        order = utility.argsort(descending=True)
        comparisons = torch.stack([order[:-1], order[1:]], dim=-1)
        model = PreferenceLaplaceGP.from_comparisons(datapoints, comparisons)
        stock = PairwiseGP(datapoints, comparisons)
        X = uniform(30, 2, seed=2)
        stock_posterior = stock.posterior(X)
        assert isinstance(stock_posterior, GPyTorchPosterior)
        means = torch.cat([latent(model, X).mean, stock_posterior.mean], dim=-1)
        assert means.mT.corrcoef()[0, 1].item() > 0.95

    def test_duel_with_itself_is_a_toss(self) -> None:
        model = random_model(PreferenceLaplaceGP)
        pair = uniform(5, 1, 2).expand(5, 2, 2)
        probability = model.probability_posterior(pair)
        half = torch.full((5, 1, 1), 0.5, dtype=torch.double)
        assert_all_close(probability.mean, half)
        assert probability.variance.max().item() < 1e-9
        labels = label_posterior(model, pair)
        assert_all_close(labels.mean, half)

    def test_odd_number_of_rows_is_no_duel(self) -> None:
        model = random_model(PreferenceLaplaceGP)
        with pytest.raises(UnsupportedError, match="come in pairs, but got 3"):
            label_posterior(model, uniform(3, 2))
        with pytest.raises(UnsupportedError, match="come in pairs, but got 1"):
            model.probability_posterior(uniform(1, 2))

    def test_fantasies_are_duels(self) -> None:
        model = random_model(PreferenceLaplaceGP)
        sampler = SobolQMCNormalSampler(torch.Size([16]), seed=0)
        X = uniform(3, 4, 2, seed=1)  # three sets of two duels
        fantasy = model.fantasize(X, sampler)
        assert fantasy.batch_shape == torch.Size([16, 3])
        new = fantasy.train_inputs[0][..., -2:, :, :]
        assert_all_close(new, X.unflatten(-2, (2, 2)).expand_as(new))
        labels = fantasy.train_targets[..., -2:]
        assert set(labels.unique().tolist()) == {0.0, 1.0}
        expected = model.probability_posterior(X).mean.squeeze(-1)
        assert (labels.mean(dim=0) - expected).abs().max().item() < 0.3


class TestAntisymmetry:
    @given(data=duel_data(batched=False))
    def test_swapping_sides_and_labels_changes_nothing(
        self, data: tuple[Tensor, Tensor]
    ) -> None:
        X, Y = data
        kernel = simple_kernel(X.shape[-1])
        test_X = uniform(4, X.shape[-1], seed=3)
        first = PreferenceLaplaceGP(X, Y, covar_module=kernel)
        second = PreferenceLaplaceGP(X.flip(-2), 1 - Y, covar_module=kernel)
        means = [latent(model, test_X).mean for model in (first, second)]
        assert torch.allclose(*means, rtol=0, atol=1e-10)
        covariances = [latent_covariance(model, test_X) for model in (first, second)]
        assert torch.allclose(*covariances, rtol=0, atol=1e-10)

    @given(data=duel_data(batched=False))
    def test_probabilities_of_both_orders_sum_to_one(
        self, data: tuple[Tensor, Tensor]
    ) -> None:
        X, Y = data
        model = PreferenceLaplaceGP(X, Y, covar_module=simple_kernel(X.shape[-1]))
        pairs = uniform(5, 2, X.shape[-1], seed=3)
        forward = model.probability_posterior(pairs)
        backward = model.probability_posterior(pairs.flip(-2))
        ones = torch.ones_like(forward.mean)
        assert torch.allclose(forward.mean + backward.mean, ones, rtol=0, atol=1e-12)
        assert torch.allclose(forward.variance, backward.variance, rtol=0, atol=1e-12)


class TestFromComparisons:
    def test_equals_pairs(self) -> None:
        for batch_shape in ((), (3,), (2, 3)):
            datapoints = uniform(*batch_shape, 6, 2)
            comparisons = (6 * uniform(*batch_shape, 5, 2, seed=1)).long()
            model = PreferenceLaplaceGP.from_comparisons(
                datapoints, comparisons, covar_module=simple_kernel()
            )
            assert model.batch_shape == torch.Size(batch_shape)
            assert bool((model.train_targets == 1).all())
            for index in np.ndindex(*batch_shape):
                expected = datapoints[index][comparisons[index]]
                assert torch.equal(model.train_inputs[0][index], expected)

    def test_prefers_the_first(self) -> None:
        datapoints = double([[0.1], [0.9]])
        model = PreferenceLaplaceGP.from_comparisons(datapoints, torch.tensor([[1, 0]]))
        worse, better = latent(model, datapoints).mean.flatten().tolist()
        assert better > worse

    def test_passes_arguments_on(self) -> None:
        kernel = simple_kernel()
        model = PreferenceLaplaceGP.from_comparisons(
            uniform(3, 2), torch.tensor([[0, 1]]), covar_module=kernel
        )
        assert model.covar_module is kernel

    def test_refuses_rows_and_shapes_that_do_not_fit(self) -> None:
        datapoints = uniform(3, 2)
        with pytest.raises(InputDataError, match=r"rows 0 to 2 .* got 0 to 3"):
            PreferenceLaplaceGP.from_comparisons(datapoints, torch.tensor([[0, 3]]))
        with pytest.raises(InputDataError, match=r"rows 0 to 2 .* got -1 to 1"):
            PreferenceLaplaceGP.from_comparisons(datapoints, torch.tensor([[-1, 1]]))
        with pytest.raises(InputDataError, match=r"``comparisons`` .* \[1, 3\]"):
            PreferenceLaplaceGP.from_comparisons(datapoints, torch.tensor([[0, 1, 2]]))
        with pytest.raises(InputDataError, match="``comparisons``.*torch.float64"):
            PreferenceLaplaceGP.from_comparisons(datapoints, double([[0, 1]]))


class TestConstructInputs:
    def dataset(self, ranks: Tensor) -> RankingDataset:
        values = uniform(4, 2)
        indices = torch.tensor([[0, 1], [2, 3], [1, 3]])
        X = SliceContainer(
            values=values,
            indices=indices,  # pyright: ignore[reportArgumentType]
            event_shape=torch.Size([2 * 2]),
        )
        return RankingDataset(
            X=X, Y=ranks, feature_names=["a", "b"], outcome_names=["preferred"]
        )

    def test_rank_zero_is_preferred(self) -> None:
        dataset = self.dataset(torch.tensor([[0, 1], [1, 0], [0, 1]]))
        arguments = PreferenceLaplaceGP.construct_inputs(dataset)
        values = uniform(4, 2)
        indices = torch.tensor([[0, 1], [2, 3], [1, 3]])
        assert torch.equal(arguments["train_X"], values[indices])
        assert torch.equal(arguments["train_Y"], double([[1], [0], [1]]))
        PreferenceLaplaceGP(**arguments).posterior(uniform(2, 2))

    def test_refuses_ties_and_other_datasets(self) -> None:
        with pytest.raises(UnsupportedError, match="pairs without ties"):
            PreferenceLaplaceGP.construct_inputs(
                self.dataset(torch.tensor([[0, 1], [0, 0], [0, 1]]))
            )
        X, Y = random_trials(PreferenceLaplaceGP, 3)
        supervised = SupervisedDataset(
            X.flatten(-2), Y, feature_names=list("abcd"), outcome_names=["y"]
        )
        with pytest.raises(UnsupportedError, match="got SupervisedDataset"):
            PreferenceLaplaceGP.construct_inputs(supervised)
