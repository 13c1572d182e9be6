r"""What the tests share: golden numbers, independent numerics, a device check."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import mpmath
import torch
from botorch.posteriors import GPyTorchPosterior
from botorch.utils.testing import BotorchTestCase
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean
from linear_operator import to_dense
from torch import Tensor
from torch.overrides import TorchFunctionMode

import botorch_binary_context
from botorch_binary_context import (
    AdditiveContextKernel,
    BinaryLaplaceGP,
    LabelPosterior,
    MultiplicativeContextKernel,
    PreferenceLaplaceGP,
)
from botorch_binary_context.kernels import context_dims_of


class StrictTestCase(BotorchTestCase):
    """A BoTorch test case that leaves warnings what they are in this run: errors."""

    def setUp(self, suppress_input_warnings: bool = False) -> None:
        """Keep the filters of the test run, which BoTorch's own ``setUp`` resets."""


DATA = Path(__file__).parent / "data"
BINARY_FILES = ("binary_n5_d1", "binary_n20_d2")


# ---------------------------------------------------------------- golden numbers


@cache
def load_golden(name: str) -> Any:
    """The content of ``tests/data/{name}.json``."""
    return json.loads((DATA / f"{name}.json").read_text())


def double(values: Any) -> Tensor:
    """A double precision tensor."""
    return torch.tensor(values, dtype=torch.double)


def stock_kernel(family: str, hyper: Mapping[str, Any]) -> ScaleKernel:
    """A stock kernel of the family in a golden name: SE, Matern52 or Matern32."""
    if family.startswith("SE"):
        lengthscale = double(hyper["lengthscales"]).reshape(1, -1)
        base: Kernel = RBFKernel(ard_num_dims=lengthscale.shape[-1])
    else:
        lengthscale = double(hyper["rho"]).reshape(1, 1)
        base = MaternKernel(nu={"Matern52": 2.5, "Matern32": 1.5}[family])
    kernel = ScaleKernel(base).double()
    base.lengthscale = lengthscale
    kernel.outputscale = double(hyper["k0"])
    return kernel


def golden_kernel(name: str, hyper: Mapping[str, Any]) -> Kernel:
    """The kernel of a golden case; context, where there is one, is column 0.

    Args:
        name: As in the files: ``SE_ARD_full``, ``ctx_mult_Matern52``, ``ctx_add_SE``, …
        hyper: The ``hyper`` entry of the case.
    """
    if not name.startswith("ctx_"):
        return stock_kernel(name.split("_")[0], hyper)
    _, kind, family = name.split("_")
    base = stock_kernel(family, hyper)
    if kind == "mult":
        return MultiplicativeContextKernel(base, context_dims=[0])
    kernel = AdditiveContextKernel(base, context_dims=[0])
    kernel.context_variance = double(hyper["theta_s"])
    return kernel


class ConditionalKernel(Kernel):
    """``k(x,x') - k(x,x₀) k(x₀,x') / k(x₀,x₀)`` with ``x₀ = 0``: ``f(0)`` is 0."""

    def __init__(self, base_kernel: Kernel) -> None:
        super().__init__()
        self.base_kernel = base_kernel

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any
    ) -> Tensor:
        origin = torch.zeros_like(x1[..., :1, :])
        left = to_dense(self.base_kernel(x1, origin))  # n x 1
        right = to_dense(self.base_kernel(origin, x2))  # 1 x m
        scale = to_dense(self.base_kernel(origin, origin))
        if diag:
            own = to_dense(self.base_kernel(x1, x2, diag=True))
            return own - left.squeeze(-1) * right.squeeze(-2) / scale.squeeze(-1)
        return to_dense(self.base_kernel(x1, x2)) - left @ right / scale


def golden_preference_kernel(case: Mapping[str, Any]) -> Kernel:
    """The kernel of the value function of a case of ``preference.json``."""
    kernel: Kernel = stock_kernel(case["base"], case["hyper"])
    if "conditional" in case["variant"]:
        kernel = ConditionalKernel(kernel)
    if case["variant"].startswith("ctx"):
        kernel = MultiplicativeContextKernel(kernel, context_dims=[0])
    return kernel


def golden_duels(rows: Any, contextual: bool) -> Tensor:
    """``n x 2 x d`` pairs from rows ``(x, x')``, or ``(s, x, x')`` with a context."""
    flat = double(rows)
    if not contextual:
        return flat.unflatten(-1, (2, -1))
    pairs = flat[..., 1:].unflatten(-1, (2, -1))
    context = flat[..., :1].unsqueeze(-2).expand(*pairs.shape[:-1], 1)
    return torch.cat([context, pairs], dim=-1)


# ---------------------------------------------------------- independent numerics


def finite_difference(
    func: Callable[[Tensor], Tensor], x: Tensor, step: float = 1e-3
) -> Tensor:
    """The Jacobian of ``func`` by central differences of sixth order.

    Args:
        func: Maps a tensor like ``x`` to a tensor.
        x: The point, double precision.
        step: The distance of the nearest points on the stencil.

    Returns:
        A tensor of shape ``func(x).shape + x.shape``.
    """
    columns = []
    for i in range(x.numel()):
        unit = torch.zeros_like(x).reshape(-1)
        unit[i] = step
        unit = unit.reshape(x.shape)
        with torch.no_grad():
            total = sum(
                weight * (func(x + k * unit) - func(x - k * unit))
                for k, weight in ((1, 45.0), (2, -9.0), (3, 1.0))
            )
        columns.append(torch.as_tensor(total) / (60 * step))
    return torch.stack(columns, dim=-1).reshape(columns[0].shape + x.shape)


def jacobian(func: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The Jacobian of ``func`` by autograd, in the shape of ``finite_difference``."""
    result = torch.autograd.functional.jacobian(func, x)
    assert isinstance(result, Tensor)
    return result


def normal_expectation(
    func: Callable[[Any], Any],
    mean: float,
    variance: float,
    knots: Sequence[float] = (0.0,),
) -> Any:
    """``E func(f)`` for ``f ~ N(mean, variance)`` by quadrature with ``mpmath``.

    Args:
        func: A function of an ``mpf``.
        mean: The mean.
        variance: The variance, positive.
        knots: Where ``func`` changes fast; the range is cut there too.
    """
    mu, sd = mpmath.mpf(mean), mpmath.sqrt(mpmath.mpf(variance))
    reach = 12
    cuts = {mpmath.mpf(k) for k in range(-reach, reach + 1, 4)}
    cuts |= {(mpmath.mpf(k) - mu) / sd for k in knots}
    inside = sorted(c for c in cuts if abs(c) <= reach)
    return mpmath.quad(lambda u: func(mu + sd * u) * mpmath.npdf(u), inside)


# ------------------------------------------------------------------ device check

_FACTORIES = {
    torch.arange,
    torch.empty,
    torch.eye,
    torch.full,
    torch.linspace,
    torch.logspace,
    torch.normal,
    torch.ones,
    torch.rand,
    torch.randint,
    torch.randn,
    torch.randperm,
    torch.scalar_tensor,
    torch.tensor,
    torch.tril_indices,
    torch.triu_indices,
    torch.zeros,
    torch.as_tensor,
    torch.asarray,
}
_CONVERSIONS = {torch.as_tensor, torch.asarray, torch.normal}


class RequireDevice(TorchFunctionMode):
    """Fails where the package makes a tensor without saying on which device.

    Args:
        directory: Calls from files below it are checked, by default the package's.
    """

    def __init__(
        self, directory: Path = Path(botorch_binary_context.__file__).parent
    ) -> None:
        super().__init__()
        self.directory = str(directory)

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in _FACTORIES and kwargs.get("device") is None:
            converts = func in _CONVERSIONS and isinstance(args[0], Tensor)
            if not converts and _caller().startswith(self.directory):
                raise AssertionError(
                    f"torch.{func.__name__} without a device in {_caller()}."
                )
        return func(*args, **kwargs)


def _caller() -> str:
    """The file and line that called a torch function: the first outside of torch."""
    frame = sys._getframe(2)
    torch_directory = str(Path(torch.__file__).parent)
    while frame.f_back and frame.f_code.co_filename.startswith(torch_directory):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


# -------------------------------------------------------------------- both models

ModelClass = type[BinaryLaplaceGP] | type[PreferenceLaplaceGP]
AnyModel = BinaryLaplaceGP | PreferenceLaplaceGP
MODEL_CLASSES: tuple[ModelClass, ...] = (BinaryLaplaceGP, PreferenceLaplaceGP)


def uniform(*shape: int, seed: int = 0) -> Tensor:
    """Double precision numbers in [0, 1], the same at every call."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=generator, dtype=torch.double)


def random_trials(
    model_class: ModelClass,
    n: int,
    dim: int = 2,
    batch_shape: Sequence[int] = (),
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Trials in the unit cube, in the form a model takes, and noisy labels."""
    generator = torch.Generator().manual_seed(seed)
    sides = () if model_class is BinaryLaplaceGP else (2,)
    shape = (*batch_shape, n, *sides, dim)
    X = torch.rand(shape, generator=generator, dtype=torch.double)
    value = (5 * X).sin().sum(dim=-1)
    contrast = value[..., 0] - value[..., 1] if sides else value
    noise = torch.randn(contrast.shape, generator=generator, dtype=torch.double)
    return X, (contrast + noise > 0).double().unsqueeze(-1)


def simple_kernel(dim: int = 2, batch_shape: Sequence[int] = ()) -> ScaleKernel:
    """A squared exponential kernel; elements of a batch differ in hyperparameters."""
    shape = torch.Size(batch_shape)
    base = RBFKernel(ard_num_dims=dim, batch_shape=shape)
    kernel = ScaleKernel(base, batch_shape=shape).double()
    base.lengthscale = 0.3 + 0.3 * uniform(*shape, 1, dim, seed=7)
    kernel.outputscale = 1.0 + 2.0 * uniform(*shape, seed=8)
    return kernel


def random_model(
    model_class: ModelClass,
    n: int = 8,
    dim: int = 2,
    batch_shape: Sequence[int] = (),
    seed: int = 0,
    **kwargs: Any,
) -> AnyModel:
    """A model of random trials, by default with a kernel that needs no fit."""
    X, Y = random_trials(model_class, n, dim, batch_shape, seed)
    kernel = kwargs.setdefault("covar_module", simple_kernel(dim, batch_shape))
    if model_class is PreferenceLaplaceGP:
        contexts = list(context_dims_of(kernel))
        X[..., 1, contexts] = X[..., 0, contexts]
    return model_class(X, Y, **kwargs)


def join_rows(model: AnyModel, trials: Tensor) -> Tensor:
    """The rows of trials: of duels both sides, one after the other."""
    return trials if isinstance(model, BinaryLaplaceGP) else trials.flatten(-3, -2)


def latent(model: AnyModel, X: Tensor) -> GPyTorchPosterior:
    """The posterior of the latent function at points."""
    posterior = model.posterior(X)
    assert isinstance(posterior, GPyTorchPosterior)
    return posterior


def label_posterior(model: AnyModel, X: Tensor) -> LabelPosterior:
    """The posterior of the labels of trials at points."""
    posterior = model.posterior(X, observation_noise=True)
    assert isinstance(posterior, LabelPosterior)
    return posterior


def latent_covariance(model: AnyModel, X: Tensor) -> Tensor:
    """The joint covariance of the latent values at points."""
    covariance_matrix = latent(model, X).distribution.covariance_matrix
    assert isinstance(covariance_matrix, Tensor)
    return covariance_matrix


UNIT = [[0.0, 0.0], [1.0, 1.0]]


def element(model: AnyModel, index: tuple[int, ...]) -> AnyModel:
    """One element of a batch of models of ``random_model``, on its own."""
    batched: Any = model.covar_module
    kernel = simple_kernel(model.train_inputs[0].shape[-1])
    if batched.outputscale.ndim:
        batched_scale, batched_length = batched.outputscale, batched.base_kernel
        kernel.outputscale = batched_scale[index].detach()
        kernel.base_kernel.lengthscale = batched_length.lengthscale[index].detach()
    mean_module: Any = ConstantMean().double()
    constant: Any = getattr(model.mean_module, "constant", double(0.0))
    mean_module.constant = (constant[index] if constant.ndim else constant).detach()
    return type(model)(
        model.train_inputs[0][index],
        model.train_targets[index].unsqueeze(-1),
        likelihood=model.likelihood,  # pyright: ignore[reportArgumentType]
        covar_module=kernel,
        mean_module=mean_module,
    )


def assert_same_posterior(
    first: AnyModel, second: AnyModel, X: Tensor, second_X: Tensor | None = None
) -> None:
    """Both moments of the latent posterior agree to 1e-10."""
    second_X = X if second_X is None else second_X
    means = latent(first, X).mean, latent(second, second_X).mean
    torch.testing.assert_close(*means, rtol=0, atol=1e-10)
    covariances = latent_covariance(first, X), latent_covariance(second, second_X)
    torch.testing.assert_close(*covariances, rtol=0, atol=1e-10)


# -------------------------------------------------------- random and other features

# The largest of some thousand standard normal variables is below this but for 1e-3.
LARGEST_Z = 5.2


def largest_z(samples: Tensor, expected: Tensor) -> float:
    """The largest error of the mean of samples, in standard errors.

    Args:
        samples: Independent along the first dimension.
        expected: What their mean should be. Where they do not vary it is, to 1e-9.
    """
    error = (samples.mean(dim=0) - expected).abs()
    spread = samples.std(dim=0) / math.sqrt(samples.shape[0])
    return (error / (spread + 1e-9)).max().item()


def stationary_kernel(nu: float, lengthscale: Tensor) -> RBFKernel | MaternKernel:
    """A kernel of smoothness ``nu`` with ``batch_shape x 1 x d`` lengthscales."""
    batch_shape, dim = lengthscale.shape[:-2], lengthscale.shape[-1]
    if nu == math.inf:
        kernel: RBFKernel | MaternKernel = RBFKernel(dim, batch_shape=batch_shape)
    else:
        kernel = MaternKernel(nu, ard_num_dims=dim, batch_shape=batch_shape)
    kernel = kernel.to(lengthscale)
    kernel.lengthscale = lengthscale
    return kernel


def matrix_of(kernel: Kernel, X: Tensor) -> Tensor:
    """GPyTorch's covariance matrix of the values at points."""
    return to_dense(kernel(X, X)).detach()
