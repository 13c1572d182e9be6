from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelListGP
from gpytorch.kernels import (
    ConstantKernel,
    Kernel,
    MaternKernel,
    RBFKernel,
    ScaleKernel,
)
from gpytorch.means import ConstantMean
from gpytorch.mlls import SumMarginalLogLikelihood
from gpytorch.priors import GammaPrior, NormalPrior
from torch import Tensor
from torch.autograd import gradgradcheck
from torch.func import functional_call

from botorch_binary_context import (
    AdditiveContextKernel,
    BinaryLaplaceGP,
    LaplaceMarginalLogLikelihood,
    MultiplicativeContextKernel,
    PreferenceLaplaceGP,
    ProbitLikelihood,
)
from tests.closeness import assert_all_close
from tests.derivatives import finite_difference
from tests.golden_numbers import BINARY_FILES, golden_kernel, load_golden
from tests.latent_posteriors import latent
from tests.small_models import (
    MODEL_CLASSES,
    AnyModel,
    ModelClass,
    element,
    random_model,
    random_trials,
    simple_kernel,
)
from tests.tensors import double, uniform


class Loss(torch.nn.Module):
    """The marginal likelihood of the training data, as a function of parameters."""

    def __init__(self, model: AnyModel) -> None:
        super().__init__()
        self.mll = LaplaceMarginalLogLikelihood(model.likelihood, model)
        self.train()

    def forward(self) -> Tensor:
        model: Any = self.mll.model
        value: Any = self.mll(model(*model.train_inputs), model.train_targets)
        return value


def loss_in(model: AnyModel, name: str) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """The loss as a function of one parameter, and the value of that parameter."""
    loss = Loss(model)
    full_name = f"mll.model.{name}"

    def func(value: Tensor) -> Tensor:
        return functional_call(loss, {full_name: value}, ())

    return func, dict(loss.named_parameters())[full_name].detach().clone()


def evidence(model: AnyModel) -> Tensor:
    """The log evidence at the present hyperparameters."""
    model.eval()
    return model.laplace_approximation.log_evidence


# --------------------------------------------------------------------- golden files

GOLDEN_CASES = [
    pytest.param(name, i, id=f"{name}-{load_golden(name)['kernels'][i]['name']}")
    for name in BINARY_FILES
    for i in range(7)
]


def log_gradient(model: AnyModel, name: str) -> Tensor:
    """The gradient of the negative log evidence in the log of a hyperparameter."""
    constraint = model.constraint_for_parameter_name(name)
    assert constraint is not None
    func, raw = loss_in(model, name)
    log_value = constraint.transform(raw).log().requires_grad_()
    loss = func(constraint.inverse_transform(log_value.exp()))
    num_trials = model.train_targets.shape[-1]
    return -num_trials * torch.autograd.grad(loss, log_value)[0].flatten()


def golden_gradient(model: AnyModel, kernel_name: str) -> Tensor:
    """The gradient in the authors' hyperparameters, in the order of the files.

    Those are ``-2 log l`` of each column (squared exponential) or ``log rho`` (Matern),
    then ``log k0``; with a context first ``log θ`` (of ``s s' k``, where it is another
    output scale) and two that we have not: an origin of the context and a constant.
    """
    contextual = kernel_name.startswith("ctx")
    path = "covar_module.base_kernel." if contextual else "covar_module."
    in_lengthscale = log_gradient(model, path + "base_kernel.raw_lengthscale")
    in_outputscale = log_gradient(model, path + "raw_outputscale")
    factor = -0.5 if "SE" in kernel_name else 1.0
    parts = [factor * in_lengthscale, in_outputscale]
    if contextual:
        in_theta = in_outputscale
        if "add" in kernel_name:
            in_theta = log_gradient(model, "covar_module.raw_context_variance")
        parts = [in_theta, double([torch.nan, torch.nan]), *parts]
    return torch.cat(parts)


@pytest.mark.parametrize(("name", "i"), GOLDEN_CASES)
class TestGolden:
    def test_value_and_gradient(self, name: str, i: int) -> None:
        data = load_golden(name)
        case = data["kernels"][i]
        kernel = golden_kernel(case["name"], case["hyper"])
        model = BinaryLaplaceGP(
            double(data["z"]), double(data["c"]).unsqueeze(-1), covar_module=kernel
        )
        expected = case["laplace"]["neg_log_marginal_likelihood"]
        assert abs(-data["n"] * Loss(model)().item() - expected) < 1e-9
        found = golden_gradient(model, case["name"])
        golden = case["laplace"]["neg_log_marginal_likelihood_grad_fd_log_hyper"]
        assert found.shape == (len(golden),)
        ours = ~found.isnan()
        torch.testing.assert_close(found[ours], double(golden)[ours], rtol=0, atol=1e-7)


# ------------------------------------------------------------------------- gradients


def with_priors() -> Kernel:
    base = RBFKernel(ard_num_dims=2, lengthscale_prior=GammaPrior(3.0, 6.0))
    return ScaleKernel(base, outputscale_prior=GammaPrior(2.0, 0.15))


KERNELS: dict[str, Callable[[], Kernel]] = {
    "rbf": lambda: ScaleKernel(RBFKernel(ard_num_dims=2)),
    "matern12": lambda: ScaleKernel(MaternKernel(nu=0.5, ard_num_dims=2)),
    "matern32": lambda: ScaleKernel(MaternKernel(nu=1.5)),
    "matern52": lambda: ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=2)),
    "multiplicative": lambda: MultiplicativeContextKernel(
        ScaleKernel(RBFKernel()), context_dims=[0]
    ),
    "additive": lambda: AdditiveContextKernel(
        ScaleKernel(MaternKernel()), context_dims=[-1]
    ),
    "product": lambda: (
        RBFKernel(active_dims=(0,)) * ScaleKernel(MaternKernel(active_dims=(1,)))
    ),
    "sum": lambda: ConstantKernel() + ScaleKernel(RBFKernel()),
    "priors": with_priors,
}


def scatter_parameters(model: AnyModel) -> None:
    """Move the parameters away from their symmetric defaults."""
    for i, parameter in enumerate(model.parameters()):
        shift = uniform(*parameter.shape, seed=i) - 0.5
        parameter.data.add_(shift.reshape(parameter.shape))


def parameter_names(model: AnyModel) -> list[str]:
    return [name for name, _ in model.named_parameters()]


@pytest.mark.parametrize("model_class", MODEL_CLASSES)
class TestGradient:
    @pytest.mark.parametrize("kernel", KERNELS)
    def test_in_every_hyperparameter(
        self, model_class: ModelClass, kernel: str
    ) -> None:
        model = random_model(
            model_class, covar_module=KERNELS[kernel](), mean_module=ConstantMean()
        )
        scatter_parameters(model)
        assert len(parameter_names(model)) >= 2
        for name in parameter_names(model):
            assert_gradient(*loss_in(model, name))

    @pytest.mark.parametrize("batch_shape", [(3,), (2, 2)])
    def test_in_batched_hyperparameters(
        self, model_class: ModelClass, batch_shape: tuple[int, ...]
    ) -> None:
        mean_module = ConstantMean(batch_shape=torch.Size(batch_shape))
        model = random_model(
            model_class, n=5, batch_shape=batch_shape, mean_module=mean_module
        )
        scatter_parameters(model)
        for name in parameter_names(model):
            assert_gradient(*loss_in(model, name))

    @pytest.mark.parametrize("kernel", ["rbf", "matern52", "additive"])
    def test_double_backward(self, model_class: ModelClass, kernel: str) -> None:
        model = random_model(
            model_class,
            n=5,
            covar_module=KERNELS[kernel](),
            mean_module=ConstantMean(),
        )
        scatter_parameters(model)
        for name in parameter_names(model):
            func, value = loss_in(model, name)
            assert gradgradcheck(func, (value.requires_grad_(),), atol=1e-6, rtol=1e-5)


def assert_gradient(func: Callable[[Tensor], Tensor], value: Tensor) -> None:
    expected = finite_difference(func, value)
    value.requires_grad_()
    (found,) = torch.autograd.grad(func(value), value)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-8)


def test_gradient_with_rates() -> None:
    model = random_model(
        BinaryLaplaceGP,
        n=20,
        likelihood=ProbitLikelihood(guess_rate=0.2, lapse_rate=0.05),
        mean_module=ConstantMean(),
    )
    scatter_parameters(model)
    for name in parameter_names(model):
        func, value = loss_in(model, name)
        assert_gradient(func, value)
        assert gradgradcheck(func, (value,), atol=1e-6, rtol=1e-5)


# ---------------------------------------------------------------------------- values


class TestLaplaceMarginalLogLikelihood:
    def test_is_the_evidence_per_trial(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, n=7)
            found = 7 * Loss(model)()
            assert_all_close(found, evidence(model), rtol=0, atol=1e-12)

    def test_adds_log_priors(self) -> None:
        for model_class in MODEL_CLASSES:
            X, Y = random_trials(model_class, 7)
            kernel = with_priors().double()
            model = model_class(X, Y, covar_module=kernel)
            found = 7 * Loss(model)()
            scale: Any = kernel
            prior = torch.distributions.Gamma(3.0, 6.0).log_prob(
                scale.base_kernel.lengthscale
            )
            prior = prior.sum() + torch.distributions.Gamma(2.0, 0.15).log_prob(
                scale.outputscale
            )
            assert_all_close(found, evidence(model) + prior)

    def test_sums_over_the_batch(self) -> None:
        for model_class in MODEL_CLASSES:
            for batch_shape in ((3,), (2, 3)):
                model = random_model(model_class, n=6, batch_shape=batch_shape)
                value = Loss(model)()
                assert value.shape == torch.Size()
                total = 0.0
                for index in np.ndindex(*batch_shape):
                    total = total + Loss(element(model, index))()
                assert_all_close(value, total, rtol=0, atol=1e-10)

    def test_repeated_evaluations_agree(self) -> None:
        # The second starts from the mode of the first, at other hyperparameters.
        for model_class in MODEL_CLASSES:
            model = random_model(model_class)
            loss = Loss(model)
            first = loss().item()
            kernel: Any = model.covar_module
            kernel.outputscale = 50.0
            moved = loss().item()
            kernel.outputscale = simple_kernel().outputscale
            assert_all_close(loss().item(), first, rtol=0, atol=1e-10)
            kernel.outputscale = 50.0
            assert_all_close(Loss(model)().item(), moved, rtol=0, atol=1e-10)

    def test_recovers_from_hyperparameters_that_are_not_finite(self) -> None:
        model = random_model(BinaryLaplaceGP)
        loss = Loss(model)
        expected = loss().item()
        loss.mll._last_weights = torch.full((8,), torch.nan, dtype=torch.double)
        assert_all_close(loss().item(), expected, rtol=0, atol=1e-10)

    def test_follows_a_change_of_data(self) -> None:
        model = random_model(BinaryLaplaceGP)
        loss = Loss(model)
        loss()
        X, Y = random_trials(BinaryLaplaceGP, 5, seed=4)
        model.set_train_data(X, Y.squeeze(-1), strict=False)
        fresh = BinaryLaplaceGP(X, Y, covar_module=simple_kernel())
        assert_all_close(loss(), Loss(fresh)())

    def test_follows_a_change_of_dtype(self) -> None:
        loss = Loss(random_model(BinaryLaplaceGP))
        expected = loss().item()
        loss.float()
        assert loss().dtype == torch.float
        assert_all_close(loss().item(), expected, atol=1e-5)


# --------------------------------------------------------------------------- fitting


def fit(model: AnyModel) -> tuple[float, float]:
    """The loss before and after a fit."""
    loss = Loss(model)
    before = loss().item()
    fit_gpytorch_mll(loss.mll)
    model.train()
    return before, loss().item()


def outputscale(model: AnyModel) -> Tensor:
    """That of the default kernel."""
    (kernel,) = [k for k in model.modules() if isinstance(k, ScaleKernel)]
    return kernel.outputscale


class TestFit:
    def test_increases_the_evidence(self) -> None:
        for model_class in MODEL_CLASSES:
            for batch_shape in ((), (3,)):
                X, Y = random_trials(model_class, 20, batch_shape=batch_shape)
                model = model_class(X, Y)
                before, after = fit(model)
                assert after > before + 1e-4

    def test_ends_at_a_stationary_point(self) -> None:
        for model_class in MODEL_CLASSES:
            model = model_class(*random_trials(model_class, 20))
            fit(model)
            loss = Loss(model)
            learned = [p for p in loss.parameters() if p.requires_grad]
            assert len(learned) == 2  # lengthscales and output scale
            for gradient in torch.autograd.grad(loss(), learned):
                assert gradient.abs().max().item() < 1e-4

    def test_batch_equals_single_fits(self) -> None:
        for model_class in MODEL_CLASSES:
            X, Y = random_trials(model_class, 15, batch_shape=(2,))
            options = {"options": {"ftol": 1e-13, "gtol": 1e-9}}
            batch = model_class(X, Y)
            mll = LaplaceMarginalLogLikelihood(batch.likelihood, batch)
            fit_gpytorch_mll(mll, optimizer_kwargs=options)
            scales = outputscale(batch)
            for i in range(2):
                single = model_class(X[i], Y[i])
                mll = LaplaceMarginalLogLikelihood(single.likelihood, single)
                fit_gpytorch_mll(mll, optimizer_kwargs=options)
                assert_all_close(scales[i], outputscale(single), rtol=1e-3)

    def test_all_hyperparameters_at_once(self) -> None:
        # A context kernel, a mean and priors on everything.
        for model_class in MODEL_CLASSES:
            X, Y = random_trials(model_class, 20)
            if model_class is PreferenceLaplaceGP:
                X[..., 1, 1] = X[..., 0, 1]  # duels share their context
            kernel = AdditiveContextKernel(
                ScaleKernel(
                    RBFKernel(lengthscale_prior=GammaPrior(3.0, 6.0)),
                    outputscale_prior=GammaPrior(2.0, 0.15),
                ),
                context_dims=[1],
                context_variance_prior=GammaPrior(2.0, 0.5),
            )
            mean_module = ConstantMean(constant_prior=NormalPrior(0.0, 1.0))
            model = model_class(X, Y, covar_module=kernel, mean_module=mean_module)
            start = deepcopy(model.state_dict())
            before, after = fit(model)
            assert after > before
            moved = [
                name
                for name, value in model.named_parameters()
                if not torch.equal(value, start[name])
            ]
            assert "covar_module.base_kernel.raw_outputscale" in moved
            if model_class is BinaryLaplaceGP:  # from duels nobody learns these
                assert "covar_module.raw_context_variance" in moved
                assert "mean_module.raw_constant" in moved

    def test_posterior_uses_the_fitted_hyperparameters(self) -> None:
        for model_class in MODEL_CLASSES:
            X, Y = random_trials(model_class, 15)
            model = model_class(X, Y)
            test_X = uniform(4, 2)
            before = latent(model, test_X).mean  # fills the cache
            fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
            found = latent(model, test_X).mean
            fresh = model_class(X, Y)
            fresh.load_state_dict(model.state_dict())
            assert_all_close(found, latent(fresh, test_X).mean, rtol=0, atol=1e-10)
            assert (found - before).abs().max().item() > 1e-3

    def test_with_guess_and_lapse_rates(self) -> None:
        likelihood = ProbitLikelihood(guess_rate=0.1, lapse_rate=0.02)
        X, Y = random_trials(BinaryLaplaceGP, 30)
        before, after = fit(BinaryLaplaceGP(X, Y, likelihood=likelihood))
        assert after > before

    def test_without_trials_gives_the_modes_of_the_priors(self) -> None:
        for model_class in MODEL_CLASSES:
            X, Y = random_trials(model_class, 0)
            model = model_class(X, Y)
            fit(model)
            # A log-normal prior has its mode at exp(μ - σ²).
            mode = 4 * math.exp(-(0.7**2))
            assert_all_close(outputscale(model).item(), mode, rtol=1e-3)

    def test_in_a_list_of_models(self) -> None:
        models = [m(*random_trials(m, 15)) for m in MODEL_CLASSES]
        before = [Loss(m)().item() for m in models]
        model_list = ModelListGP(*models)
        mll = SumMarginalLogLikelihood(
            model_list.likelihood,
            model_list,
            mll_cls=LaplaceMarginalLogLikelihood,  # pyright: ignore
        )
        fit_gpytorch_mll(mll)
        for model, start in zip(models, before, strict=True):
            assert Loss(model)().item() > start
