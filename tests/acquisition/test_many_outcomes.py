r"""Acquisition functions of more than two outcomes, from the definitions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.special import entr, ndtr

from botorch_binary_context import (
    BernoulliMutualInformation,
    ConfidenceLikelihood,
    ContextSpace,
    ContextualBinaryKnowledgeGradient,
    ContextualJointEntropySearch,
    ExpectedAbsoluteVolumeChange,
    GlobalMutualInformation,
    MomentMatchedKnowledgeGradient,
    Observations,
    OneShotContextualBinaryKnowledgeGradient,
    RatingLikelihood,
    SampledKnowledgeGradient,
    TargetedInformation,
    TiesLikelihood,
    WorstContext,
    suggest,
)
from botorch_binary_context.acquisition.joint_information import most_joint
from botorch_binary_context.inference import Laplace
from botorch_binary_context.likelihoods import OrdinalLikelihood
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.pending import expect_outcomes
from tests.small_models import simple_kernel
from tests.tensors import double, uniform

SPACE = ContextSpace(
    double([[0.0, 0.0], [1.0, 1.0]]), context_dims=[0], reference_context=[0.5]
)
MAKERS: dict[str, Any] = {
    "ratings": lambda: RatingLikelihood(4, learn_widths=False),
    "ties": lambda: TiesLikelihood(0.5, learn_width=False),
    "confidence": lambda: ConfidenceLikelihood(0.25, 0.02, learn_widths=False),
}
# A fine grid, on which sums are as good as integrals.
NORMAL = torch.linspace(-9, 9, 1801, dtype=torch.double)
DENSITY = torch.from_numpy(stats.norm.pdf(NORMAL)) * 0.01
every_kind = pytest.mark.parametrize("kind", MAKERS)


def make_model(kind: str, n: int = 8, inference: Any = None) -> LatentGP:
    likelihood = MAKERS[kind]()
    rows = likelihood.functional.num_rows
    X = uniform(n, rows, 2)
    X[..., 0] = X[:, :1, 0]
    Y = (likelihood.num_outcomes * uniform(n, 1, seed=1)).floor()
    trials = likelihood.functional.trials(X.flatten(0, 1))
    observations = [Observations(trials, Y, likelihood)]
    model = LatentGP(observations, simple_kernel(), inference=inference)
    return model.requires_grad_(False)


def candidates(model: LatentGP, number: int) -> Tensor:
    X = uniform(number, model.functional.num_rows, 2, seed=5)
    X[..., 0] = X[:, :1, 0]
    return X


@every_kind
def test_moment_matched_knowledge_gradient(kind: str):
    model = make_model(kind)
    acqf = MomentMatchedKnowledgeGradient(model, SPACE)
    X, k = candidates(model, 2), model.likelihood.num_outcomes
    inner = uniform(2, k, 1, seed=6)
    found = acqf.evaluate_joint(X, inner)
    for i in range(2):
        rows = torch.cat([X[i], SPACE.at_reference(inner[i])])
        posterior = model.posterior(rows)
        covar: Any = posterior.distribution.covariance_matrix  # pyright: ignore
        mean, q = posterior.mean.squeeze(-1), X.shape[-2]
        g = model.functional(mean[:q])
        to_point = model.functional(covar[:q, q:], dim=-2).squeeze(0)
        deviation = model.functional.of_covariance(covar[:q, :q]).flatten().sqrt()
        # Outcomes come from the highest label down.
        p = model.likelihood.probabilities(g + deviation * NORMAL).flip(0)  # k x N
        f = mean[q:, None] + (to_point / deviation)[:, None] * NORMAL
        total = float((p * f * DENSITY).sum())
        expected = total - float(acqf.current_value)
        assert float(found[i]) == pytest.approx(expected, abs=1e-7)
    value = acqf.evaluate(X)
    assert bool((value >= acqf.screen(X) - 1e-9).all())
    assert bool((value >= 0).all())


@every_kind
def test_knowledge_gradient_by_refitted_posteriors(kind: str):
    model = make_model(kind, inference=Laplace())
    X, k = candidates(model, 2), model.likelihood.num_outcomes
    inner = uniform(2, k, 1, seed=6)
    nested = ContextualBinaryKnowledgeGradient(model, SPACE)
    found = nested.evaluate_at(X, inner)
    one_shot = OneShotContextualBinaryKnowledgeGradient(
        model, SPACE, current_value=nested.current_value
    )
    assert one_shot.get_augmented_q_batch_size(X.shape[-2]) == X.shape[-2] + k
    full = torch.cat([X, SPACE.at_reference(inner)], dim=-2)
    torch.testing.assert_close(one_shot(full), found)
    torch.testing.assert_close(one_shot.extract_candidates(full), X)
    for i in range(2):
        labels: Any = model.posterior(X[i], observation_noise=True)
        value = 0.0
        for j in range(k):
            label = double([[k - 1.0 - j]])
            trial = model.functional.trials(X[i])
            after = model.condition_on_observations(trial, label)
            mean = after.posterior_mean(SPACE.at_reference(inner[i, j : j + 1]))
            value += float(labels.probabilities[k - 1 - j]) * float(mean)
        expected = value - float(nested.current_value)
        assert float(found[i]) == pytest.approx(expected, abs=1e-7)


@every_kind
def test_information_does_not_depend_on_the_order_of_trials(kind: str):
    model = make_model(kind)
    X = candidates(model, 2)
    alone = BernoulliMutualInformation(model)(X)
    beyond = [
        BernoulliMutualInformation(model, X_pending=X[1 - i])(X[i : i + 1])
        for i in range(2)
    ]
    assert float(beyond[0] + alone[1]) == pytest.approx(
        float(beyond[1] + alone[0]), abs=1e-6
    )
    assert float(beyond[0]) < float(alone[0])


def test_as_many_joint_outcomes_whatever_the_trials():
    assert [most_joint(k) for k in (2, 3, 4, 5, 7)] == [6, 3, 3, 2, 2]


@every_kind
def test_joint_entropy_search(kind: str):
    model = make_model(kind)
    X = candidates(model, 3)
    acqf = ContextualJointEntropySearch(model, SPACE, num_paths=2, seed=0)
    optima = uniform(2, 2, seed=8)
    values = double([1.0, 2.5])
    acqf.set_optima(optima, values)
    found = acqf(X)
    likelihood, functional = model.likelihood, model.functional
    for i in range(3):
        posterior = model.posterior(torch.cat([X[i], optima]))
        covar: Any = posterior.distribution.covariance_matrix  # pyright: ignore
        mean, q = posterior.mean.squeeze(-1), X.shape[-2]
        g = functional(mean[:q])
        variance = functional.of_covariance(covar[:q, :q]).flatten()
        cross = functional(covar[:q, q:], dim=-2).squeeze(0)
        variances = covar.diagonal()[q:]
        means = g + cross / variances * (values - mean[q:])
        p = likelihood.expected_probabilities(means, variance - cross**2 / variances)
        now = likelihood.expected_probabilities(g, variance)
        expected = float(entr(now).sum() - entr(p).sum(dim=0).mean())
        assert float(found[i]) == pytest.approx(expected, abs=1e-5)


@every_kind
def test_targeted_information_at_the_target_is_all_there_is(kind: str):
    model = make_model(kind)
    X = candidates(model, 3)
    everything = BernoulliMutualInformation(model)(X)
    targeted = TargetedInformation(model, X[0])(X)
    assert float(targeted[0]) == pytest.approx(float(everything[0]), abs=1e-7)
    assert bool((targeted <= everything + 1e-9).all())


@every_kind
def test_outcomes_together_with_a_low_variable(kind: str):
    likelihood = MAKERS[kind]()
    assert isinstance(likelihood, OrdinalLikelihood)
    mean = double([0.3, -1.0])
    variance = double([1.5, 0.4])
    below = double([0.2, -0.7])
    covariance = double([-0.8, 0.5])
    found = likelihood.probabilities_below(mean, variance, below, covariance)
    for i in range(2):
        sd = variance[i].sqrt()
        rho = covariance[i] / sd
        rest = ndtr((below[i] - rho * NORMAL) / (1 - rho**2).sqrt())
        p = likelihood.probabilities(mean[i] + sd * NORMAL)
        expected = (p * rest * DENSITY).sum(dim=-1)
        torch.testing.assert_close(found[:, i], expected, rtol=0, atol=1e-10)


def test_level_sets():
    model = make_model("ratings")
    X = candidates(model, 4)
    for acqf_class in (GlobalMutualInformation, ExpectedAbsoluteVolumeChange):
        acqf: Any = acqf_class(model, SPACE, num_points=8)
        value = acqf(X)
        assert bool((value > 0).all())
        ahead = []  # from refitted posteriors, roughly the same
        for x in X:
            now = ndtr(acqf.below)
            labels: Any = model.posterior(x, observation_noise=True)
            total = 0.0
            for label in range(4):
                after = model.condition_on_observations(x, double([[float(label)]]))
                mean, variance = after.moments(acqf.points.unsqueeze(-2))
                low = ndtr((acqf.contrast - mean) / variance.sqrt())
                if acqf_class is ExpectedAbsoluteVolumeChange:
                    part = abs(float((now - low).mean()))
                else:
                    gain = entr(now) + entr(1 - now) - entr(low) - entr(1 - low)
                    part = float(gain.mean())
                total += float(labels.probabilities[label]) * part
            ahead.append(total)
        torch.testing.assert_close(value, double(ahead), rtol=0.1, atol=1e-3)


@every_kind
def test_sampled_knowledge_gradient_is_never_negative(kind: str):
    model = make_model(kind)
    goal = WorstContext([[0.2], [0.8]])
    value = SampledKnowledgeGradient(model, SPACE, goal)(candidates(model, 3))
    assert bool((value >= -1e-9).all())


@every_kind
def test_pending_trials_come_out_as_is_most_likely(kind: str):
    model = make_model(kind)
    pending = model.functional.trials(candidates(model, 3).flatten(0, 1))
    after = expect_outcomes(model, pending)
    mean = model.functional(model.posterior_mean(model.functional.rows(pending)))
    likely = model.likelihood.probabilities(mean).argmax(dim=0)
    torch.testing.assert_close(after.train_targets[-3:], likely.double())


@pytest.mark.parametrize("rule", ["mkg", "bald", "cjes", "cbkg", "ucb-ald", "ts-ald"])
def test_rules_on_ratings(rule: str):
    trial = suggest(make_model("ratings"), SPACE, rule=rule, seed=0)
    assert trial.shape == (1, 2)
    assert bool(((trial >= 0) & (trial <= 1)).all())


@pytest.mark.parametrize("rule", ["mkg", "bald", "muc-target", "kss-ald"])
def test_rules_on_ties(rule: str):
    duel = suggest(make_model("ties"), SPACE, rule=rule, seed=0)
    assert duel.shape == (1, 2, 2)
    assert bool((duel[..., 0, 0] == duel[..., 1, 0]).all())
