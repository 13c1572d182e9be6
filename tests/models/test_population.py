from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.fit import fit_gpytorch_mll
from torch import Tensor

from botorch_binary_context import (
    ApproximateMarginalLogLikelihood,
    BinaryGP,
    ContextSpace,
    PopulationPrior,
    PreferenceGP,
    population_prior,
    psychometric_gp,
)
from botorch_binary_context.models import population
from tests.closeness import assert_all_close
from tests.tensors import double, uniform

SPACE = ContextSpace(double([[-1.0, 0.0], [1.0, 1.0]]), [0], [0.0])


def subject(j: int, n: int = 40) -> tuple[Tensor, Tensor]:
    """Slopes near 9, and a best parameter near 0.3."""
    generator = torch.Generator().manual_seed(j)
    z = torch.randn(2, generator=generator, dtype=torch.double)
    X = torch.lerp(SPACE.bounds[0], SPACE.bounds[1], uniform(n, 2, seed=j))
    peak = 0.3 + 0.05 * z[0]
    f = (9 + 0.5 * z[1]) * X[:, 0] - 20 * (X[:, 1] - peak).square()
    Y = torch.bernoulli(torch.special.ndtr(f), generator=generator)
    return X, Y.unsqueeze(-1)


def earlier(number: int, n: int = 40) -> list[BinaryGP]:
    return [psychometric_gp(*subject(j, n), SPACE) for j in range(number)]


def total_evidence(models: list[BinaryGP], values: dict[str, Tensor]) -> Tensor:
    """The evidences of subjects, one by one, and the priors once."""
    total = torch.zeros((), dtype=torch.double)
    for number, model in enumerate(models):
        for name, parameter in model.named_parameters():
            parameter.data.copy_(values[name])
        mean, K = model._prior_moments(model.train_inputs)
        likelihood, targets = model.trial_likelihood, model.train_targets
        total = total + model.inference.evidence(likelihood, mean, K, targets)[0]
        if number == 0:
            total = total + population._log_prior(model)
    return total.detach()


class TestPopulationPrior:
    def test_maximizes_the_evidence_of_all(self) -> None:
        """Against subjects one by one, whose numbers of trials differ."""
        models = [psychometric_gp(*subject(j, 25 + j % 2), SPACE) for j in range(4)]
        prior = population_prior(models)
        best = total_evidence(models, prior.parameters)
        fixed = ("context_variance", "constant")
        for name, value in prior.parameters.items():
            if any(part in name for part in fixed):  # which have a prior of their own
                continue
            for step in (-0.2, 0.2):
                moved = {**prior.parameters, name: value + step}
                assert total_evidence(models, moved) < best, name

    def test_learns_what_is_common(self) -> None:
        models = earlier(8)
        prior = population_prior(models, mean_function=True)
        assert prior.num_subjects == 8
        X, Y = subject(100)
        plain = psychometric_gp(X[:0], Y[:0], SPACE).eval()
        informed = prior.apply(psychometric_gp(X[:0], Y[:0], SPACE))
        truth = 9 * X[:, 0] - 20 * (X[:, 1] - 0.3).square()
        errors = [
            (model.posterior(X).mean.squeeze(-1) - truth).square().mean().sqrt()
            for model in (plain, informed)
        ]
        assert errors[1] < 0.5 * errors[0]
        deviations = [m.posterior(X).variance.sqrt().mean() for m in (plain, informed)]
        assert deviations[1] < 0.6 * deviations[0]
        mll = ApproximateMarginalLogLikelihood(informed.likelihood, informed)
        fit_gpytorch_mll(mll)  # nothing was answered: the priors have their say
        learned: Any = informed.mean_module
        slope = learned.base.slope
        assert_all_close(slope.log(), population_slope(prior).log(), atol=0.1)


def population_slope(prior: PopulationPrior) -> Tensor:
    return torch.nn.functional.softplus(prior.parameters["mean_module.raw_slope"])


class TestMeanFunction:
    def test_mean_is_that_of_the_hierarchical_posterior(self) -> None:
        """Against brute force: one Gaussian process of subjects who share a mean."""
        models = earlier(3, n=12)
        groups = population._stack(models)
        points = population._choose_points(groups)
        kernel = groups[0].covar_module
        mean = population.PopulationMean(groups[0].mean_module, kernel, points)
        groups[0].mean_module = mean
        for _ in range(12):
            population._learn_mean(groups, mean, 3)
        # The mode of the mean given the sites of the subjects' approximations.
        rows = groups[0].datapoints
        approximation = groups[0].approximation
        gap = mean.learned(rows)
        with torch.no_grad():
            cross = groups[0].cross_covariance(rows)
            own = (approximation.weights.unsqueeze(-2) @ cross).squeeze(-2)
            K = torch.block_diag(*groups[0].prior_covariance(rows, rows))
            flat = rows.flatten(0, 1)
            shared = groups[0].prior_covariance(flat, flat)
            alpha = torch.linalg.lstsq(K, own.flatten()).solution
            # At the optimum the mean is the prior covariance times all weights.
            assert_all_close(gap.flatten(), shared @ alpha, atol=0.05, rtol=0.05)

    def test_batches_and_duels(self) -> None:
        pairs = uniform(6, 20, 2, 1)
        Y = (pairs[:, :, 0] > pairs[:, :, 1]).double()
        prior = population_prior(
            [PreferenceGP(pairs[j], Y[j]) for j in range(5)], mean_function=True
        )
        batched = prior.apply(PreferenceGP(pairs[:2, :3], Y[:2, :3]))
        single = prior.apply(PreferenceGP(pairs[0, :3], Y[0, :3]))
        test = uniform(4, 1, seed=3)
        mean = batched.posterior(test.expand(2, 4, 1)).mean
        assert_all_close(mean[0], single.posterior(test).mean, atol=1e-6)
        order = single.posterior(double([[0.1], [0.9]])).mean.flatten()
        assert order[0] < order[1]

    def test_refuses_no_models_and_models_made_in_other_ways(self) -> None:
        with pytest.raises(InputDataError, match="to hold a model, but got none"):
            population_prior([])
        X, Y = subject(0, 5)
        with pytest.raises(UnsupportedError, match="made in the same way"):
            population_prior([psychometric_gp(X, Y, SPACE), BinaryGP(X.abs(), Y)])
        prior = population_prior(earlier(1, n=5))
        with pytest.raises(UnsupportedError, match="as those of the earlier"):
            prior.apply(BinaryGP(X.abs(), Y))
