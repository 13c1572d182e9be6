r"""Prior moments: against the kernel's own values and sums written out."""

from __future__ import annotations

import torch
from gpytorch.means import ConstantMean

from botorch_binary_context import BestOfGP, PreferenceGP
from botorch_binary_context.functionals import DIFFERENCE
from tests.small_models import simple_kernel
from tests.tensors import double, uniform


def make_model(batch_shape: tuple[int, ...] = ()) -> PreferenceGP:
    X = uniform(*batch_shape, 4, 2, 2)
    Y = uniform(*batch_shape, 4, 1, seed=1).round()
    return PreferenceGP(X, Y, covar_module=simple_kernel(batch_shape=batch_shape))


def test_variance_of_a_difference_is_that_of_its_sides_less_twice_their_covariance():
    for batch_shape in ((), (3,)):
        model = make_model(batch_shape)
        X = uniform(*batch_shape, 10, 2, seed=2)  # five candidates
        found = model.prior_variance(X, DIFFERENCE)
        K = model.covar_module(X).to_dense()
        left = range(0, 10, 2)
        right = range(1, 10, 2)
        expected = torch.stack(
            [
                K[..., i, i] + K[..., j, j] - 2 * K[..., i, j]
                for i, j in zip(left, right, strict=True)
            ],
            dim=-1,
        )
        torch.testing.assert_close(found, expected)


def test_variance_of_a_value_is_the_diagonal_of_the_covariance():
    model = make_model()
    X = uniform(6, 2, seed=2)
    expected = model.prior_covariance(X, X).diagonal()
    torch.testing.assert_close(model.prior_variance(X), expected)


def test_covariance_of_a_duel_with_a_value_is_that_of_its_first_side_less_the_second():
    model = make_model((3,)).eval()
    X = uniform(5, 3, 2, 2, seed=2)  # t x batch_shape x q x d
    found = model.cross_covariance(X)  # batch_shape x n x (t q)
    assert found.shape == (3, 4, 10)
    sides = model.original_datapoints.unflatten(-2, (4, 2)).unbind(dim=-2)
    for t in range(5):
        first, second = (model.prior_covariance(side, X[t]) for side in sides)
        torch.testing.assert_close(found[..., 2 * t : 2 * t + 2], first - second)


def test_a_constant_mean_is_zero_of_duels_and_itself_of_values():
    mean = ConstantMean()
    mean.constant = torch.tensor(1.5)
    X = uniform(4, 2, 2)
    Y = uniform(4, 1).round()
    model = PreferenceGP(X, Y, covar_module=simple_kernel(), mean_module=mean)
    assert torch.equal(model.prior_of_training_trials()[0], double([0.0] * 4))
    assert torch.equal(model.prior_mean(X), double([[1.5] * 2] * 4))


def test_drawn_noise_of_contests_has_the_covariance_that_the_prior_adds():
    X = uniform(2, 3, 2)
    Y = double([[0.0], [2.0]])
    model = BestOfGP(X, Y, covar_module=simple_kernel())
    number = model.train_targets.shape[-1]
    torch.manual_seed(0)
    draws = model.draw_shared_noise(torch.zeros(200_000, number, dtype=torch.double))
    expected = model.shared_noise_covariance(draws)
    assert expected is not None
    assert torch.count_nonzero(expected) > number
    torch.testing.assert_close(draws.T.cov(), expected, rtol=0, atol=0.02)
    K = model.trial_functional(
        model.trial_functional(model.covar_module(model.datapoints).to_dense()), dim=-2
    )
    torch.testing.assert_close(model.prior_of_training_trials()[1], K + expected)


def test_trials_that_share_no_noise_get_none():
    model = make_model()
    values = uniform(7, 4)
    assert model.shared_noise_covariance(values) is None
    assert model.draw_shared_noise(values) is values
