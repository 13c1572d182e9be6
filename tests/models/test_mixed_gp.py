r"""A model of pass/fail outcomes and duels about one latent function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions import UnsupportedError
from botorch.models.transforms import Normalize
from gpytorch.kernels import ConstantKernel
from scipy.stats import norm
from torch import Tensor

from botorch_binary_context import (
    DIFFERENCE,
    VALUE,
    BinaryGP,
    ContextSpace,
    Functional,
    MixedGP,
    Observations,
    PreferenceGP,
    ProbitLikelihood,
    suggest,
)
from botorch_binary_context.inference import (
    Inference,
)
from tests.models.mixed_trials import (
    INFERENCES,
    QUICK,
    TEST_X,
    UNIT,
    assert_same,
    constant_kernel,
    duels,
    evidence,
    mixed,
    moments,
    offset_kernel,
    outcomes,
)
from tests.small_models import simple_kernel
from tests.tensors import double, uniform

both_inferences = pytest.mark.parametrize("inference", INFERENCES, ids=repr)


every_batch = pytest.mark.parametrize("batch_shape", [(), (3,), (2, 2)])


PLAIN_SPACE = ContextSpace(UNIT)


def join(first: Observations, second: Observations) -> Observations:
    """The trials of both, which are of one kind and have no batch."""
    X = torch.cat([first.X, second.X])
    Y = torch.cat([first.Y, second.Y])
    return Observations(X, Y, first.likelihood)


@both_inferences
@every_batch
class TestOneKind:
    def test_without_duels_it_is_a_model_of_outcomes(
        self, inference: Inference, batch_shape: tuple[int, ...]
    ) -> None:
        data = outcomes(6, *batch_shape)
        none = duels(0, *batch_shape)
        single = BinaryGP(
            data.X,
            data.Y,
            data.likelihood,
            covar_module=offset_kernel(),
            inference=inference,
        )
        for kinds in ((data, none), (none, data), (data,)):
            assert_same(mixed(*kinds, inference=inference), single)

    def test_without_outcomes_it_is_a_model_of_duels(
        self, inference: Inference, batch_shape: tuple[int, ...]
    ) -> None:
        data = duels(5, *batch_shape)
        none = outcomes(0, *batch_shape)
        single = PreferenceGP(
            data.X, data.Y, covar_module=offset_kernel(), inference=inference
        )
        for kinds in ((data, none), (none, data), (data,)):
            assert_same(mixed(*kinds, inference=inference), single)

    def test_without_trials_it_is_the_prior(
        self, inference: Inference, batch_shape: tuple[int, ...]
    ) -> None:
        kinds = outcomes(0, *batch_shape), duels(0, *batch_shape)
        model = mixed(*kinds, inference=inference)
        mean, covariance = moments(model, TEST_X.expand(*batch_shape, -1, -1))
        prior = offset_kernel()(TEST_X).to_dense().expand_as(covariance)
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
        # An offset, unless there are only duels, which know none.
        found = [k for k in mixed(covar_module=None).modules() if is_offset(k)]
        assert len(found) == 1
        empty = mixed(duels(), outcomes(0), covar_module=None)
        assert [k for k in empty.modules() if is_offset(k)]
        alone = mixed(duels(), covar_module=None)
        assert not [k for k in alone.modules() if is_offset(k)]

    def test_datapoints_and_trials_are_in_the_order_given(self) -> None:
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


def is_offset(module: Any) -> bool:
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

    def test_posterior_equals_that_by_dense_matrices(self) -> None:
        model = self.model().eval()
        kernel = offset_kernel()
        weights = torch.kron(torch.eye(4).double(), double([[0.2, 0.3, 0.5]]))
        D = torch.block_diag(weights, torch.eye(5).double())
        X = model.datapoints
        K = D @ kernel(X).to_dense() @ D.mT
        cross = D @ kernel(X, TEST_X).to_dense()
        tau, nu = model.approximation.as_sites().unbind(dim=-1)
        P = torch.linalg.solve(torch.eye(9) + tau.unsqueeze(-1) * K, torch.diag(tau))
        mean = cross.mT @ (nu - P @ K @ nu)
        covariance = kernel(TEST_X).to_dense() - cross.mT @ P @ cross
        for found, expected in zip(
            moments(model), (mean.unsqueeze(-1), covariance), strict=True
        ):
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)

    def test_conditioning_adds_to_the_right_kind(self) -> None:
        model = self.model()
        Y = double([[1.0]])
        found = model.condition_on_observations(uniform(1, 3, 2), Y)
        assert [len(trials) for trials in found.train_inputs] == [5, 5]
        found = model.condition_on_observations(outcomes(2, seed=30))
        assert [len(trials) for trials in found.train_inputs] == [4, 7]

    def test_labels_have_one_mean_for_each_trial(self) -> None:
        found = self.model().posterior(uniform(6, 2), observation_noise=True)
        assert found.mean.shape == (2, 1)

    def test_a_rule_finds_the_kind_that_it_is_for(self) -> None:
        trial = suggest(self.model(), PLAIN_SPACE, "ucb-ald", QUICK, seed=0)
        assert trial.shape == (1, 2)
        with pytest.raises(UnsupportedError, match="but got 'muc-ald'"):
            suggest(self.model(), PLAIN_SPACE, "muc-ald", QUICK)


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

    def test_duels_say_nothing_about_the_offset(self, inference: Inference) -> None:
        # f = smooth + offset: given duels alone the offset keeps its prior, and
        # differences do not depend on it.
        means, covariances = zip(
            *(
                moments(mixed(duels(), covar_module=kernel, inference=inference))
                for kernel in (simple_kernel(), offset_kernel(3.0))
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
        scale = double([3.0, 0.5])
        shift = double([-1.0, 2.0])

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
        model = mixed(inference=inference)
        new = duels(2, seed=30)
        Y = torch.stack([new.Y, 1 - new.Y])
        batch = model.asking(1).condition_on_observations(new.X, Y)
        for i in range(2):
            single = model.condition_on_observations(
                Observations(new.X, Y[i], new.likelihood)
            )
            torch.testing.assert_close(moments(batch)[0][i], moments(single)[0])


def element(data: Observations, index: int) -> Observations:
    """One element of a batch of trials; all if there is no batch."""
    if data.Y.ndim == 2:
        return data
    return Observations(data.X[index], data.Y[index], data.likelihood)
