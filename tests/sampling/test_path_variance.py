r"""Sample paths: by weights alone, and far from the data."""

from __future__ import annotations

import math
from typing import Any

import torch
from gpytorch.kernels import ScaleKernel
from torch import Tensor

from botorch_binary_context import (
    BinaryLaplaceGP,
    draw_sample_paths,
    draw_weight_space_paths,
)
from tests.latent_posteriors import latent, latent_covariance
from tests.sampling.path_models import BOUNDS, NUM_PATHS, Draw, Slope, both_models
from tests.sampling_errors import LARGEST_Z, largest_z
from tests.small_models import (
    AnyModel,
    ModelClass,
    join_rows,
    random_model,
)
from tests.stationary_kernels import stationary_kernel
from tests.tensors import double, uniform


@both_models
class TestWeightSpace:
    def assert_moments_of_trials(self, model: AnyModel) -> None:
        """What the training trials observe of paths has the posterior's moments."""
        rows = join_rows(model, model.train_inputs[0])
        paths = draw_weight_space_paths(
            model, NUM_PATHS, bounds=BOUNDS, noise=1e-3, seed=0
        )
        contrast = model.functional
        with torch.no_grad():
            mean = contrast(latent(model, rows).mean.squeeze(-1))
            covariance = contrast(contrast(latent_covariance(model, rows)), dim=-2)
            centered = paths.contrast(rows) - mean
        assert largest_z(centered, torch.zeros_like(mean)) < LARGEST_Z
        products = centered.unsqueeze(-1) * centered.unsqueeze(-2)
        assert largest_z(products, covariance) < LARGEST_Z

    def test_at_the_data(self, model_class: ModelClass) -> None:
        """With more features than trials the latent values are met."""
        self.assert_moments_of_trials(random_model(model_class, n=10))

    def test_prior_mean(self, model_class: ModelClass) -> None:
        self.assert_moments_of_trials(
            random_model(model_class, n=10, mean_module=Slope(3.0))
        )

    def test_batch_of_models(self, model_class: ModelClass) -> None:
        self.assert_moments_of_trials(random_model(model_class, batch_shape=(2,)))


class TestVarianceStarvation:
    """Many trials on both sides of a gap, few features."""

    gap = torch.linspace(0.45, 0.55, 5).double().unsqueeze(-1)

    def model(self) -> BinaryLaplaceGP:
        X = 0.3 * uniform(400, 1)
        X[200:] += 0.7
        noise = torch.special.ndtri(uniform(400, 1, seed=1))
        Y = ((6 * X).sin() + noise > 0).double()
        kernel = ScaleKernel(stationary_kernel(math.inf, double([[0.05]]))).double()
        kernel.outputscale = 2.0
        return BinaryLaplaceGP(X, Y, covar_module=kernel)

    def variances(self, model: BinaryLaplaceGP, draw: Draw, **kwargs: Any) -> Tensor:
        """The variance of paths in the gap, for many draws of the features."""
        with torch.no_grad():
            values = [
                draw(model, 40, max_features=8, seed=seed, **kwargs)(self.gap)
                for seed in range(50)
            ]
        return torch.stack(values).var(dim=1)

    def test_in_weight_space(self) -> None:
        model = self.model()
        posterior = latent(model, self.gap).variance.squeeze(-1).detach()
        found = self.variances(model, draw_weight_space_paths, noise=0.3)
        assert (found.mean(dim=0) < 0.5 * posterior).all()

    def test_not_with_decoupled_bases(self) -> None:
        model = self.model()
        posterior = latent(model, self.gap).variance.squeeze(-1).detach()
        assert (posterior > 1.5).all()
        found = self.variances(model, draw_sample_paths)
        assert largest_z(found, posterior) < LARGEST_Z
