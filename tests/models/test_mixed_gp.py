r"""A model of pass/fail outcomes and duels about one latent function."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.exceptions.warnings import InputDataWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms import Normalize
from botorch.sampling import IIDNormalSampler
from gpytorch.kernels import ConstantKernel, Kernel, RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean
from scipy.stats import norm
from torch import Tensor

from botorch_binary_context import (
    DIFFERENCE,
    VALUE,
    ApproximateMarginalLogLikelihood,
    BinaryGP,
    ContextSpace,
    Functional,
    LabelPosterior,
    MixedGP,
    MultiplicativeContextKernel,
    Observations,
    PreferenceGP,
    PreferenceLikelihood,
    ProbitLikelihood,
    SearchOptions,
    recommend,
    suggest,
)
from botorch_binary_context.inference import (
    ExpectationPropagation,
    Inference,
    Laplace,
)
from tests.closeness import assert_all_close
from tests.small_models import simple_kernel
from tests.tensors import double, uniform

EXACT = ExpectationPropagation(tolerance=1e-10)
INFERENCES = [EXACT, Laplace()]
both_inferences = pytest.mark.parametrize("inference", INFERENCES, ids=repr)
every_batch = pytest.mark.parametrize("batch_shape", [(), (3,), (2, 2)])
TEST_X = uniform(5, 2, seed=3)
QUICK = SearchOptions(num_restarts=2, raw_samples=16, max_evaluations=10)
UNIT = double([[0.0, 0.0], [1.0, 1.0]])
SPACE = ContextSpace(UNIT, context_dims=[0], reference_context=[1.0])
PLAIN_SPACE = ContextSpace(UNIT)


def outcomes(n: int = 6, *batch_shape: int, seed: int = 0) -> Observations:
    """Outcomes of two-alternative tests."""
    X = uniform(*batch_shape, n, 2, seed=seed)
    Y = (uniform(*batch_shape, n, 1, seed=seed + 1) > 0.4).double()
    return Observations(X, Y, ProbitLikelihood(0.5))


def duels(n: int = 5, *batch_shape: int, seed: int = 10) -> Observations:
    X = uniform(*batch_shape, n, 2, 2, seed=seed)
    Y = (uniform(*batch_shape, n, 1, seed=seed + 1) > 0.5).double()
    return Observations(X, Y, PreferenceLikelihood())


def mixed(*observations: Observations, **kwargs: Any) -> MixedGP:
    """A model with a kernel that needs no fit."""
    kinds = observations or (outcomes(), duels())
    kwargs = {"covar_module": level_kernel(), "inference": EXACT, **kwargs}
    return MixedGP(list(kinds), **kwargs)


def level_kernel(level: float = 2.0) -> Kernel:
    """A smooth function plus a level."""
    return simple_kernel() + constant_kernel(level)


def constant_kernel(level: float) -> ConstantKernel:
    return ConstantKernel().double().initialize(constant=double([level]))


def join(first: Observations, second: Observations) -> Observations:
    """The trials of both, which are of one kind and have no batch."""
    X, Y = torch.cat([first.X, second.X]), torch.cat([first.Y, second.Y])
    return Observations(X, Y, first.likelihood)


def moments(model: Any, X: Tensor = TEST_X) -> tuple[Tensor, Tensor]:
    posterior = model.posterior(X)
    return posterior.mean, posterior.distribution.covariance_matrix


def evidence(model: Any) -> Tensor:
    return model.eval().approximation.log_evidence


def assert_same(
    first: Any, second: Any, X: Tensor = TEST_X, atol: float = 1e-9
) -> None:
    """The posterior and the evidence of two models agree."""
    pairs = zip(
        (*moments(first, X), evidence(first)),
        (*moments(second, X), evidence(second)),
        strict=True,
    )
    for found, expected in pairs:
        torch.testing.assert_close(found, expected, rtol=0, atol=atol)


# -------------------------------------------------------------------- one kind alone


@both_inferences
@every_batch
class TestOneKind:
    def test_without_duels_it_is_a_model_of_outcomes(
        self, inference: Inference, batch_shape: tuple[int, ...]
    ) -> None:
        data, none = outcomes(6, *batch_shape), duels(0, *batch_shape)
        single = BinaryGP(
            data.X,
            data.Y,
            data.likelihood,
            covar_module=level_kernel(),
            inference=inference,
        )
        for kinds in ((data, none), (none, data), (data,)):
            assert_same(mixed(*kinds, inference=inference), single)

    def test_without_outcomes_it_is_a_model_of_duels(
        self, inference: Inference, batch_shape: tuple[int, ...]
    ) -> None:
        data, none = duels(5, *batch_shape), outcomes(0, *batch_shape)
        single = PreferenceGP(
            data.X, data.Y, covar_module=level_kernel(), inference=inference
        )
        for kinds in ((data, none), (none, data), (data,)):
            assert_same(mixed(*kinds, inference=inference), single)

    def test_without_trials_it_is_the_prior(
        self, inference: Inference, batch_shape: tuple[int, ...]
    ) -> None:
        kinds = outcomes(0, *batch_shape), duels(0, *batch_shape)
        model = mixed(*kinds, inference=inference)
        mean, covariance = moments(model, TEST_X.expand(*batch_shape, -1, -1))
        prior = level_kernel()(TEST_X).to_dense().expand_as(covariance)
        torch.testing.assert_close(covariance, prior, rtol=0, atol=1e-12)
        assert torch.equal(mean, torch.zeros_like(mean))


class TestBothKinds:
    @both_inferences
    def test_order_does_not_matter(self, inference: Inference) -> None:
        for batch_shape in ((), (3,)):
            data = outcomes(6, *batch_shape), duels(5, *batch_shape)
            first = mixed(*data, inference=inference)
            assert_same(first, mixed(*data[::-1], inference=inference))

    @both_inferences
    def test_a_kind_may_come_in_parts(self, inference: Inference) -> None:
        parts = outcomes(3), duels(5), outcomes(4, seed=20)
        whole = mixed(join(parts[0], parts[2]), parts[1], inference=inference)
        assert_same(mixed(*parts, inference=inference), whole)

    def test_two_kinds_of_outcomes(self) -> None:
        # Trials with and without guesses, by the definition of the likelihood.
        plain = Observations(*vars_of(outcomes(4, seed=20)), ProbitLikelihood())
        model = mixed(outcomes(1), plain)
        found = model.eval().trial_likelihood.log_prob(
            torch.zeros(5, dtype=torch.double), torch.ones(5, dtype=torch.double)
        )
        expected = double([0.75, 0.5, 0.5, 0.5, 0.5]).log()
        torch.testing.assert_close(found, expected)

    def test_evidence_of_one_outcome_and_one_duel(self) -> None:
        model = mixed(outcomes(1), duels(1))
        found = brute_evidence(model)
        assert abs(evidence(model).item() - found) < 2e-3

    def test_batch_equals_a_loop(self) -> None:
        data = outcomes(6, 2, 2), duels(5, 2, 2)
        batch = mixed(*data)
        for index in np.ndindex(2, 2):
            parts = [Observations(o.X[index], o.Y[index], o.likelihood) for o in data]
            single = mixed(*parts)
            mean, covariance = moments(single)
            for found, expected in zip(moments(batch), (mean, covariance), strict=True):
                torch.testing.assert_close(found[index], expected, rtol=0, atol=1e-9)

    def test_default_kernel(self) -> None:
        # A level, unless there are only duels, which know none.
        level = [k for k in mixed(covar_module=None).modules() if is_level(k)]
        assert len(level) == 1
        empty = mixed(duels(), outcomes(0), covar_module=None)
        assert [k for k in empty.modules() if is_level(k)]
        alone = mixed(duels(), covar_module=None)
        assert not [k for k in alone.modules() if is_level(k)]

    def test_datapoints(self) -> None:
        data = outcomes(6), duels(5)
        model = mixed(*data)
        rows = torch.cat([data[0].X, data[1].X.reshape(10, 2)])
        assert torch.equal(model.datapoints, rows)
        kinds = model.trials_by_kind()
        assert [functional for functional, _, _ in kinds] == [VALUE, DIFFERENCE]
        for (_, X, Y), part in zip(kinds, data, strict=True):
            assert torch.equal(X, part.X)
            assert torch.equal(Y, part.Y.squeeze(-1))


def vars_of(data: Observations) -> tuple[Tensor, Tensor]:
    return data.X, data.Y


def is_level(module: Any) -> bool:
    return isinstance(module, ConstantKernel)


def brute_evidence(model: MixedGP) -> float:
    """The evidence of one outcome and one duel, by the trapezoidal rule."""
    D = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, -1.0]])
    K = model.covar_module(model.datapoints).to_dense().detach().numpy()
    root = np.linalg.cholesky(D @ K @ D.T)
    u = np.linspace(-9, 9, 500)
    grid = np.stack(np.meshgrid(u, u, indexing="ij"), axis=-1)
    f = grid @ root.T
    p = np.stack([0.5 + 0.5 * norm.cdf(f[..., 0]), norm.cdf(f[..., 1])], axis=-1)
    label = model.train_targets.numpy()
    likelihood = np.where(label == 1, p, 1 - p).prod(axis=-1)
    density = norm.pdf(grid).prod(axis=-1) * (u[1] - u[0]) ** 2
    return float(np.log((density * likelihood).sum()))


class Averages(ProbitLikelihood):
    """Tests that are passed with a weighted mean of three performances."""

    functional = Functional((0.2, 0.3, 0.5))


class TestOtherFunctionals:
    """A kind of trials that the package does not know."""

    def model(self) -> MixedGP:
        Y = double([[1.0], [0.0], [1.0], [1.0]])
        averages = Observations(uniform(4, 3, 2, seed=8), Y, Averages())
        return mixed(averages, outcomes(5))

    def test_posterior(self) -> None:
        model, kernel = self.model().eval(), level_kernel()
        weights = torch.kron(torch.eye(4).double(), double([[0.2, 0.3, 0.5]]))
        D = torch.block_diag(weights, torch.eye(5).double())
        X = model.datapoints
        K, cross = D @ kernel(X).to_dense() @ D.mT, D @ kernel(X, TEST_X).to_dense()
        tau, nu = model.approximation.as_sites().unbind(dim=-1)
        P = torch.linalg.solve(torch.eye(9) + tau.unsqueeze(-1) * K, torch.diag(tau))
        mean = cross.mT @ (nu - P @ K @ nu)
        covariance = kernel(TEST_X).to_dense() - cross.mT @ P @ cross
        for found, expected in zip(
            moments(model), (mean.unsqueeze(-1), covariance), strict=True
        ):
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)

    def test_conditioning(self) -> None:
        model, Y = self.model(), double([[1.0]])
        found = model.condition_on_observations(uniform(1, 3, 2), Y)
        assert [len(trials) for trials in found.train_inputs] == [5, 5]
        found = model.condition_on_observations(outcomes(2, seed=30))
        assert [len(trials) for trials in found.train_inputs] == [4, 7]

    def test_labels(self) -> None:
        found = self.model().posterior(uniform(6, 2), observation_noise=True)
        assert found.mean.shape == (2, 1)

    def test_a_rule_finds_the_kind_that_it_is_for(self) -> None:
        trial = suggest(self.model(), PLAIN_SPACE, "ucb-ald", QUICK, seed=0)
        assert trial.shape == (1, 2)
        with pytest.raises(UnsupportedError, match="but got 'muc-ald'"):
            suggest(self.model(), PLAIN_SPACE, "muc-ald", QUICK)


# ------------------------------------------------------------- what duels cannot tell


@both_inferences
class TestLevel:
    def test_duels_say_nothing_about_a_constant(self, inference: Inference) -> None:
        kernel = constant_kernel(4.0)
        data = outcomes()
        model = mixed(data, duels(), covar_module=kernel, inference=inference)
        alone = mixed(data, covar_module=kernel, inference=inference)
        for found, expected in zip(moments(model), moments(alone), strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
        only = mixed(duels(), covar_module=kernel, inference=inference)
        mean, covariance = moments(only)
        torch.testing.assert_close(mean, torch.zeros_like(mean), rtol=0, atol=1e-12)
        prior = torch.full_like(covariance, 4.0)
        torch.testing.assert_close(covariance, prior, rtol=0, atol=1e-9)

    def test_their_evidence_is_that_of_coins(self, inference: Inference) -> None:
        kernel = constant_kernel(4.0)
        model = mixed(duels(5), covar_module=kernel, inference=inference)
        expected = 5 * double(0.5).log()
        torch.testing.assert_close(evidence(model), expected, rtol=0, atol=1e-9)

    def test_duels_say_nothing_about_the_level(self, inference: Inference) -> None:
        # f = smooth + level: given duels alone the level keeps its prior, and
        # differences do not depend on it.
        means, covariances = zip(
            *(
                moments(mixed(duels(), covar_module=kernel, inference=inference))
                for kernel in (simple_kernel(), level_kernel(3.0))
            ),
            strict=True,
        )
        torch.testing.assert_close(*means, rtol=0, atol=1e-9)
        torch.testing.assert_close(
            covariances[0] + 3.0, covariances[1], rtol=0, atol=1e-9
        )

    def test_outcomes_do(self, inference: Inference) -> None:
        X = TEST_X
        failed = Observations(X, torch.zeros(5, 1).double(), ProbitLikelihood())
        model = mixed(failed, duels(), inference=inference)
        only = mixed(duels(), inference=inference)
        assert (moments(model)[0] < moments(only)[0] - 0.5).all()


# ---------------------------------------------------------------------- conditioning


@both_inferences
class TestConditioning:
    @pytest.mark.parametrize("make", [outcomes, duels])
    def test_equals_building_from_scratch(
        self, inference: Inference, make: Any
    ) -> None:
        data = [outcomes(), duels()]
        new = make(3, seed=30)
        model = mixed(*data, inference=inference)
        moments(model)  # where the next search begins
        found = model.condition_on_observations(new)
        changed = [0, 1][make is duels]
        data[changed] = join(data[changed], new)
        assert_same(found, mixed(*data, inference=inference))
        assert_same(model, mixed(inference=inference))  # unchanged

    def test_one_kind_after_the_other(self, inference: Inference) -> None:
        model = mixed(outcomes(0), duels(0), inference=inference)
        for i in range(3):
            model.posterior(TEST_X)
            model = model.condition_on_observations(outcomes(1, seed=40 + i))
            model = model.condition_on_observations(duels(2, seed=50 + i))
        parts = [outcomes(1, seed=40 + i) for i in range(3)]
        pairs = [duels(2, seed=50 + i) for i in range(3)]
        whole = [join(join(*p[:2]), p[2]) for p in (parts, pairs)]
        assert_same(model, mixed(*whole, inference=inference))

    def test_tensors_are_trials_of_the_kind_asked(self, inference: Inference) -> None:
        model = mixed(inference=inference)
        for kind, new in enumerate((outcomes(2, seed=30), duels(2, seed=30))):
            found = model.asking(kind).condition_on_observations(new.X, new.Y)
            assert_same(found, model.condition_on_observations(new))
            assert found.functional == new.likelihood.functional

    def test_with_an_input_transform(self, inference: Inference) -> None:
        scale, shift = double([3.0, 0.5]), double([-1.0, 2.0])

        def stretch(data: Observations) -> Observations:
            return Observations(shift + scale * data.X, data.Y, data.likelihood)

        bounds = torch.stack([shift, shift + scale])
        stretched = mixed(
            stretch(outcomes()),
            stretch(duels()),
            inference=inference,
            input_transform=Normalize(2, bounds=bounds),
        )
        plain = mixed(inference=inference)
        for new in (outcomes(2, seed=30), duels(2, seed=30)):
            stretched = stretched.condition_on_observations(stretch(new))
            plain = plain.condition_on_observations(new)
            for found, expected in zip(
                moments(stretched, shift + scale * TEST_X), moments(plain), strict=True
            ):
                torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
        for (_, first, _), (_, second, _) in zip(
            stretched.trials_by_kind(), plain.trials_by_kind(), strict=True
        ):
            torch.testing.assert_close(first, shift + scale * second)

    @pytest.mark.parametrize("make", [outcomes, duels])
    def test_in_batches(self, inference: Inference, make: Any) -> None:
        # A batch of new trials for one model, and for a batch of models.
        new = make(2, 3, seed=30)
        for batch_shape in ((), (3,)):
            data = outcomes(6, *batch_shape), duels(5, *batch_shape)
            model = mixed(*data, inference=inference)
            batch = model.condition_on_observations(new)
            assert batch.batch_shape == (3,)
            for i in range(3):
                parts = [element(part, i) for part in data]
                single = mixed(*parts, inference=inference)
                single = single.condition_on_observations(element(new, i))
                for found, expected in zip(
                    moments(batch), moments(single), strict=True
                ):
                    torch.testing.assert_close(found[i], expected, rtol=0, atol=1e-9)

    def test_labels_may_have_more_dimensions(self, inference: Inference) -> None:
        model, new = mixed(inference=inference), duels(2, seed=30)
        Y = torch.stack([new.Y, 1 - new.Y])
        batch = model.asking(1).condition_on_observations(new.X, Y)
        for i in range(2):
            single = model.condition_on_observations(
                Observations(new.X, Y[i], new.likelihood)
            )
            torch.testing.assert_close(moments(batch)[0][i], moments(single)[0])


class TestLearnedBounds:
    """A transform that learns its bounds learns one set of them, from all kinds."""

    def data(self) -> tuple[Observations, Observations]:
        """Outcomes in a small part of the box of the duels."""
        fights = duels()
        return outcomes(), Observations(10 * fights.X - 3, fights.Y, fights.likelihood)

    def rows(self) -> Tensor:
        first, second = self.data()
        return torch.cat([first.X, second.X.reshape(-1, 2)])

    def model(self, learn: bool = True) -> MixedGP:
        bounds = torch.stack(self.rows().aminmax(dim=0))
        transform = Normalize(2, bounds=None if learn else bounds)
        return mixed(*self.data(), input_transform=transform)

    def test_posterior(self) -> None:
        assert_same(self.model(), self.model(learn=False), self.rows())

    def test_prior_in_training(self) -> None:
        low, high = self.rows().aminmax(dim=0)
        K = level_kernel()((self.rows() - low) / (high - low)).to_dense()
        pairs = torch.kron(torch.eye(5), torch.tensor([[1.0, -1.0]])).double()
        D = torch.block_diag(torch.eye(6, dtype=torch.double), pairs)
        model = self.model().train()
        found: Any = model(*model.train_inputs)
        expected = D @ K @ D.mT
        torch.testing.assert_close(
            found.covariance_matrix, expected, rtol=0, atol=1e-12
        )

    def test_posterior_after_training(self) -> None:
        model = self.model().train()
        model(*model.train_inputs)
        assert_same(model, self.model(learn=False), self.rows())

    def test_training_without_trials_of_a_kind(self) -> None:
        model = mixed(outcomes(), duels(0), input_transform=Normalize(2)).train()
        alone = mixed(outcomes(), input_transform=Normalize(2)).train()
        first, second = (m(*m.train_inputs) for m in (model, alone))
        assert_same_distribution(first, second)


def assert_same_distribution(first: Any, second: Any) -> None:
    for name in ("mean", "covariance_matrix"):
        values = getattr(first, name), getattr(second, name)
        torch.testing.assert_close(*values, rtol=0, atol=1e-12)


def element(data: Observations, index: int) -> Observations:
    """One element of a batch of trials; all if there is no batch."""
    if data.Y.ndim == 2:
        return data
    return Observations(data.X[index], data.Y[index], data.likelihood)


# ---------------------------------------------------------------------------- asking


class TestAsking:
    def test_switches_the_kind(self) -> None:
        model = mixed()
        assert model.functional == VALUE
        for kind, functional in ((0, VALUE), (1, DIFFERENCE)):
            asked = model.asking(kind)
            assert asked.functional == functional
            assert asked.likelihood.functional == functional
            assert_same(asked, model, atol=0.0)
        assert model.functional == VALUE  # unchanged
        assert model.asking(1).asking(0).functional == VALUE

    def test_errors(self) -> None:
        for kind in (-1, 2):
            with pytest.raises(InputDataError, match=f"from 0 to 1, but got {kind}"):
                mixed().asking(kind)

    def test_labels(self) -> None:
        model, X = mixed(), uniform(3, 2, 2, seed=5)
        labels = model.posterior(X, observation_noise=True)
        assert isinstance(labels, LabelPosterior)
        assert labels.mean.shape == (3, 2, 1)
        labels = model.asking(1).posterior(X, observation_noise=True)
        assert labels.mean.shape == (3, 1, 1)

    def test_probabilities(self) -> None:
        # E Φ(g) = Φ(μ / sqrt(1 + σ²)) for the value or the difference g.
        model, X = mixed(), uniform(3, 2, 2, seed=5)
        mean, covariance = (t.detach() for t in moments(model, X))
        D = double([1.0, -1.0])
        difference = mean.squeeze(-1) @ D, D @ covariance @ D
        value = mean.squeeze(-1)[..., 0], covariance[..., 0, 0]
        for asked, rows, (m, v), guess in (
            (model.asking(1), X, difference, 0.0),
            (model, X[:, :1], value, 0.5),
        ):
            z = (m / (1 + v).sqrt()).numpy()
            expected = torch.from_numpy(guess + (1 - guess) * norm.cdf(z))
            for found in (
                asked.probability_posterior(rows).mean,
                asked.posterior(rows, observation_noise=True).mean,
            ):
                assert_all_close(found.flatten(), expected, rtol=0, atol=1e-12)

    def test_fantasies(self) -> None:
        model, X = mixed(), uniform(2, 2, seed=5)
        sampler = IIDNormalSampler(torch.Size([4]), seed=0)
        fantasies = model.fantasize(X, sampler)
        assert fantasies.batch_shape == (4,)
        assert [t.shape[1] for t in fantasies.train_inputs] == [8, 5]
        fantasies = model.asking(1).fantasize(X, sampler)
        assert [t.shape[1] for t in fantasies.train_inputs] == [6, 6]
        assert moments(fantasies)[0].shape == (4, 5, 1)

    def test_moments_of_candidates(self) -> None:
        model, X = mixed(), uniform(3, 2, 2, seed=5)
        _, covariance = moments(model, X)
        D = double([1.0, -1.0])
        _, variance = model.asking(1).moments(X)
        assert_all_close(variance, D @ covariance @ D, rtol=0, atol=1e-10)
        _, variance = model.moments(X[:, :1])
        assert_all_close(variance, covariance[..., 0, 0], rtol=0, atol=1e-10)


# ----------------------------------------------------------------------------- rules


def context_model(*batch_shape: int) -> MixedGP:
    """Outcomes and duels in a context, the first column."""
    kernel = MultiplicativeContextKernel(simple_kernel(1), context_dims=[0])
    fights = duels(5, *batch_shape)
    X = fights.X.clone()
    X[..., 1, 0] = X[..., 0, 0]
    fights = Observations(X, fights.Y, fights.likelihood)
    return mixed(outcomes(6, *batch_shape), fights, covar_module=kernel)


class TestRules:
    @pytest.mark.parametrize("batch_shape", [(), (2,)])
    @pytest.mark.parametrize(
        ("rule", "asked", "rows"),
        [
            ("ucb-ald", 0, 1),
            ("ucb-ald", 1, 1),
            ("muc-ald", 0, 2),
            ("muc-ald", 1, 2),
            ("bald", 0, 1),
            ("bald", 1, 2),
            ("cjes", 0, 1),
            ("cjes", 1, 2),
            ("cbkg", 0, 1),
            ("cbkg", 1, 1),
            ("kg", 0, 2),
            ("kg", 1, 2),
        ],
    )
    def test_rules(
        self, rule: str, asked: int, rows: int, batch_shape: tuple[int, ...]
    ) -> None:
        model = context_model(*batch_shape).asking(asked)
        trial = suggest(model, SPACE, rule, QUICK, seed=0)
        assert trial.shape == (*batch_shape, 1, *(() if rows == 1 else (2,)), 2)
        assert ((trial >= 0) & (trial <= 1)).all()
        assert torch.equal(trial[..., 0, 0], trial[..., -1, 0])

    def test_same_as_those_of_one_kind(self) -> None:
        # Without trials of the other kind, a rule sees the model that it knows.
        data = outcomes()
        kernel = MultiplicativeContextKernel(simple_kernel(1), context_dims=[0])
        single = BinaryGP(data.X, data.Y, data.likelihood, covar_module=kernel)
        both = MixedGP([duels(0), data], covar_module=deepcopy(kernel))
        for rule in ("ucb-ald", "cbkg"):
            trials = [suggest(m, SPACE, rule, QUICK, seed=0) for m in (single, both)]
            torch.testing.assert_close(*trials, rtol=0, atol=1e-4)
        best = [recommend(m, SPACE, QUICK) for m in (single, both)]
        torch.testing.assert_close(*best, rtol=0, atol=1e-6)

    def test_unknown_rule(self) -> None:
        with pytest.raises(UnsupportedError, match="but got 'guess'"):
            suggest(context_model(), SPACE, "guess", QUICK)

    def test_recommendation(self) -> None:
        for batch_shape in ((), (2,)):
            model = context_model(*batch_shape)
            best = recommend(model, SPACE, QUICK)
            assert best.shape == (*batch_shape, 1)
            again = recommend(model.asking(1), SPACE, QUICK)
            torch.testing.assert_close(best, again, rtol=0, atol=1e-6)


# ---------------------------------------------------------------------------- errors


class TestErrors:
    def test_none_at_all(self) -> None:
        with pytest.raises(InputDataError, match="at least one kind, but got none"):
            MixedGP([])

    def test_observations_that_do_not_match(self) -> None:
        pairs = duels()
        wide = Observations(uniform(5, 2, 3), pairs.Y, pairs.likelihood)
        with pytest.warns(InputDataWarning, match="double precision"):
            single = Observations(pairs.X.float(), pairs.Y.float(), pairs.likelihood)
        for other, message in (
            (wide, "number of columns, but got 2 and 3"),
            (duels(5, 2), r"batch shape, but got \[\] and \[2\]"),
            (single, "dtype, but got torch.float64 and torch.float32"),
        ):
            with pytest.raises(InputDataError, match=message):
                MixedGP([outcomes(), other])

    def test_trials_of_another_shape(self) -> None:
        X, Y = uniform(4, 2), double([[1.0]] * 4)
        for inputs, labels, likelihood in (
            (X, Y, PreferenceLikelihood()),
            (uniform(4, 3, 2), Y, PreferenceLikelihood()),
            (uniform(4, 2, 2), Y, ProbitLikelihood()),
            (X, Y[:3], ProbitLikelihood()),
            (X, Y.squeeze(-1), ProbitLikelihood()),
        ):
            with pytest.raises(BotorchTensorDimensionError):
                Observations(inputs, labels, likelihood)
        for inputs, labels in ((X / 0, Y), (X, 2 * Y)):
            with pytest.raises(InputDataError):
                Observations(inputs, labels, ProbitLikelihood())

    def test_unknown_likelihood(self) -> None:
        new = outcomes(2)
        for likelihood in (
            ProbitLikelihood(),
            ProbitLikelihood(0.5, 0.02),
            ProbitLikelihood(0.5, learn_lapse_rate=True),
        ):
            other = Observations(new.X, new.Y, likelihood)
            with pytest.raises(UnsupportedError, match="another ProbitLikelihood"):
                mixed().condition_on_observations(other)

    def test_new_trials_of_another_shape(self) -> None:
        model, Y = mixed(), double([[1.0]])
        with pytest.raises(BotorchTensorDimensionError, match="x n x 2``"):
            model.condition_on_observations(uniform(1, 3), Y)
        with pytest.raises(BotorchTensorDimensionError, match="x n x 2 x 2``"):
            model.asking(1).condition_on_observations(uniform(1, 2), Y)
        with pytest.raises(InputDataError, match="labels, but got None"):
            model.condition_on_observations(uniform(1, 2))

    def test_new_observations_of_another_dtype(self) -> None:
        new = outcomes(2)
        with pytest.warns(InputDataWarning, match="double precision"):
            single = Observations(new.X.float(), new.Y.float(), new.likelihood)
        found = mixed().condition_on_observations(single)
        assert moments(found)[0].dtype == torch.double

    def test_odd_number_of_rows(self) -> None:
        with pytest.raises(UnsupportedError, match="come in pairs"):
            mixed().asking(1).posterior(uniform(3, 2), observation_noise=True)


# --------------------------------------------------------------------- state and fit


class TestState:
    def test_single_precision(self) -> None:
        for inference in (ExpectationPropagation(), Laplace()):
            model = mixed(inference=inference)
            expected = moments(model)
            single = deepcopy(model).to(torch.float)
            found = moments(single, TEST_X.float())
            for first, second in zip(found, expected, strict=True):
                assert first.dtype == torch.float
                assert_all_close(first.double(), second, rtol=0, atol=5e-4)
            again = moments(single.double())
            assert_all_close(again[0], expected[0], rtol=0, atol=1e-5)

    def test_state_dict(self) -> None:
        model, other = mixed(), mixed()
        kernel: Any = model.covar_module
        kernel.kernels[0].outputscale = 7.0
        model.eval()
        moments(other)  # a cache that loading has to drop
        other.load_state_dict(model.state_dict())
        assert_same(other, model)

    def test_deepcopy_shares_nothing(self) -> None:
        model = mixed()
        copy = deepcopy(model)
        expected = moments(model)[0].detach().clone()
        kernel: Any = copy.covar_module
        kernel.kernels[0].outputscale = 7.0
        copy.train()
        assert (moments(copy)[0] - expected).abs().max().item() > 1e-3
        assert_all_close(moments(model)[0], expected, rtol=0, atol=0)

    def test_set_train_data(self) -> None:
        model, data = mixed(), (outcomes(6, seed=60), duels(5, seed=70))
        inputs, labels = [o.X for o in data], [o.Y.squeeze(-1) for o in data]
        model.set_train_data(inputs, torch.cat(labels))
        assert_same(model, mixed(*data))

    def test_with_inference(self) -> None:
        changed = mixed().asking(1).with_inference(Laplace())
        assert changed.functional == DIFFERENCE
        assert_same(changed, mixed(inference=Laplace()))


def objective(mll: ApproximateMarginalLogLikelihood) -> Tensor:
    mll.train()
    model: Any = mll.model
    value: Any = mll(model(*model.train_inputs), model.train_targets)
    return value


class TestFit:
    def test_objective_is_the_evidence_per_trial(self) -> None:
        for inference in INFERENCES:
            model = mixed(inference=inference)
            mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
            found = 11 * objective(mll)
            assert_all_close(found, evidence(model), rtol=0, atol=1e-9)

    def test_increases_the_evidence(self) -> None:
        for inference in (ExpectationPropagation(), Laplace()):
            for batch_shape in ((), (2,)):
                data = outcomes(15, *batch_shape), duels(15, *batch_shape)
                model = MixedGP(data, inference=inference)
                mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
                before = objective(mll).item()
                fit_gpytorch_mll(mll)
                assert objective(mll).item() > before + 1e-4

    def test_learns_the_rates_of_every_kind(self) -> None:
        likelihood = ProbitLikelihood(0.5, 0.02, learn_lapse_rate=True)
        X = uniform(60, 2)
        Y = (uniform(60, 1, seed=1) > 0.25).double()  # a quarter fails, everywhere
        lapsing = Observations(X, Y, likelihood)
        mean = ConstantMean()
        mean.constant = double(3.0)
        mean.requires_grad_(False)
        kernel = ScaleKernel(RBFKernel()).double().requires_grad_(False)
        # The rates are those of the second kind.
        model = MixedGP([duels(), lapsing], kernel, mean)
        fit_gpytorch_mll(ApproximateMarginalLogLikelihood(model.likelihood, model))
        found = torch.as_tensor(likelihood.lapse_rate).item()
        assert found > 0.08
