r"""Guess and lapse rates that are learned with the other hyperparameters."""

from __future__ import annotations

import math
import pickle
from copy import deepcopy
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import ScaleKernel
from gpytorch.priors import UniformPrior
from scipy import stats
from torch import Tensor
from torch.autograd import gradcheck

from botorch_binary_context import (
    ApproximateMarginalLogLikelihood,
    BinaryGP,
    ProbitLikelihood,
)
from botorch_binary_context.inference import (
    ExpectationPropagation,
    Inference,
    Laplace,
)
from botorch_binary_context.likelihoods.priors import BetaPrior
from tests.small_models import simple_kernel
from tests.tensors import double, uniform

CONTRASTS = double([-38.0, -6.0, -1.3, 0.0, 0.4, 5.0, 30.0])
VARIANCES = double([1.0, 4.0, 0.1, 9.0, 25.0, 2.0, 4.0])
LABELS = (torch.arange(7) % 2).double()
# The rates, and which of them are learned.
CASES = {
    "lapse": (0.5, 0.02, {"learn_lapse_rate": True}),
    "guess": (0.25, 0.02, {"learn_guess_rate": True}),
    "lapse alone": (0.0, 0.05, {"learn_lapse_rate": True}),
    "guess alone": (0.1, 0.0, {"learn_guess_rate": True}),
    "both": (0.2, 0.05, {"learn_guess_rate": True, "learn_lapse_rate": True}),
}
every_case = pytest.mark.parametrize("case", CASES)
both_inferences = pytest.mark.parametrize(
    "inference", [ExpectationPropagation(), Laplace()], ids=repr
)


def learned(case: str, **kwargs: Any) -> ProbitLikelihood:
    guess, lapse, learn = CASES[case]
    return ProbitLikelihood(guess, lapse, **learn, **kwargs)


def fixed(case: str) -> ProbitLikelihood:
    return ProbitLikelihood(*CASES[case][:2])


def both_rates(likelihood: ProbitLikelihood) -> list[float]:
    rates = likelihood.guess_rate, likelihood.lapse_rate
    return [rate.item() if isinstance(rate, Tensor) else rate for rate in rates]


def near(found: Any, expected: Any, atol: float = 1e-12, rtol: float = 0.0) -> None:
    found = torch.as_tensor(found).detach()
    expected = torch.as_tensor(expected, dtype=found.dtype).detach()
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)


# ----------------------------------------------------------------------- the numbers


@every_case
class TestSameNumbersAsFixedRates:
    def test_log_probabilities_and_probabilities_of_labels(self, case: str) -> None:
        found = learned(case).log_prob(CONTRASTS, LABELS)
        near(found, fixed(case).log_prob(CONTRASTS, LABELS))
        found = learned(case).probability(CONTRASTS)
        near(found, fixed(case).probability(CONTRASTS))

    def test_derivatives_of_every_order(self, case: str) -> None:
        for method, arguments in (
            ("log_derivatives", (CONTRASTS, LABELS)),
            ("tilted_derivatives", (CONTRASTS, VARIANCES, LABELS)),
        ):
            first = getattr(learned(case), method)(*arguments)
            second = getattr(fixed(case), method)(*arguments)
            for name in ("value", "gradient", "negative_hessian", "information"):
                near(getattr(first, name), getattr(second, name), rtol=1e-9)

    def test_moments_and_information(self, case: str) -> None:
        arguments = CONTRASTS, VARIANCES
        first = learned(case)
        second = fixed(case)
        near(
            first.mutual_information(*arguments), second.mutual_information(*arguments)
        )
        near(
            first.expected_probability(*arguments),
            second.expected_probability(*arguments),
        )
        for found, expected in zip(
            first.probability_moments(*arguments),
            second.probability_moments(*arguments),
            strict=True,
        ):
            near(found, expected)

    def test_contrast_at(self, case: str) -> None:
        for p in (0.55, 0.8, 0.9):
            found = learned(case).contrast_at(p)
            near(found, fixed(case).contrast_at(p), 1e-9)

    @both_inferences
    def test_posterior_and_evidence(self, case: str, inference: Inference) -> None:
        X, Y = trials(20)
        settings: Any = {"covar_module": simple_kernel(1), "inference": inference}
        likelihood = learned(case)
        model = BinaryGP(X, Y, likelihood, **settings)
        # To the last digit: constraints hold their bounds in single precision.
        guess, lapse = both_rates(likelihood)
        same = ProbitLikelihood(guess, lapse)
        near(both_rates(likelihood), both_rates(fixed(case)), 1e-7)
        models = (model, BinaryGP(X, Y, same, **settings))
        test_X = uniform(4, 1)
        for name in ("mean", "variance"):
            near(*(getattr(m.posterior(test_X), name) for m in models), atol=1e-11)
        near(*(m.approximation.log_evidence for m in models), atol=1e-11)


class TestGradient:
    """The derivatives in the raw rates, by finite differences."""

    @every_case
    def test_in_the_rates(self, case: str) -> None:
        likelihood = learned(case)
        names, values = zip(*likelihood.named_parameters(), strict=True)

        def func(*raw: Tensor) -> tuple[Tensor, ...]:
            parameters = dict(zip(names, raw, strict=True))
            copy = deepcopy(likelihood)
            for name in names:
                copy._parameters.pop(name)
                setattr(copy, name, parameters[name])
            derivatives = copy.log_derivatives(CONTRASTS, LABELS)
            return copy.probability(CONTRASTS), derivatives.value, derivatives.gradient

        inputs = tuple(value.detach().clone().requires_grad_() for value in values)
        assert gradcheck(func, inputs)


# -------------------------------------------------------------------- the parameter


class TestParameter:
    def test_starts_at_the_given_rates(self, subtests: pytest.Subtests) -> None:
        for case, (guess, lapse, _) in CASES.items():
            with subtests.test(case):
                near(both_rates(learned(case)), [guess, lapse])

    def test_start_at_zero_can_move(self) -> None:
        likelihood = ProbitLikelihood(0.5, learn_lapse_rate=True)
        (raw,) = likelihood.parameters()
        assert 0.0 < both_rates(likelihood)[1] < 0.02
        (slope,) = torch.autograd.grad(torch.as_tensor(likelihood.lapse_rate), raw)
        assert slope.abs().item() > 1e-4

    def test_only_what_is_learned_is_a_parameter(self) -> None:
        for case, names in (
            ("lapse", ["raw_lapse_rate"]),
            ("guess", ["raw_guess_rate"]),
            ("both", ["raw_guess_rate", "raw_lapse_rate"]),
        ):
            found = dict(learned(case).named_parameters())
            assert list(found) == names
            assert learned(case).requires_grad
        assert list(fixed("both").parameters()) == []
        assert not fixed("both").requires_grad

    def test_rates_stay_apart_however_far_the_search_goes(self) -> None:
        # However far the search goes, there is something left between the rates.
        for case in CASES:
            likelihood = learned(case)
            for raw in (-1e3, 1e3):
                for parameter in likelihood.parameters():
                    parameter.data.fill_(raw)
                guess, lapse = both_rates(likelihood)
                assert min(guess, lapse) >= 0.0
                assert guess + lapse < 1.0
                value = likelihood.log_prob(CONTRASTS, LABELS)
                assert bool(value.isfinite().all())

    def test_not_log_concave(self) -> None:
        assert not ProbitLikelihood(learn_lapse_rate=True).is_log_concave
        assert ProbitLikelihood().is_log_concave

    def test_batch_shape(self) -> None:
        for batch_shape in ((3,), (2, 3)):
            likelihood = learned("both", batch_shape=torch.Size(batch_shape))
            for rate in (likelihood.guess_rate, likelihood.lapse_rate):
                assert isinstance(rate, Tensor)
                assert rate.shape == (*batch_shape, 1)
            mean = CONTRASTS.expand(*batch_shape, 7)
            found = likelihood.log_prob(mean, LABELS)
            near(found, fixed("both").log_prob(mean, LABELS))
            assert likelihood.probability(mean).shape == (*batch_shape, 7)

    def test_elements_of_a_batch_have_their_own_rates(self) -> None:
        likelihood = learned("lapse", batch_shape=torch.Size([2]))
        raw: Any = likelihood.raw_lapse_rate
        raw.data.copy_(double([[-4.0], [0.0]]))
        rates: Any = likelihood.lapse_rate
        mean = CONTRASTS.expand(2, -1)
        found = likelihood.log_prob(mean, LABELS)
        information = likelihood.mutual_information(mean, VARIANCES)
        for i, rate in enumerate(rates.flatten().tolist()):
            one = ProbitLikelihood(0.5, rate)
            near(found[i], one.log_prob(CONTRASTS, LABELS))
            near(information[i], one.mutual_information(CONTRASTS, VARIANCES))

    def test_refuses_rates_out_of_range(self) -> None:
        for guess, lapse in ((-0.1, 0.0), (0.0, 1.0), (0.6, 0.5)):
            with pytest.raises(InputDataError, match="_rate`` "):
                ProbitLikelihood(guess, lapse, learn_lapse_rate=True)


class TestPrior:
    def test_log_density(self) -> None:
        x = double([1e-4, 0.02, 0.1, 0.5, 0.99])
        for a, b in ((1.5, 30.0), (1.0, 1.0), (2.0, 5.0)):
            expected = torch.from_numpy(stats.beta.logpdf(x.numpy(), a, b))
            near(BetaPrior(a, b).log_prob(x), expected)

    def test_draws_follow_the_beta_distribution_of_scipy(self) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            draws = BetaPrior(1.5, 30.0).rsample(torch.Size([4000]))
        found = stats.kstest(draws.numpy(), stats.beta(1.5, 30.0).cdf)
        assert found.pvalue > 0.001

    def test_copies_and_dtypes(self) -> None:
        prior = BetaPrior(1.5, 30.0)
        x = double([0.1])
        expected = prior.log_prob(x)
        for copy in (deepcopy(prior), pickle.loads(pickle.dumps(prior))):
            near(copy.log_prob(x), expected)
        near(prior.expand(torch.Size([2])).log_prob(x), expected)
        single = prior.float().log_prob(x.float())
        assert single.dtype == torch.float
        near(single, expected, 1e-5)

    def test_default_is_beta(self) -> None:
        likelihood = learned("both")
        priors = {name: prior for name, _, prior, _, _ in likelihood.named_priors()}
        assert sorted(priors) == ["guess_rate_prior", "lapse_rate_prior"]
        median, tail = stats.beta(1.5, 30.0).ppf([0.5, 0.995])
        assert 0.035 < median < 0.045
        assert tail < 0.2
        for prior in priors.values():
            expected = stats.beta.logpdf(0.03, 1.5, 30.0)
            near(prior.log_prob(double(0.03)), float(expected))

    def test_the_evidence_has_the_prior(self) -> None:
        X, Y = trials(10)
        values = []
        for likelihood in (learned("lapse"), fixed("lapse")):
            model = BinaryGP(X, Y, likelihood, simple_kernel(1))
            mll = ApproximateMarginalLogLikelihood(likelihood, model).train()
            value: Any = mll(model(*model.train_inputs), model.train_targets)
            values.append(10 * value)
        prior = float(stats.beta.logpdf(0.02, 1.5, 30.0))
        near(values[0] - values[1], prior, 1e-8)

    def test_another_prior(self) -> None:
        likelihood = learned("lapse", rate_prior=UniformPrior(0.0, 0.2))
        ((_, _, prior, _, _),) = likelihood.named_priors()
        near(prior.log_prob(torch.tensor(0.1)), -math.log(0.2), 1e-6)

    def test_drawing_from_the_prior_sets_the_rate(self) -> None:
        likelihood = learned("lapse")
        with torch.random.fork_rng():
            torch.manual_seed(0)
            likelihood.sample_from_prior("lapse_rate_prior")
        assert both_rates(likelihood)[1] != 0.02
        assert 0.0 < both_rates(likelihood)[1] < 0.5


# ------------------------------------------------------------------ copies and states


class TestCopies:
    def moved(self, case: str = "lapse") -> ProbitLikelihood:
        """A likelihood whose rates are not those that it began with."""
        likelihood = learned(case)
        for parameter in likelihood.parameters():
            parameter.data.add_(0.7)
        return likelihood

    def test_deepcopy_and_pickle(self) -> None:
        for case in CASES:
            likelihood = self.moved(case)
            for copy in (
                deepcopy(likelihood),
                pickle.loads(pickle.dumps(likelihood)),
            ):
                near(both_rates(copy), both_rates(likelihood))
                for parameter in copy.parameters():
                    parameter.data.zero_()
                assert both_rates(copy) != both_rates(likelihood)
                assert len(list(copy.named_priors())) == len([*copy.parameters()])

    def test_state_dict(self) -> None:
        for case in CASES:
            likelihood = self.moved(case)
            other = learned(case)
            other.load_state_dict(likelihood.state_dict())
            near(both_rates(other), both_rates(likelihood))

    def test_state_dict_of_a_model(self) -> None:
        X, Y = trials(10)
        model = BinaryGP(X, Y, self.moved(), simple_kernel(1))
        other = BinaryGP(X, Y, learned("lapse"), simple_kernel(1))
        other.load_state_dict(model.state_dict())
        first, second = (m.posterior(uniform(3, 1)).mean for m in (model, other))
        near(first, second, 1e-9)

    def test_single_precision(self) -> None:
        for case in CASES:
            likelihood = self.moved(case).to(torch.float)
            rates = both_rates(likelihood)
            near(rates, both_rates(self.moved(case)), 1e-6)
            value = likelihood.log_prob(CONTRASTS.float(), LABELS.float())
            assert value.dtype == torch.float
            double_value = self.moved(case).log_prob(CONTRASTS, LABELS)
            near(value, double_value, atol=1e-5, rtol=1e-5)

    def test_is_like(self) -> None:
        # Trials of one likelihood are those of its copy in another model.
        assert learned("lapse").is_like(learned("lapse"))
        assert not learned("lapse").is_like(learned("guess"))
        assert not learned("lapse").is_like(fixed("lapse"))
        assert not learned("lapse").is_like(learned("lapse alone"))

    def test_conditioning_keeps_the_rates(self) -> None:
        X, Y = trials(10)
        model = BinaryGP(X, Y, self.moved(), simple_kernel(1))
        conditioned = model.condition_on_observations(X[:2], Y[:2])
        found: Any = conditioned.likelihood
        near(both_rates(found), both_rates(self.moved()))


# --------------------------------------------------------------------------- fitting


def trials(n: int, guess: float = 0.5, lapse: float = 0.1) -> tuple[Tensor, Tensor]:
    """Trials whose probability rises from the guess rate to 1 - the lapse rate."""
    X = uniform(n, 1, seed=1)
    p = guess + (1 - guess - lapse) * torch.special.ndtr(30 * (X - 0.5))
    return X, (uniform(n, 1, seed=15) < p).double()


def fit(likelihood: ProbitLikelihood, inference: Inference, **data: float) -> float:
    """Fit to 300 trials; by how much the objective rose, per trial."""
    X, Y = trials(300, **data)
    kernel: ScaleKernel = simple_kernel(1)
    kernel.outputscale = 9.0
    kernel.requires_grad_(False)
    model = BinaryGP(X, Y, likelihood, covar_module=kernel, inference=inference)
    mll = ApproximateMarginalLogLikelihood(model.likelihood, model)

    def objective() -> float:
        mll.train()
        value: Any = mll(model(*model.train_inputs), model.train_targets)
        return value.item()

    before = objective()
    fit_gpytorch_mll(mll)
    return objective() - before


def grid_maximum(inference: Inference, rates: Tensor) -> float:
    """The lapse rate on a grid where evidence times prior is largest."""
    X, Y = trials(300)
    kernel = simple_kernel(1)
    kernel.outputscale = 9.0
    values = []
    for rate in rates.tolist():
        model = BinaryGP(X, Y, ProbitLikelihood(0.5, rate), kernel, inference=inference)
        evidence = model.eval().approximation.log_evidence.item()
        values.append(evidence + stats.beta.logpdf(rate, 1.5, 30.0))
    return float(rates[double(values).argmax()])


class TestFit:
    @both_inferences
    def test_finds_the_lapse_rate(self, inference: Inference) -> None:
        likelihood = ProbitLikelihood(0.5, 0.02, learn_lapse_rate=True)
        assert fit(likelihood, inference) > 1e-3
        assert abs(both_rates(likelihood)[1] - 0.1) < 0.03

    @both_inferences
    def test_ends_where_the_evidence_is_largest(self, inference: Inference) -> None:
        likelihood = ProbitLikelihood(0.5, 0.02, learn_lapse_rate=True)
        fit(likelihood, inference)
        grid = torch.linspace(0.05, 0.15, 21)
        best = grid_maximum(inference, grid)
        assert abs(both_rates(likelihood)[1] - best) <= 0.0051

    @both_inferences
    def test_finds_the_guess_rate(self, inference: Inference) -> None:
        likelihood = ProbitLikelihood(0.02, 0.02, learn_guess_rate=True)
        assert fit(likelihood, inference, guess=0.1, lapse=0.02) > 1e-3
        assert abs(both_rates(likelihood)[0] - 0.1) < 0.03

    @both_inferences
    def test_finds_both_rates(self, inference: Inference) -> None:
        likelihood = ProbitLikelihood(
            0.02, 0.02, learn_guess_rate=True, learn_lapse_rate=True
        )
        assert fit(likelihood, inference, guess=0.1, lapse=0.1) > 1e-3
        near(both_rates(likelihood), [0.1, 0.1], 0.03)

    def test_of_a_batch(self) -> None:
        X, Y = trials(300)
        labels = torch.stack([Y, trials(300, lapse=0.01)[1]])
        shape = torch.Size([2])
        likelihood = ProbitLikelihood(
            0.5, 0.05, learn_lapse_rate=True, batch_shape=shape
        )
        kernel = simple_kernel(1)
        kernel.requires_grad_(False)
        model = BinaryGP(X.expand(2, -1, -1), labels, likelihood, covar_module=kernel)
        fit_gpytorch_mll(ApproximateMarginalLogLikelihood(likelihood, model))
        found: Any = likelihood.lapse_rate
        assert found.shape == (2, 1)
        assert found[0, 0] > found[1, 0] + 0.04
