r"""Models of ties, ratings and confidence: posteriors against integrals over a grid."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_binary_context import (
    BinaryGP,
    ConfidenceLikelihood,
    LaplaceMarginalLogLikelihood,
    MixedGP,
    Observations,
    PreferenceGP,
    PreferenceLikelihood,
    ProbitLikelihood,
    RatingGP,
    RatingLikelihood,
    TiesLikelihood,
)
from botorch_binary_context.inference import ExpectationPropagation, Laplace
from botorch_binary_context.likelihoods import OutcomeLikelihood
from botorch_binary_context.models.latent_gp import LatentGP
from tests.derivatives import finite_difference
from tests.latent_posteriors import label_posterior
from tests.small_models import simple_kernel
from tests.tensors import double

ROWS = double([[0.2, 0.3], [0.5, 0.6], [0.9, 0.2]])
TEST = double([[0.4, 0.4], [0.8, 0.8]])
CASES: dict[str, tuple[Any, list[float]]] = {
    "ties": (lambda: TiesLikelihood(0.4, learn_width=False), [1.0, 2.0, 0.0]),
    "careless ties": (
        lambda: TiesLikelihood(0.4, 0.1, learn_width=False),
        [1.0, 2.0, 1.0],
    ),
    "ratings": (lambda: RatingLikelihood(5, learn_widths=False), [4.0, 1.0, 3.0]),
    "confidence": (
        lambda: ConfidenceLikelihood(0.25, 0.02, learn_widths=False),
        [2.0, 0.0, 3.0],
    ),
    "careless duels": (lambda: PreferenceLikelihood(0.05), [1.0, 0.0, 0.0]),
}


def trials_of(likelihood: OutcomeLikelihood) -> Tensor:
    if likelihood.functional.num_rows == 1:
        return ROWS
    return torch.stack([ROWS, ROWS.flip(0) * 0.7], dim=-2)


def make_model(name: str, inference: Any = None) -> LatentGP:
    make, labels = CASES[name]
    likelihood = make()
    X = trials_of(likelihood)
    Y = double(labels).unsqueeze(-1)
    observations = [Observations(X, Y, likelihood)]
    return LatentGP(observations, simple_kernel(), inference=inference)


def grid_posterior(model: LatentGP) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and variance of f at the test points, and the log evidence, by a grid."""
    with torch.no_grad():
        functional = model.trial_functional
        rows = torch.cat([model.datapoints, TEST])
        K = model.prior_covariance(rows, rows)
        m = model.datapoints.shape[-2]
        C = functional(functional(K[:m, :m]), dim=-2)
        cross = functional(K[:m, m:], dim=-2).numpy()
        C = C.numpy()
        prior = K[m:, m:].numpy()
    sd = np.sqrt(C.diagonal())
    axes = [np.linspace(-6 * s, 6 * s, 49) for s in sd]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    log_density = -0.5 * np.einsum("ni,ij,nj->n", points, np.linalg.inv(C), points)
    log_density -= 0.5 * np.linalg.slogdet(2 * np.pi * C)[1]
    labels = model.train_targets
    with torch.no_grad():
        p = model.kinds[0].probabilities(torch.from_numpy(points))  # k x N x 3
    index = labels.long().expand(1, len(points), 3)
    likelihood = p.gather(0, index)[0].prod(dim=-1).numpy()
    volume = np.prod([axis[1] - axis[0] for axis in axes])
    weights = np.exp(log_density) * likelihood * volume
    evidence = weights.sum()
    weights /= evidence
    A = np.linalg.solve(C, cross)  # 3 x T
    means = points @ A
    mean = weights @ means
    left = prior.diagonal() - (cross * A).sum(axis=0)
    return mean, weights @ (means - mean) ** 2 + left, float(np.log(evidence))


@pytest.mark.parametrize("name", CASES)
def test_posteriors_against_a_grid(name: str):
    mean, variance, evidence = grid_posterior(make_model(name))
    sd = np.sqrt(variance)
    model = make_model(name, ExpectationPropagation())
    posterior = model.posterior(TEST)
    gap = np.abs(posterior.mean.squeeze(-1).detach().numpy() - mean) / sd
    assert gap.max() < 0.03
    ratio = posterior.variance.squeeze(-1).detach().numpy() / variance
    assert np.abs(ratio - 1).max() < 0.03
    assert abs(float(model.approximation.log_evidence.detach()) - evidence) < 0.02
    with torch.no_grad():
        exact = model.exact_posterior(TEST, num_samples=2048)
    errors = exact.mean_error.squeeze(-1).numpy()
    assert (np.abs(exact.mean.squeeze(-1).numpy() - mean) < 4 * errors + 1e-6).all()
    laplace = make_model(name, Laplace()).posterior(TEST).mean.squeeze(-1)
    assert (np.abs(laplace.detach().numpy() - mean) / sd).max() < 0.4


@pytest.mark.parametrize("inference", [Laplace(), ExpectationPropagation(1e-9)])
@pytest.mark.parametrize("name", ["ties", "ratings", "confidence"])
def test_gradients_of_the_evidence(name: str, inference: Any):
    makes: dict[str, Any] = {
        "ties": lambda: TiesLikelihood(0.4, 0.05, learn_lapse_rate=True),
        "ratings": lambda: RatingLikelihood(5),
        "confidence": lambda: ConfidenceLikelihood(0.25, 0.02, learn_lapse_rate=True),
    }
    likelihood = makes[name]()
    X = trials_of(likelihood)
    Y = double(CASES[name][1]).unsqueeze(-1)
    model = LatentGP([Observations(X, Y, likelihood)], simple_kernel())
    model.inference = inference
    parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
    assert any("raw_width" in n for n in parameters)

    def evidence(values: Tensor) -> Tensor:
        start = 0
        for parameter in parameters.values():
            end = start + parameter.numel()
            parameter.data = values[start:end].detach().view_as(parameter)
            start = end
        return model.log_posterior_of_hyperparameters()

    begin = torch.cat([p.detach().flatten() for p in parameters.values()])
    expected = finite_difference(evidence, begin)
    found = torch.autograd.grad(evidence(begin), list(parameters.values()))
    found = torch.cat([gradient.flatten() for gradient in found])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_ties_of_no_width_make_the_model_of_duels():
    pairs = trials_of(PreferenceLikelihood())
    Y = double([[1.0], [0.0], [0.0]])
    ties = PreferenceGP(
        pairs, 2 * Y, TiesLikelihood(0.0, learn_width=False), simple_kernel()
    )
    duels = PreferenceGP(pairs, Y, covar_module=simple_kernel())
    for name in ("mean", "variance"):
        torch.testing.assert_close(
            getattr(ties.posterior(TEST), name), getattr(duels.posterior(TEST), name)
        )
    with pytest.raises(InputDataError, match="possible labels, but got 1 at index"):
        ties.condition_on_observations(pairs[:1], double([[1.0]]))


def test_two_ratings_make_the_model_of_outcomes():
    Y = double([[1.0], [0.0], [1.0]])
    for inference in (Laplace(), ExpectationPropagation()):
        ours = RatingGP(ROWS, Y, 2, covar_module=simple_kernel(), inference=inference)
        plain = BinaryGP(ROWS, Y, covar_module=simple_kernel(), inference=inference)
        for name in ("mean", "variance"):
            torch.testing.assert_close(
                getattr(ours.posterior(TEST), name),
                getattr(plain.posterior(TEST), name),
            )


def test_kinds_side_by_side():
    kinds = [
        (RatingLikelihood(4), double([[3.0], [0.0], [2.0]])),
        (TiesLikelihood(), double([[1.0], [2.0], [0.0]])),
        (ProbitLikelihood(), double([[1.0], [0.0], [1.0]])),
    ]
    parts = [Observations(trials_of(known), Y, known) for known, Y in kinds]
    model = MixedGP(parts, simple_kernel())
    joint = model.posterior(TEST)
    one_by_one = MixedGP(
        [Observations(part.X[:0], part.Y[:0], part.likelihood) for part in parts],
        simple_kernel(),
    )
    for part in parts:
        one_by_one = one_by_one.condition_on_observations(part)
    torch.testing.assert_close(
        one_by_one.posterior(TEST).mean, joint.mean, rtol=1e-4, atol=1e-4
    )
    labels = model.asking(0).posterior(TEST, observation_noise=True)
    assert labels.probabilities.shape == (4, 2, 1)  # pyright: ignore
    with pytest.raises(InputDataError, match="``targets`` to hold labels from 0 to 2"):
        model.set_train_data(targets=torch.full((9,), 3.0, dtype=torch.double))


@pytest.mark.parametrize("batch_shape", [(), (2,)])
def test_labels_have_the_moments_of_their_draws(batch_shape):
    likelihood = RatingLikelihood(4, learn_widths=False)
    X = ROWS.expand(*batch_shape, 3, 2)
    Y = double([[3.0], [0.0], [2.0]]).expand(*batch_shape, 3, 1)
    model = RatingGP(
        X, Y, likelihood=likelihood, covar_module=simple_kernel(2, batch_shape)
    )
    labels = label_posterior(model, TEST)  # pyright: ignore
    assert labels.probabilities.shape == (4, *batch_shape, 2, 1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        draws = labels.rsample(torch.Size([4000]))
    assert set(draws.unique().tolist()) <= {0.0, 1.0, 2.0, 3.0}
    error = (labels.variance / 4000).sqrt()
    assert bool(((draws.mean(dim=0) - labels.mean).abs() < 4 * error).all())
    for label in range(4):
        p = labels.density(torch.full_like(labels.mean, label))
        torch.testing.assert_close(p, labels.probabilities[label])
        share = (draws == label).double().mean(dim=0)
        assert bool(((share - p).abs() < 4 * (p * (1 - p) / 4000).sqrt()).all())
    many = labels.density(draws[:3])
    assert many.shape == draws[:3].shape


def test_a_fit_learns_how_often_raters_tie():
    generator = torch.Generator().manual_seed(0)
    pairs = torch.rand(60, 2, 1, generator=generator, dtype=torch.double)
    value = 4 * (3 * pairs).sin().squeeze(-1)
    noise = torch.randn(60, generator=generator, dtype=torch.double)
    latent = value[:, 0] - value[:, 1] + noise
    for true in (0.1, 1.5):
        Y = ((latent > -true).double() + (latent > true)).unsqueeze(-1)
        model = PreferenceGP(
            pairs, Y, TiesLikelihood(), simple_kernel(1), inference=Laplace()
        )
        mll = LaplaceMarginalLogLikelihood(model.likelihood, model)
        from botorch.fit import fit_gpytorch_mll

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit_gpytorch_mll(mll)
        likelihood = model.likelihood
        assert isinstance(likelihood, TiesLikelihood)
        assert abs(float(likelihood.width.detach()) - true) < 0.5 * (true + 0.2)


def test_elements_of_a_batch_have_their_own_thresholds():
    X = ROWS.expand(2, 3, 2)
    Y = double([[4.0], [0.0], [2.0]]).expand(2, 3, 1)
    whole = RatingGP(X, Y, covar_module=simple_kernel())
    widths = double([[0.5, 1.0, 2.0], [1.0, 0.3, 0.7]])
    likelihood: Any = whole.likelihood
    constraint = likelihood.raw_widths_constraint
    likelihood.initialize(raw_widths=constraint.inverse_transform(widths))
    found = whole.posterior(TEST)
    for i in range(2):
        alone = RatingLikelihood(5, widths=widths[i].tolist(), learn_widths=False)
        model = RatingGP(ROWS, Y[i], likelihood=alone, covar_module=simple_kernel())
        torch.testing.assert_close(
            found.mean[i], model.posterior(TEST).mean, rtol=1e-4, atol=1e-4
        )


def test_defaults_and_errors():
    model = RatingGP(ROWS, double([[4.0], [0.0], [2.0]]))
    assert model.likelihood.num_outcomes == 5
    with pytest.raises(InputDataError, match="``train_Y`` to hold labels from 0 to 2"):
        RatingGP(ROWS, double([[4.0], [0.0], [2.0]]), 3)
    with pytest.raises(InputDataError, match="``Y`` to hold labels from 0 to 4"):
        model.condition_on_observations(ROWS, double([[1.5], [0.0], [2.0]]))
