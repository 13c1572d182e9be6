r"""Small problems in a context, and what every acquisition function does on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models.transforms import Normalize
from botorch.optim import optimize_acqf
from botorch.utils.sampling import manual_seed
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean
from torch import Tensor

from botorch_binary_context import (
    AdditiveContextKernel,
    BinaryLaplaceGP,
    ContextSpace,
    ContextualBinaryKnowledgeGradient,
    MultiplicativeContextKernel,
    OneShotContextualBinaryKnowledgeGradient,
    PreferenceLaplaceGP,
    PreferenceLikelihood,
    ProbitLikelihood,
)
from tests.acquisition.by_hand import (
    Array,
    LaplaceByHand,
    grid_maximum,
    squared_exponential,
)
from tests.small_models import AnyModel, ModelClass, random_trials
from tests.tensors import double, uniform

MakeAcquisition = Callable[["Problem"], AcquisitionFunction]

CONTEXT_KINDS = ("multiplicative", "additive", "product")
KINDS = (*CONTEXT_KINDS, "none")


@dataclass(frozen=True)
class Problem:
    """Trials of a small contextual problem, its model, and its posterior by hand.

    Attributes:
        kind: The kernel, one of ``KINDS``.
        parameters: The number of parameters; the first context column stands before
            them if there is one, between them if there are two. Others come last.
        model_class: The class of the model.
        elements: Which problems make the batch: they differ in data and
            hyperparameters. One number for a model without a batch.
        n: The number of trials.
        constant: The prior mean.
        guess_rate: The guess rate.
        normalized: Whether trials live in a box other than the unit cube, and the model
            normalizes them.
        contexts: The number of context columns, unless the kind is ``none``.
    """

    kind: str = "multiplicative"
    parameters: int = 1
    model_class: ModelClass = BinaryLaplaceGP
    elements: int | Sequence[Any] = 0
    n: int = 6
    constant: float = 0.0
    guess_rate: float = 0.0
    normalized: bool = False
    contexts: int = 1

    @property
    def context_dims(self) -> list[int]:
        if self.kind == "none":
            return []
        last = range(self.parameters + 1, self.parameters + self.contexts)
        return [self.parameters // 2, *last]

    @property
    def parameter_dims(self) -> list[int]:
        return [i for i in range(self.dim) if i not in self.context_dims]

    @property
    def dim(self) -> int:
        return self.parameters + len(self.context_dims)

    @property
    def rows_per_trial(self) -> int:
        return 1 if self.model_class is BinaryLaplaceGP else 2

    @property
    def bounds(self) -> Tensor:
        unit = double([[0.0] * self.dim, [1.0] * self.dim])
        return 3 * unit - 1 if self.normalized else unit

    @property
    def space(self) -> ContextSpace:
        contexts = self.context_dims
        reference = self.bounds[0, contexts] * 0.2 + self.bounds[1, contexts] * 0.8
        return ContextSpace(self.bounds, contexts, reference)

    # ------------------------------------------------------------------------ trials

    def trials_like(self, unit: Tensor) -> Tensor:
        """Trials ``... x q x d`` in the box; the two sides of duels share contexts."""
        contexts = self.context_dims
        unit = unit.clone()
        unit[..., contexts] = unit[..., :1, contexts]
        return self.bounds[0] + (self.bounds[1] - self.bounds[0]) * unit

    def candidates(self, *shape: int, seed: int = 3) -> Tensor:
        """Random candidates, ``shape x q x d``."""
        unit = uniform(*shape, self.rows_per_trial, self.dim, seed=seed)
        return self.trials_like(unit)

    def element_trials(self, element: int) -> tuple[Tensor, Tensor]:
        """The trials ``n x q x d`` and labels ``n x 1`` of one element."""
        X, Y = random_trials(self.model_class, self.n, self.dim, seed=element)
        X = X.unsqueeze(-2) if self.rows_per_trial == 1 else X
        return self.trials_like(X), Y

    def element(self, index: tuple[int, ...]) -> Problem:
        """One element of the batch."""
        return replace(self, elements=int(torch.tensor(self.elements)[index]))

    # ------------------------------------------------------------------------- model

    @property
    def kernel(self) -> Kernel:
        elements = torch.tensor(self.elements, dtype=torch.double)
        batch_shape, columns = elements.shape, self.parameter_dims
        lengthscale = torch.stack([0.3 + 0.1 * elements, 0.5 + 0.1 * elements], dim=-1)
        rbf = RBFKernel(
            ard_num_dims=self.parameters,
            batch_shape=batch_shape,
            active_dims=tuple(columns) if self.kind == "product" else None,
        )
        base = ScaleKernel(rbf, batch_shape=batch_shape).double()
        rbf.lengthscale = lengthscale[..., None, : self.parameters]
        base.outputscale = 2.0 + 0.5 * elements
        if self.kind == "multiplicative":
            return MultiplicativeContextKernel(base, self.context_dims)
        if self.kind == "additive":
            additive = AdditiveContextKernel(base, self.context_dims)
            additive.context_variance = 1.5 + elements
            return additive
        if self.kind == "product":
            columns = tuple(self.context_dims)
            context = RBFKernel(batch_shape=batch_shape, active_dims=columns)
            context.double().lengthscale = 0.6 + 0.1 * elements[..., None, None]
            return context * base
        return base

    @cached_property
    def model(self) -> AnyModel:
        data = [
            self.element_trials(int(i)) for i in torch.tensor(self.elements).view(-1)
        ]
        X, Y = (torch.stack(part) for part in zip(*data, strict=True))
        batch_shape = torch.tensor(self.elements).shape
        X, Y = (part.reshape(*batch_shape, *part.shape[1:]) for part in (X, Y))
        mean_module = ConstantMean().double()
        mean_module.constant = double(self.constant)
        kwargs: dict[str, Any] = {
            "covar_module": self.kernel,
            "mean_module": mean_module,
            "likelihood": self.likelihood,
            "input_transform": (
                Normalize(self.dim, bounds=self.bounds) if self.normalized else None
            ),
        }
        X = X.squeeze(-2) if self.rows_per_trial == 1 else X
        return self.model_class(X, Y, **kwargs)

    @property
    def likelihood(self) -> ProbitLikelihood:
        if self.model_class is PreferenceLaplaceGP:
            return PreferenceLikelihood()
        return ProbitLikelihood(guess_rate=self.guess_rate)

    # ----------------------------------------------------------------------- by hand

    def kernel_by_hand(self, first: Array, second: Array) -> Array:
        """The kernel of a single element, as a formula."""
        assert isinstance(self.elements, int)
        low, high = self.bounds.numpy()
        first, second = ((rows - low) / (high - low) for rows in (first, second))
        i, columns = self.elements, self.parameter_dims
        lengthscale = np.array([0.3, 0.5])[: self.parameters] + 0.1 * i
        base = (2.0 + 0.5 * i) * squared_exponential(
            first[:, columns], second[:, columns], lengthscale
        )
        if self.kind == "none":
            return base
        s1, s2 = first[:, self.context_dims], second[:, self.context_dims]
        if self.kind == "multiplicative":
            return s1 @ s2.T * base
        if self.kind == "additive":
            return (1.5 + i) * s1 @ s2.T + base
        return squared_exponential(s1, s2, 0.6 + 0.1 * i) * base

    @cached_property
    def by_hand(self) -> LaplaceByHand:
        assert isinstance(self.elements, int)
        X, Y = self.element_trials(self.elements)
        return LaplaceByHand(
            self.kernel_by_hand,
            X.numpy(),
            Y.squeeze(-1).numpy(),
            self.constant,
            self.guess_rate,
        )

    def at_reference(self, parameters: Array) -> Array:
        """``m x 1 x d`` points in the reference context."""
        points = np.empty((len(parameters), 1, self.dim))
        points[:, 0, self.parameter_dims] = parameters
        points[:, 0, self.context_dims] = self.space.reference_context.numpy()
        return points


# ------------------------------------------------------------------- knowledge gradient


def nested(problem: Problem, **kwargs: Any) -> ContextualBinaryKnowledgeGradient:
    return ContextualBinaryKnowledgeGradient(problem.model, problem.space, **kwargs)


def one_shot(
    problem: Problem, **kwargs: Any
) -> OneShotContextualBinaryKnowledgeGradient:
    return OneShotContextualBinaryKnowledgeGradient(
        problem.model, problem.space, **kwargs
    )


def inner_maximum(problem: Problem, posterior: LaplaceByHand) -> tuple[Array, float]:
    """Of the posterior mean in the reference context."""
    return grid_maximum(
        lambda parameters: posterior.mean(problem.at_reference(parameters)),
        problem.space.parameter_bounds.numpy(),
    )


def knowledge_gradient_by_hand(problem: Problem, trial: Array) -> tuple[float, Array]:
    """The knowledge gradient, and the inner maximizers for a pass and for a fail."""
    by_hand = problem.by_hand
    passed, failed = (inner_maximum(problem, by_hand.given(trial, c)) for c in (1, 0))
    success = by_hand.success(trial[None]).item()
    expected = success * passed[1] + (1 - success) * failed[1]
    value = expected - inner_maximum(problem, by_hand)[1]
    return value, np.stack([passed[0], failed[0]])


# ------------------------------------------------- what every acquisition function does


def assert_close(found: Tensor, expected: Any, atol: float) -> None:
    """A tensor equals another one, or an array, within an absolute tolerance."""
    expected = torch.as_tensor(expected, dtype=found.dtype).detach()
    torch.testing.assert_close(found.detach(), expected, rtol=0, atol=atol)


def optimize(
    acqf: AcquisitionFunction,
    bounds: Tensor,
    q: int = 1,
    raw_samples: int = 64,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """The best candidate and its value, as a user finds them."""
    with manual_seed(0):  # it draws its starts
        candidate, value = optimize_acqf(
            acqf,
            bounds,
            q=q,
            num_restarts=4,
            raw_samples=raw_samples,
            options={"nonnegative": True, "seed": 0},
            **kwargs,
        )
    assert value is not None
    assert candidate.shape == (q, bounds.shape[-1])
    return candidate, value


def assert_takes_t_batches(make: MakeAcquisition, problem: Problem) -> None:
    """Candidates may have any leading dimensions, broadcast with those of the model."""
    acqf = make(problem)
    batch_shape = problem.model.batch_shape
    X = problem.candidates(5, 4, *batch_shape)
    values = acqf(X)
    assert values.shape == X.shape[:-2]
    for index in ((0, 0), (4, 3)):
        alone = acqf(X[index])
        assert alone.shape == (batch_shape or (1,))
        assert_close(values[index], alone.reshape(batch_shape), 1e-9)
    for shape in ((), (1,), (7, *[1] * len(batch_shape))):
        X = problem.candidates(*shape)
        full = torch.broadcast_shapes(shape or (1,), batch_shape)
        expected = acqf(X.expand(*full, *X.shape[-2:]))
        found = acqf(X)
        assert found.shape == full
        assert_close(found, expected, 1e-9)


def assert_batch_equals_loop(
    make: MakeAcquisition, problem: Problem, atol: float = 1e-9
) -> None:
    """Every element of a batch has the value it has on its own."""
    batch_shape = problem.model.batch_shape
    assert len(batch_shape) > 0
    X = problem.candidates(4, *batch_shape)
    values = make(problem)(X)
    for index in np.ndindex(*batch_shape):
        at = (slice(None), *index)
        expected = make(problem.element(index))(X[at])
        assert_close(values[at], expected, atol)


def assert_right_gradient(
    acqf: AcquisitionFunction, X: Tensor, atol: float, step: float = 1e-3
) -> None:
    """Autograd and central differences of sixth order agree.

    A value depends on its own candidate, so that all can be displaced at once.
    """
    q, d = X.shape[-2:]
    units = step * torch.eye(q * d, dtype=X.dtype)
    units = units.reshape(q * d, *[1] * (X.ndim - 2), q, d)
    with torch.no_grad():
        total = sum(
            weight * (acqf(X + k * units) - acqf(X - k * units))
            for k, weight in ((1, 45.0), (2, -9.0), (3, 1.0))
        )
    expected = (torch.as_tensor(total) / (60 * step)).movedim(0, -1).reshape(X.shape)
    assert expected.abs().max() > 1e-3
    X = X.clone().requires_grad_()
    (found,) = torch.autograd.grad(acqf(X).sum(), X)
    assert_close(found, expected, atol)
