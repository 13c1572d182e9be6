r"""
The model of the answers so far: its kernel, its data, its hyperparameters.

Models are functions of data and hyperparameters alone, and hyperparameters learned from
some answers are a function of these answers alone. So an experiment that was closed and
opened again continues as if nothing had happened.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from botorch.exceptions import InputDataError
from botorch.exceptions.errors import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import ChainedInputTransform, InputTransform
from botorch.utils.sampling import manual_seed
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from gpytorch.means import Mean, ZeroMean
from gpytorch.priors import LogNormalPrior
from torch import Tensor
from torch.nn import ModuleDict

from botorch_binary_context.errors import quote
from botorch_binary_context.experiment.settings import INFERENCES, Settings
from botorch_binary_context.experiment.space import Encoder, Snap
from botorch_binary_context.experiment.trial import Trial
from botorch_binary_context.kernels import (
    AdditiveContextKernel,
    MultiplicativeContextKernel,
)
from botorch_binary_context.means import LinearContextMean
from botorch_binary_context.models.defaults import (
    OUTPUTSCALE,
    binary_covar_module,
    default_covar_module,
    psychometric_covar_module,
    scale_covar_module,
)
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.models.mixed_gp import MixedGP
from botorch_binary_context.models.mll import ApproximateMarginalLogLikelihood
from botorch_binary_context.models.observations import Observations
from botorch_binary_context.models.psychometric import SLOPE, SLOPE_SPREAD

#: Hyperparameters by their names.
Hyperparameters = Mapping[str, float | Sequence[float]]

MIN_FIT = 5
# Of fixed hyperparameters, in the units of the box.
MIN_HYPERPARAMETER = 1e-6
MAX_HYPERPARAMETER = 1e6


def last_scheduled_fit(num_answers: int, first: int) -> int | None:
    r"""When hyperparameters were last to be learned, if ever.

    They are learned anew whenever the number of answers has grown by a tenth.

    Args:
        num_answers: The number of answers now.
        first: The number of answers at which to learn first; at least five are used.

    Returns:
        The number of answers to learn from, or None if there are too few.
    """
    due, following = None, max(first, MIN_FIT)
    while following <= num_answers:
        due, following = following, following + -(-following // 10)
    return due


def product_covar_module(dim: int, num_contexts: int) -> ScaleKernel:
    r"""``k₁(s,s') k₂(x,x')``, with priors for contexts in [-1, 1] and the unit cube.

    A peak may be as narrow as a quarter of the box, and what is best may change along
    the range of a context, but slowly.

    Args:
        dim: The number of columns of a trial.
        num_contexts: How many of them, the first, are context.

    Returns:
        The kernel.
    """
    num_parameters = dim - num_contexts
    width = 0.25 * math.sqrt(max(num_parameters, 2) / 2)
    contexts, parameters = range(num_contexts), range(num_contexts, dim)
    product = _smooth(contexts, 1.0) * _smooth(parameters, width)
    return scale_covar_module(product, OUTPUTSCALE)


def _smooth(columns: Sequence[int], width: float) -> RBFKernel:
    """A squared exponential kernel of some columns, about as wide as given."""
    kernel = RBFKernel(
        active_dims=tuple(columns),
        ard_num_dims=len(columns),
        lengthscale_prior=LogNormalPrior(math.log(width), 0.5),
        lengthscale_constraint=GreaterThan(0.025),
    )
    kernel.lengthscale = torch.full_like(kernel.lengthscale, width)
    return kernel


class Surrogate:
    r"""Makes models of answers, and learns their hyperparameters."""

    def __init__(self, settings: Settings) -> None:
        r"""
        Args:
            settings: What the experiment is.
        """
        self.settings = settings
        self.encoder: Encoder = settings.encoder()
        self._encoded: dict[int, tuple[Trial, Tensor]] = {}
        self._check_fixed()

    def rows(self, trials: Sequence[Trial]) -> Tensor:
        r"""Trials in the form that models take.

        Args:
            trials: The trials.

        Returns:
            A ``n x d`` tensor, or ``n x 2 x d`` for duels.
        """
        functional = self.settings.feedback.functional
        shape = 0, functional.num_rows, self.encoder.context_space.dim
        empty = torch.zeros(shape, dtype=torch.float64, device="cpu")
        X = torch.cat([empty, *(self._encode(trial) for trial in trials)])
        return functional.trials(X.flatten(0, 1))

    def _encode(self, trial: Trial) -> Tensor:
        """The rows of a trial, which do not change often, from the last time."""
        last, rows = self._encoded.get(trial.id, (None, None))
        is_same = last is trial or (
            last is not None
            and (last.context, last.sides) == (trial.context, trial.sides)
        )
        if rows is None or not is_same:
            rows = self.encoder.encode(trial.context, trial.sides)[None]
        self._encoded[trial.id] = (trial, rows)
        return rows

    def model(
        self, trials: Sequence[Trial], learned: Hyperparameters, levels: bool
    ) -> LatentGP:
        r"""The model of answers.

        Args:
            trials: Answered trials.
            learned: The hyperparameters that are not fixed; what is missing is as the
                prior has it.
            levels: Whether the model knows only the levels of contexts, to choose one.

        Returns:
            The model, in ``eval`` mode.
        """
        prior = self._prior()
        self._set(prior, learned)
        self._set(prior, self.settings.hyperparameters)
        X = self.rows(trials)
        Y = X.new_tensor([[t.outcome] for t in trials]).reshape(-1, 1)
        kernel: Any = prior["covariance"]
        mean: Any = prior["mean"]
        model = MixedGP(
            [Observations(X, Y, self.settings.feedback.likelihood())],
            covar_module=kernel,
            mean_module=mean,
            input_transform=self._coordinates(levels),
            inference=INFERENCES[self.settings.inference](),
        )
        return model.eval()

    def _coordinates(self, levels: bool) -> InputTransform | None:
        """To values that exist, if not all do, and then to combinations, if any."""
        snap = None if self.encoder.is_continuous else Snap(self.encoder, levels)
        combine = self.settings.coordinates()
        if snap is None or combine is None:
            return combine if snap is None else snap
        return ChainedInputTransform(snap=snap, combine=combine)

    def fit(self, trials: Sequence[Trial]) -> dict[str, float | Sequence[float]] | None:
        r"""Learn the hyperparameters that are not fixed.

        The search begins at the prior, whatever was learned before.

        Args:
            trials: Answered trials.

        Returns:
            The hyperparameters by their names; None, with a warning, if the fit fails.
        """
        model = self.model(trials, {}, levels=False)
        prior = ModuleDict(
            {"covariance": model.covar_module, "mean": model.mean_module}
        )
        handles = {
            name: (module, attribute)
            for name, (module, attribute) in self._handles(prior).items()
            if getattr(module, f"raw_{attribute}").requires_grad
            and name not in self.settings.hyperparameters
        }
        learn = [getattr(module, f"raw_{name}") for module, name in handles.values()]
        for parameter in model.parameters():
            parameter.requires_grad_(any(parameter is p for p in learn))
        if learn and not self._maximize_evidence(model):
            return None
        return {
            name: getattr(module, attribute).detach().flatten().tolist()
            for name, (module, attribute) in handles.items()
        }

    def _maximize_evidence(self, model: LatentGP) -> bool:
        """Whether the fit succeeded; a warning if not."""
        mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
        try:
            with manual_seed(0):  # of further attempts, should the first one fail
                fit_gpytorch_mll(mll)
        except (ModelFittingError, RuntimeError) as error:
            warnings.warn(
                f"The hyperparameters could not be learned from "
                f"{model.train_targets.shape[-1]} answers and stay as they were: "
                f"{error}",
                RuntimeWarning,
                stacklevel=2,
            )
            return False
        return True

    def with_pending(self, model: LatentGP, pending: Sequence[Trial]) -> LatentGP:
        r"""The model as if pending trials had come out as is to be expected.

        A trial is taken to be passed where the posterior mean of its latent contrast is
        positive, to be failed elsewhere. So what the pending trials will teach is not
        asked again.

        Args:
            model: The model of the answers.
            pending: The pending trials.

        Returns:
            The model of the answers and the expected outcomes.
        """
        if not pending:
            return model
        X = self.rows(pending)
        rows = X.flatten(0, -2)
        with torch.no_grad():
            mean = model.posterior_mean(rows.unsqueeze(-2)).squeeze(-1)
            contrast = model.functional(mean)
        return model.condition_on_observations(X, (contrast > 0).to(X).unsqueeze(-1))

    def _prior(self) -> ModuleDict:
        """The kernel and the mean, at their priors."""
        dim, m = self.encoder.context_space.dim, self.encoder.num_contexts
        single = torch.Size()
        mean: Mean = ZeroMean()
        if m == 0:
            sees_level = self.settings.feedback.functional.sees_level
            make = binary_covar_module if sees_level else default_covar_module
            kernel: Kernel = make(dim, single)
        elif self.settings.kernel == "product":
            kernel = product_covar_module(dim, m)
        else:
            kernel = psychometric_covar_module(dim, range(m), single)
            if self.settings.kernel == "multiplicative":
                kernel = MultiplicativeContextKernel(kernel.base_kernel, range(m))
            else:
                mean = self._context_mean(kernel)
        prior = ModuleDict({"covariance": kernel, "mean": mean})
        return prior.to(dtype=torch.float64)

    def _context_mean(self, kernel: AdditiveContextKernel) -> Mean:
        """The slopes of contexts that are known to make tests easier or harder."""
        contexts = self.settings.space.contexts
        known = [i for i, c in enumerate(contexts) if c.harder is not None]
        if len(known) < len(contexts):
            # Of the others the kernel alone has to allow for slopes of either sign.
            kernel.context_variance = kernel.context_variance.detach() + SLOPE**2
        if not known:
            return ZeroMean()
        prior = LogNormalPrior(math.log(SLOPE), SLOPE_SPREAD)
        return LinearContextMean(known, SLOPE, prior)

    def _handles(self, prior: ModuleDict) -> dict[str, tuple[Any, str]]:
        """Where the hyperparameters are: a module and an attribute for each name."""
        contexts = list(range(self.encoder.num_contexts))
        handles = {}
        for path, _ in prior.named_parameters():
            parent, _, raw = path.rpartition(".")
            module: Any = prior.get_submodule(parent)
            attribute = raw.removeprefix("raw_")
            columns = getattr(module, "active_dims", None)
            of_context = columns is not None and columns.tolist() == contexts
            name = f"context_{attribute}" if of_context else attribute
            handles[name] = (module, attribute)
        return handles

    def _check_fixed(self) -> None:
        """Find a mistake in the fixed hyperparameters at once."""
        handles = self._handles(self._prior())
        for name, value in self.settings.hyperparameters.items():
            if name not in handles:
                raise InputDataError(
                    "Expected ``hyperparameters`` to have the names "
                    f"{', '.join(handles)}, but got {quote(name)}."
                )
            module, attribute = handles[name]
            shape = getattr(module, attribute).shape
            constraint = getattr(module, f"raw_{attribute}_constraint")
            low = max(float(constraint.lower_bound), MIN_HYPERPARAMETER)
            numbers = _parse_numbers(value, shape)
            if numbers is None or not _is_within(numbers, low):
                raise InputDataError(
                    f"Expected ``hyperparameters`` to give {name!r} one or "
                    f"{math.prod(shape)} positive numbers, but got {quote(value)}; "
                    f"they are above {low:g} and at most {MAX_HYPERPARAMETER:g}."
                )

    def _set(self, prior: ModuleDict, values: Hyperparameters) -> None:
        handles = self._handles(prior)
        for name, value in values.items():
            module, attribute = handles[name]
            numbers = _parse_numbers(value, getattr(module, attribute).shape)
            setattr(module, attribute, numbers)


def _parse_numbers(value: Any, shape: torch.Size) -> Tensor | None:
    """One number, or one for each element of a shape; None if it is neither."""
    try:
        numbers = torch.tensor(value, dtype=torch.float64, device="cpu")
        if numbers.numel() == 1:
            return numbers.reshape(()).expand(shape)
        return numbers.reshape(shape)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def _is_within(numbers: Tensor, low: float) -> bool:
    return bool(((numbers > low) & (numbers <= MAX_HYPERPARAMETER)).all())
