r"""Models of several kinds of trials, when they are asked for the next trial."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.sampling import IIDNormalSampler
from scipy.stats import norm

from botorch_binary_context import (
    DIFFERENCE,
    VALUE,
    BinaryGP,
    ContextSpace,
    LabelPosterior,
    MixedGP,
    MultiplicativeContextKernel,
    Observations,
    recommend,
    suggest,
)
from tests.closeness import assert_all_close
from tests.models.mixed_trials import (
    QUICK,
    UNIT,
    assert_same,
    duels,
    mixed,
    moments,
    outcomes,
)
from tests.small_models import simple_kernel
from tests.tensors import double, uniform

SPACE = ContextSpace(UNIT, context_dims=[0], reference_context=[1.0])


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

    def test_refuses_a_kind_that_is_not_there(self) -> None:
        for kind in (-1, 2):
            with pytest.raises(InputDataError, match=f"from 0 to 1, but got {kind}"):
                mixed().asking(kind)

    def test_labels_have_one_mean_for_each_trial_of_the_kind(self) -> None:
        model = mixed()
        X = uniform(3, 2, 2, seed=5)
        labels = model.posterior(X, observation_noise=True)
        assert isinstance(labels, LabelPosterior)
        assert labels.mean.shape == (3, 2, 1)
        labels = model.asking(1).posterior(X, observation_noise=True)
        assert labels.mean.shape == (3, 1, 1)

    def test_probabilities_follow_from_the_latent_moments(self) -> None:
        # E Φ(g) = Φ(μ / sqrt(1 + σ²)) for the value or the difference g.
        model = mixed()
        X = uniform(3, 2, 2, seed=5)
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

    def test_fantasies_add_a_trial_of_the_kind_asked(self) -> None:
        model = mixed()
        X = uniform(2, 2, seed=5)
        sampler = IIDNormalSampler(torch.Size([4]), seed=0)
        fantasies = model.fantasize(X, sampler)
        assert fantasies.batch_shape == (4,)
        assert [t.shape[1] for t in fantasies.train_inputs] == [8, 5]
        fantasies = model.asking(1).fantasize(X, sampler)
        assert [t.shape[1] for t in fantasies.train_inputs] == [6, 6]
        assert moments(fantasies)[0].shape == (4, 5, 1)

    def test_moments_of_candidates(self) -> None:
        model = mixed()
        X = uniform(3, 2, 2, seed=5)
        _, covariance = moments(model, X)
        D = double([1.0, -1.0])
        _, variance = model.asking(1).moments(X)
        assert_all_close(variance, D @ covariance @ D, rtol=0, atol=1e-10)
        _, variance = model.moments(X[:, :1])
        assert_all_close(variance, covariance[..., 0, 0], rtol=0, atol=1e-10)


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
    def test_trials_of_every_rule_have_its_rows_in_one_context(
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

    def test_recommendation_does_not_depend_on_the_kind_asked(self) -> None:
        for batch_shape in ((), (2,)):
            model = context_model(*batch_shape)
            best = recommend(model, SPACE, QUICK)
            assert best.shape == (*batch_shape, 1)
            again = recommend(model.asking(1), SPACE, QUICK)
            torch.testing.assert_close(best, again, rtol=0, atol=1e-6)
