r"""Tests of sample paths."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.acquisition.thompson_sampling import PathwiseThompsonSampling
from botorch.exceptions import InputDataWarning
from botorch.models.transforms import Normalize
from botorch.optim import optimize_acqf
from botorch.sampling.pathwise import draw_matheron_paths
from botorch.sampling.pathwise.posterior_samplers import get_matheron_path_model
from gpytorch.kernels import Kernel, MaternKernel, ScaleKernel
from gpytorch.means import ConstantMean
from torch import Tensor

from botorch_binary_context import (
    AdditiveContextKernel,
    BinaryLaplaceGP,
    MultiplicativeContextKernel,
    PreferenceLaplaceGP,
    draw_sample_paths,
    draw_weight_space_paths,
)
from botorch_binary_context.sampling import PosteriorSamplePaths
from tests.derivatives import finite_difference, jacobian
from tests.devices import RequireDevice
from tests.latent_posteriors import latent, latent_covariance
from tests.sampling.path_models import BOUNDS, NUM_PATHS, Draw, Slope, both_models
from tests.sampling_errors import LARGEST_Z, largest_z
from tests.small_models import (
    AnyModel,
    ModelClass,
    random_model,
    random_trials,
    simple_kernel,
)
from tests.stationary_kernels import matrix_of
from tests.tensors import double, uniform

# The error of the features' covariance, relative to the prior variance in the box.
FEATURE_ERROR = 5e-3


both_kinds = pytest.mark.parametrize(
    "draw", [draw_sample_paths, draw_weight_space_paths]
)


def multiplicative_kernel() -> Kernel:
    return MultiplicativeContextKernel(simple_kernel(dim=1), context_dims=[0])


def additive_kernel() -> Kernel:
    kernel = AdditiveContextKernel(simple_kernel(dim=1), context_dims=[1])
    kernel.context_variance = 2.0
    return kernel


def product_kernel() -> Kernel:
    parts = [MaternKernel(2.5, active_dims=[i]).double() for i in range(2)]
    for part in parts:
        part.lengthscale = double([[0.8]])
    return ScaleKernel(parts[0] * parts[1]).double()


KERNELS: dict[str, Callable[[], Kernel]] = {
    "no context": simple_kernel,
    "multiplicative": multiplicative_kernel,
    "additive": additive_kernel,
    "product": product_kernel,
}


def near_and_far(model: AnyModel) -> Tensor:
    """Points of training trials, beside them, and far from them."""
    rows = model.original_datapoints.detach()
    far = double([[1.3, 1.6], [2.0, 0.1], [0.0, 2.0], [2.0, 2.0], [1.2, 0.5]])
    shape = (*model.batch_shape, *far.shape)
    return torch.cat([rows[..., :3, :], rows[..., :2, :] + 0.03, far.expand(shape)], -2)


def assert_mean(values: Tensor, model: AnyModel, X: Tensor) -> None:
    """The mean of paths is the posterior mean: features do not matter."""
    expected = latent(model, X).mean.squeeze(-1).detach()
    assert largest_z(values, expected) < LARGEST_Z


def assert_covariance(
    values: Tensor, model: AnyModel, X: Tensor, feature_error: float = FEATURE_ERROR
) -> None:
    """The covariance of paths is the posterior's, but for the error of the features."""
    centered = values - latent(model, X).mean.squeeze(-1).detach()
    products = centered.unsqueeze(-1) * centered.unsqueeze(-2)
    error = (products.mean(dim=0) - latent_covariance(model, X).detach()).abs()
    sampling = products.std(dim=0) / math.sqrt(products.shape[0])
    prior_variance = matrix_of(model.covar_module, model.transform_inputs(X)).max()
    assert (error <= LARGEST_Z * sampling + feature_error * prior_variance).all()


def assert_moments(model: AnyModel, bounds: Tensor = BOUNDS) -> None:
    """Both moments, near and far from the data."""
    X = near_and_far(model)
    with torch.no_grad():
        values = draw_sample_paths(model, NUM_PATHS, bounds=bounds, seed=0)(X)
    assert values.shape == (NUM_PATHS, *X.shape[:-1])
    assert_mean(values, model, X)
    assert_covariance(values, model, X)


@both_models
class TestMoments:
    @pytest.mark.parametrize("n", [10, 200])
    @pytest.mark.parametrize("kernel", KERNELS)
    def test_near_and_far(self, model_class: ModelClass, n: int, kernel: str) -> None:
        assert_moments(random_model(model_class, n, covar_module=KERNELS[kernel]()))

    def test_saturated_trials(self, model_class: ModelClass) -> None:
        """Trials whose outcome the prior mean settles carry no information at all."""
        X, Y = random_trials(model_class, 12)
        Y[:] = 1.0
        if model_class is PreferenceLaplaceGP:
            X = X.sort(dim=-2, descending=True).values
        model = model_class(
            X, Y, covar_module=simple_kernel(), mean_module=Slope(100.0)
        )
        model.eval()
        information = model.laplace_approximation.sqrt_information
        assert (information == 0).any()
        assert (information > 0).any()
        assert_moments(model)

    def test_surprising_trials(self, model_class: ModelClass) -> None:
        """Against the prior mean, so that the mode moves far."""
        X, Y = random_trials(model_class, 12)
        Y[:] = 0.0
        if model_class is PreferenceLaplaceGP:
            X = X.sort(dim=-2, descending=True).values
        assert_moments(
            model_class(X, Y, covar_module=simple_kernel(), mean_module=Slope(9.0))
        )

    def test_prior_mean(self, model_class: ModelClass) -> None:
        mean_module = ConstantMean().double().initialize(constant=1.7)
        assert_moments(random_model(model_class, mean_module=mean_module))

    def test_no_trials(self, model_class: ModelClass) -> None:
        model = random_model(model_class, n=0, mean_module=Slope(2.0))
        assert_moments(model)

    def test_batch_of_models(self, model_class: ModelClass) -> None:
        """Each element has its own trials and its own hyperparameters."""
        assert_moments(random_model(model_class, batch_shape=(3,)))

    def test_elements_of_a_batch_are_independent(self, model_class: ModelClass) -> None:
        model = random_model(model_class, batch_shape=(2,))
        X = near_and_far(model)
        with torch.no_grad():
            values = draw_sample_paths(model, 4000, bounds=BOUNDS, seed=0)(X)
        first, second = (values - values.mean(dim=0)).unbind(dim=1)
        products = first.unsqueeze(-1) * second.unsqueeze(-2)
        assert largest_z(products, torch.zeros(products.shape[1:])) < LARGEST_Z

    def test_input_transform(self, model_class: ModelClass) -> None:
        bounds = double([[-3.0, 10.0], [5.0, 30.0]])
        X, Y = random_trials(model_class, 10)
        X = bounds[0] + (bounds[1] - bounds[0]) * X / 2
        model = model_class(
            X,
            Y,
            covar_module=simple_kernel(),
            input_transform=Normalize(2, bounds=bounds),
        )
        points = bounds[0] + (bounds[1] - bounds[0]) * uniform(6, 2)
        with torch.no_grad():
            values = draw_sample_paths(model, NUM_PATHS, bounds=bounds, seed=0)(points)
        assert_mean(values, model, points)
        assert_covariance(values, model, points)

    def test_random_features(self, model_class: ModelClass) -> None:
        """Without bounds: the mean is exact, the covariance right over many draws."""
        model = random_model(model_class)
        X = near_and_far(model)
        with torch.no_grad():
            draws = [
                draw_sample_paths(model, 50, max_features=256, seed=seed)(X)
                for seed in range(400)
            ]
        values = torch.cat(draws)
        assert_mean(values, model, X)
        # Paths of one draw share their features: the draws are the sample.
        centered = torch.stack(draws) - latent(model, X).mean.squeeze(-1).detach()
        products = (centered.mT @ centered) / 50
        expected = latent_covariance(model, X).detach()
        assert largest_z(products, expected) < LARGEST_Z


@both_models
@both_kinds
class TestCalls:
    def test_values_have_the_shape_of_points_and_paths(
        self, model_class: ModelClass, draw: Draw
    ) -> None:
        model = random_model(model_class)
        paths = draw(model, 4, bounds=BOUNDS, seed=0)
        X = uniform(3, 5, 2)
        values = paths(X.unsqueeze(-3))
        assert values.shape == (3, 4, 5)
        for i in range(3):
            torch.testing.assert_close(paths(X[i]), values[i])
        # Points of its own for each path.
        own = uniform(3, 4, 5, 2, seed=3)
        values = paths(own)
        assert values.shape == (3, 4, 5)
        for j in range(4):
            torch.testing.assert_close(paths(own[:, j, None])[:, j], values[:, j])

    def test_sample_shape(self, model_class: ModelClass, draw: Draw) -> None:
        model = random_model(model_class)
        X = uniform(5, 2)
        for shape in (torch.Size([2, 3]), torch.Size([1]), torch.Size([])):
            paths = draw(model, shape, bounds=BOUNDS, seed=0)
            assert paths(X).shape == (*shape, 5)
        assert draw(model, bounds=BOUNDS)(X).shape == (1, 5)

    @pytest.mark.parametrize("batch_shape", [(2,), (2, 3)])
    def test_batch_of_models_broadcasts_with_the_points(
        self, model_class: ModelClass, draw: Draw, batch_shape: tuple[int, ...]
    ) -> None:
        model = random_model(model_class, batch_shape=batch_shape)
        paths = draw(model, 4, bounds=BOUNDS, seed=0)
        X = uniform(*batch_shape, 5, 2)
        values = paths(X)
        assert values.shape == (4, *batch_shape, 5)
        common = uniform(5, 2)
        expanded = common.expand(*batch_shape, 5, 2)
        torch.testing.assert_close(paths(common), paths(expanded))
        more = uniform(7, 1, *batch_shape, 5, 2)
        more[3, 0] = X
        assert paths(more).shape == (7, 4, *batch_shape, 5)
        torch.testing.assert_close(paths(more)[3], values)

    def test_gradient_equals_finite_differences(
        self, model_class: ModelClass, draw: Draw
    ) -> None:
        model = random_model(model_class, covar_module=multiplicative_kernel())
        paths = draw(model, 2, bounds=BOUNDS, seed=0)
        X = 0.1 + 0.8 * uniform(3, 2, seed=5)
        torch.testing.assert_close(
            jacobian(paths, X), finite_difference(paths, X), rtol=1e-6, atol=1e-7
        )

    def test_seed_repeats_paths_and_leaves_the_global_state(
        self, model_class: ModelClass, draw: Draw
    ) -> None:
        model = random_model(model_class)
        X = uniform(5, 2)
        for bounds in (BOUNDS, None):
            state = torch.get_rng_state()
            first, again, other = (
                draw(model, 3, bounds=bounds, seed=seed)(X) for seed in (1, 1, 2)
            )
            assert torch.equal(torch.get_rng_state(), state)
            assert torch.equal(first, again)
            assert not torch.equal(first, other)

    def test_global_generator(self, model_class: ModelClass, draw: Draw) -> None:
        model = random_model(model_class)
        X = uniform(5, 2)
        with torch.random.fork_rng():
            torch.manual_seed(3)
            first = draw(model, 3)(X)
            second = draw(model, 3)(X)
            torch.manual_seed(3)
            again = draw(model, 3)(X)
        assert torch.equal(first, again)
        assert not torch.equal(first, second)

    def test_no_trials(self, model_class: ModelClass, draw: Draw) -> None:
        for batch_shape in ((), (2,)):
            model = random_model(model_class, n=0, batch_shape=batch_shape)
            values = draw(model, 3, bounds=BOUNDS, seed=0)(uniform(5, 2))
            assert values.shape == (3, *batch_shape, 5)
            assert values.isfinite().all()

    def test_input_transform(self, model_class: ModelClass, draw: Draw) -> None:
        """The same paths as after normalizing by hand."""
        bounds = double([[-3.0, 10.0], [5.0, 30.0]])
        low, width = bounds[0], bounds[1] - bounds[0]
        X, Y = random_trials(model_class, 8)
        kernel = simple_kernel()
        transform = Normalize(2, bounds=bounds)
        plain = model_class(X, Y, covar_module=kernel)
        model = model_class(
            low + width * X, Y, covar_module=kernel, input_transform=transform
        )
        unit = double([[0.0, 0.0], [1.0, 1.0]])
        points = uniform(5, 2)
        expected = draw(plain, 3, bounds=unit, seed=0)(points)
        found = draw(model, 3, bounds=bounds, seed=0)(low + width * points)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-8)

    def test_single_precision_stays_single(
        self, model_class: ModelClass, draw: Draw
    ) -> None:
        X, Y = (t.float() for t in random_trials(model_class, 8))
        with pytest.warns(InputDataWarning, match="float32"):
            model = model_class(X, Y, covar_module=simple_kernel().float())
        values = draw(model, 3, bounds=BOUNDS, seed=0)(uniform(5, 2).float())
        assert values.dtype == torch.float
        assert values.isfinite().all()

    def test_does_not_change_the_model(
        self, model_class: ModelClass, draw: Draw
    ) -> None:
        model = random_model(model_class)
        X = uniform(5, 2)
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        mean = latent(model, X).mean
        draw(model, 3, bounds=BOUNDS, seed=0)(X)
        for name, parameter in model.named_parameters():
            assert parameter.requires_grad
            assert torch.equal(parameter, before[name])
        assert torch.equal(latent(model, X).mean, mean)

    def test_makes_nothing_on_the_default_device(
        self, model_class: ModelClass, draw: Draw
    ) -> None:
        X = uniform(5, 2)
        for kernel in KERNELS.values():
            model = random_model(model_class, covar_module=kernel())
            for bounds in (BOUNDS, None):
                with RequireDevice():
                    draw(model, 3, bounds=bounds, max_features=64)(X)


def assert_near(first: Tensor, second: Tensor) -> None:
    """Equal but for rounding."""
    torch.testing.assert_close(first, second, rtol=0, atol=1e-12)


@both_kinds
class TestDuels:
    def test_contrast_changes_sign_with_the_sides(self, draw: Draw) -> None:
        for kernel in (simple_kernel(), multiplicative_kernel()):
            model = random_model(PreferenceLaplaceGP, covar_module=kernel)
            paths = draw(model, 4, bounds=BOUNDS, seed=0)
            duels = uniform(6, 1, 2, 2)
            contrast = paths.contrast(duels)
            assert contrast.shape == (6, 4, 1)
            assert_near(paths.contrast(duels.flip(-2)), -contrast)
            values = paths(duels)
            assert_near(contrast[..., 0], values[..., 0] - values[..., 1])

    def test_no_contest(self, draw: Draw) -> None:
        model = random_model(PreferenceLaplaceGP)
        paths = draw(model, 4, bounds=BOUNDS, seed=0)
        duels = uniform(6, 1, 1, 2).expand(6, 1, 2, 2)
        assert_near(paths.contrast(duels), torch.zeros(6, 4, 1).double())

    def test_consecutive_rows_are_pairs(self, draw: Draw) -> None:
        model = random_model(PreferenceLaplaceGP)
        paths = draw(model, 4, bounds=BOUNDS, seed=0)
        duels = uniform(6, 2, 2)
        together = paths.contrast(duels.flatten(0, 1))
        apart = paths.contrast(duels.unsqueeze(-3)).squeeze(-1).mT
        torch.testing.assert_close(together, apart)

    def test_contrast_of_outcomes(self, draw: Draw) -> None:
        paths = draw(random_model(BinaryLaplaceGP), 4, bounds=BOUNDS, seed=0)
        X = uniform(5, 2)
        assert torch.equal(paths.contrast(X), paths(X))


@both_models
class TestStockBoTorch:
    def test_draw_matheron_paths(self, model_class: ModelClass) -> None:
        model = random_model(model_class)
        X = near_and_far(model)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            paths: Any = draw_matheron_paths(model, torch.Size([NUM_PATHS // 4]))
        assert isinstance(paths, PosteriorSamplePaths)
        values = paths(X).detach()
        assert_mean(values, model, X)
        # One draw of 2048 random features: an error of 1 / sqrt(2048), and its tail.
        assert_covariance(values, model, X, feature_error=4 / math.sqrt(2048))

    @pytest.mark.parametrize("sample_shape", [None, (3,), (2, 3)])
    def test_path_model(
        self, model_class: ModelClass, sample_shape: tuple[int, ...] | None
    ) -> None:
        model = random_model(model_class)
        shape = None if sample_shape is None else torch.Size(sample_shape)
        path_model = get_matheron_path_model(model, sample_shape=shape)
        batch = sample_shape or ()
        X = uniform(7, *batch, 5, 2)
        values = path_model(X)
        assert values.shape == (7, *batch, 5, 1)
        assert torch.equal(path_model(X), values)
        assert torch.equal(path_model.posterior(X).mean, values)

    def test_path_model_of_a_batch(self, model_class: ModelClass) -> None:
        model = random_model(model_class, batch_shape=(2,))
        path_model = get_matheron_path_model(model, sample_shape=torch.Size([3]))
        assert path_model(uniform(7, 3, 2, 5, 2)).shape == (7, 3, 2, 5, 1)

    @pytest.mark.parametrize("q", [1, 2])
    @pytest.mark.parametrize("kernel", ["no context", "multiplicative"])
    def test_thompson_sampling(
        self, model_class: ModelClass, q: int, kernel: str
    ) -> None:
        model = random_model(model_class, covar_module=KERNELS[kernel]())
        box = BOUNDS / 2
        with torch.random.fork_rng():
            torch.manual_seed(0)
            acqf = PathwiseThompsonSampling(model)
            candidate, value = optimize_acqf(
                acqf, box, q=q, num_restarts=6, raw_samples=128, options={"seed": 0}
            )
        assert candidate.shape == (q, 2)
        assert ((candidate >= 0) & (candidate <= 1)).all()
        grid = torch.cartesian_prod(*[torch.linspace(0, 1, 41).double()] * 2)
        assert acqf.samples is not None
        values = acqf.samples(grid.expand(q, -1, -1)).squeeze(-1)
        best = values.amax(dim=-1).sum()
        assert value >= best - 1e-6

    def test_product_kernel(self, model_class: ModelClass) -> None:
        """The random features of a product are not all pairs of its factors'."""
        model = random_model(model_class, covar_module=product_kernel())
        paths: Any = draw_matheron_paths(model, torch.Size([1]))
        assert paths.weights.shape[-1] <= 2 * 2048
