r"""The true posterior by sampling, against reference records and sums over grids."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from botorch_binary_context import (
    PreferenceGP,
)
from botorch_binary_context.inference import (
    Inference,
    Laplace,
)
from tests.acquisition.by_hand import Array
from tests.inference.exact_cases import (
    BY_NAME,
    GUESSES,
    LARGEST_Z,
    ROWS,
    SETTINGS,
    SHARES,
    Setting,
    array,
    assert_agree,
    assert_equals_grid,
    assert_equals_record,
    both_inferences,
    model_of,
)
from tests.tensors import double, uniform


@cache
def z_scores(name: str) -> Array:
    return assert_equals_record(model_of(BY_NAME[name]), BY_NAME[name])


class TestRecords:
    @pytest.mark.parametrize("name", BY_NAME)
    def test_posterior_equals_every_record(self, name: str) -> None:
        assert z_scores(name).shape == (2, len(BY_NAME[name]["test_X"]))

    def test_size_of_errors(self) -> None:
        # Those of the rows of one record depend on each other, all together do not.
        z = np.stack([z_scores(name) for name in BY_NAME])
        assert 0.7 < np.sqrt((z**2).mean()) < 1.3

    @pytest.mark.parametrize("name", ["two_choices_n30", "guesses_and_lapses"])
    def test_from_laplace(self, name: str) -> None:
        assert_equals_record(model_of(BY_NAME[name], Laplace()), BY_NAME[name])


# Posteriors that no Gaussian is close to: the prior is wide, or labels deny its mean.
HARD_SETTINGS = {
    "a wide prior": Setting(((0.3, 1), (0.8, 1)), variance=100),
    "a wide prior and one label": Setting(((0.3, 1),), variance=400),
    "a duel of a wide prior": Setting(duels=((0.2, 0.7, 1),), variance=100),
    "neighbors that differ": Setting(((0.3, 1), (0.35, 0)), (), (0.1, 0.05), 25),
    "lapses": Setting(((0.3, 0), (0.8, 0)), (), (0.5, 0.02), 9, 6.0),
    "guesses": Setting(((0.3, 1), (0.8, 1)), (), (0.1, 0.05), 25, -8.0),
}


@both_inferences
class TestGrid:
    @pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
    def test_posterior_equals_that_of_a_grid(
        self, setting: Setting, inference: Inference
    ) -> None:
        assert_equals_grid(setting.model(inference).exact_posterior(ROWS), setting)

    @pytest.mark.parametrize("setting", HARD_SETTINGS.values(), ids=HARD_SETTINGS)
    def test_hard_posterior(self, setting: Setting, inference: Inference) -> None:
        posterior = setting.model(inference).exact_posterior(ROWS, num_samples=16384)
        assert_equals_grid(posterior, setting)


QUANTILE_SETTINGS = [
    "a pass or a guess",
    "two choices",
    "two duels",
    "an outcome and a duel",
    "the same guesses",
]


settings_with_quantiles = pytest.mark.parametrize(
    "setting", [SETTINGS[name] for name in QUANTILE_SETTINGS], ids=QUANTILE_SETTINGS
)


@settings_with_quantiles
class TestQuantiles:
    def test_latent_quantiles_equal_those_of_a_grid(self, setting: Setting) -> None:
        posterior = setting.model().exact_posterior(ROWS)
        found = posterior.quantile(SHARES)
        error = posterior.quantile_error(SHARES)
        assert found.shape == error.shape == (3, 4, 1)
        assert_agree(found, error, setting.exact.quantiles(SHARES.tolist()))

    def test_probability_quantiles_equal_those_of_a_grid(
        self, setting: Setting
    ) -> None:
        # The link is monotone, with this slope.
        posterior = setting.model().exact_posterior(ROWS)
        found = array(posterior.probability_quantile(SHARES))
        exact = setting.exact.of(setting.contrast).quantiles(SHARES.tolist())
        guess, lapse = setting.asked_rates
        expected = guess + (1 - guess - lapse) * ndtr(exact)
        error = array(posterior.contrasts().quantile_error(SHARES)) * norm.pdf(exact)
        assert found.shape == expected.shape
        assert (np.abs(found - expected) < LARGEST_Z * error).all()

    def test_inverts_the_distribution_function(self, setting: Setting) -> None:
        posterior = setting.model().exact_posterior(ROWS, num_samples=256)
        shares = double([1e-6, 0.01, 0.3, 0.5, 0.999])
        found = array(posterior.quantile(shares))[:, None]
        means = posterior.means.detach().numpy()
        sd = np.sqrt(np.diag(posterior.covariance.detach()))
        reached = ndtr((found - means) / sd).mean(axis=1)
        np.testing.assert_allclose(reached, shares[:, None].expand(5, 4), atol=1e-9)


class TestQuantilesOfTrials:
    """In a row of the data a draw leaves nothing open: no Gaussian is left."""

    model = SETTINGS["two outcomes"].model()
    X = double([[0.3], [0.7]])

    def test_quantiles_are_those_of_the_draws(self) -> None:
        posterior = self.model.exact_posterior(self.X)
        expected = np.quantile(posterior.means.detach().numpy(), SHARES, axis=0)
        np.testing.assert_allclose(
            array(posterior.quantile(SHARES)), expected, atol=0.01
        )

    def test_error_is_like_that_of_a_row_close_by(self) -> None:
        # That of a row close by, where the density is smooth.
        posterior = self.model.exact_posterior(self.X)
        near = self.model.exact_posterior(self.X + 0.02)
        found, expected = (array(p.quantile_error(SHARES)) for p in (posterior, near))
        np.testing.assert_allclose(found, expected, rtol=0.5)


class TestWithoutData:
    """The posterior is the prior."""

    setting = Setting(rates=GUESSES, variance=2.5, mean=0.7)

    def test_outcomes_have_the_moments_and_quantiles_of_the_prior(self) -> None:
        posterior = self.setting.model().exact_posterior(ROWS)
        np.testing.assert_allclose(array(posterior.mean), 0.7)
        np.testing.assert_allclose(array(posterior.variance), 2.5)
        expected = norm.ppf(SHARES.numpy(), 0.7, 2.5**0.5)[:, None].repeat(4, 1)
        np.testing.assert_allclose(array(posterior.quantile(SHARES)), expected)
        probability = 0.25 + 0.7 * ndtr(0.7 / 3.5**0.5)
        np.testing.assert_allclose(array(posterior.probability), probability)
        quantiles = array(posterior.probability_quantile(SHARES))
        np.testing.assert_allclose(quantiles, 0.25 + 0.7 * ndtr(expected))
        for name in ("mean_error", "variance_error", "probability_error"):
            np.testing.assert_allclose(array(getattr(posterior, name)), 0, atol=1e-12)

    def test_duels_have_the_quantiles_of_the_prior(self) -> None:
        pairs = uniform(0, 2, 1)
        labels = uniform(0, 1)
        model = PreferenceGP(pairs, labels, covar_module=self.setting.kernel)
        posterior = model.exact_posterior(ROWS)
        np.testing.assert_allclose(array(posterior.probability), [0.5, 0.5])
        difference = 2 * 2.5 * (1 - np.exp(-((0.25 / 0.4) ** 2) / 2))
        expected = ndtr(norm.ppf(0.9) * np.sqrt(difference))
        found = posterior.probability_quantile(double([0.9]))[0, 0, 0]
        assert found.item() == pytest.approx(expected, rel=0, abs=0.5e-7)

    def test_duel_of_equals(self) -> None:
        # Whatever its label, it says nothing.
        for label in (0, 1):
            setting = Setting(duels=((0.3, 0.3, label),), variance=2.5)
            posterior = setting.model().exact_posterior(ROWS)
            np.testing.assert_allclose(array(posterior.mean), 0, atol=1e-12)
            np.testing.assert_allclose(array(posterior.variance), 2.5)
