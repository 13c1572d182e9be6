r"""
The trials of a model, of one or several kinds, and conditioning on more of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from typing import Any, Self

import torch
from botorch import settings
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models.gpytorch import GPyTorchModel
from botorch.models.model import FantasizeMixin
from botorch.models.transforms.input import InputTransform
from botorch.sampling.base import MCSampler
from gpytorch.mlls import MarginalLogLikelihood
from gpytorch.models.gp import GP
from torch import Tensor
from torch.nn import ModuleList

from botorch_binary_context.checks import check_kind
from botorch_binary_context.functionals import Functional, StackedFunctional
from botorch_binary_context.inference import (
    GaussianApproximation,
    Inference,
    Start,
)
from botorch_binary_context.inference.exact import ContrastSamples
from botorch_binary_context.likelihoods import OutcomeLikelihood, StackedLikelihood
from botorch_binary_context.models.fitting import fit
from botorch_binary_context.models.observations import Observations
from botorch_binary_context.models.validation import (
    check_alike,
    check_new_trials,
    check_targets,
)


class TrialModel(GPyTorchModel, GP, FantasizeMixin):
    r"""The part of a model that holds its trials.

    It holds the trials of each kind, before and after the input transform, and what was
    computed from them, which is dropped when they change. Conditioning on further
    trials makes a model that starts from what this one has found.
    """

    train_inputs: tuple[Tensor, ...]
    train_targets: Tensor
    inference: Inference
    likelihoods: ModuleList
    _num_outputs = 1
    _asked: int
    _approximation: GaussianApproximation | None
    _start: Start | None
    # The hyperparameters of the approximation that is there or that began.
    _kept: list[Tensor]
    # Draws from the true posterior, and those of a part of the trials: of which.
    _samples: dict[tuple[int, int], ContrastSamples]
    _warm_samples: dict[tuple[int, int], tuple[Tensor, Tensor]]

    @property
    def likelihood(self) -> OutcomeLikelihood:
        """The likelihood of candidate trials."""
        likelihood = self.likelihoods[self._asked]
        assert isinstance(likelihood, OutcomeLikelihood)
        return likelihood

    @property
    def functional(self) -> Functional:
        """What candidate trials observe."""
        return self.likelihood.functional

    @property
    def kinds(self) -> list[OutcomeLikelihood]:
        """The likelihoods of all kinds of trials."""
        return list(self.likelihoods)  # pyright: ignore[reportReturnType]

    @property
    def _counts(self) -> list[int]:
        """The number of trials of each kind."""
        num_batch = len(self.batch_shape)
        return [trials.shape[num_batch] for trials in self.train_inputs]

    @property
    def trial_likelihood(self) -> StackedLikelihood:
        """The likelihood of all training trials."""
        return StackedLikelihood(list(zip(self.kinds, self._counts, strict=True)))

    @property
    def trial_functional(self) -> StackedFunctional:
        """What the training trials observe of their rows, :attr:`datapoints`."""
        functionals = [likelihood.functional for likelihood in self.kinds]
        return StackedFunctional(list(zip(functionals, self._counts, strict=True)))

    def transform_inputs(
        self, X: Tensor, input_transform: InputTransform | None = None
    ) -> Tensor:
        r"""Apply the input transform, if there is one.

        Args:
            X: A tensor of inputs.
            input_transform: A transform to apply instead of the model's.

        Returns:
            A tensor of transformed inputs.
        """
        if input_transform is None and "input_transform" not in self._modules:
            return X
        return super().transform_inputs(X, input_transform)

    @property
    def batch_shape(self) -> torch.Size:
        r"""The batch shape of the model."""
        return self.train_targets.shape[:-1]

    @property
    def original_datapoints(self) -> Tensor:
        r"""The rows that the training trials show, before any input transform."""
        return self._rows(self._original_trials)

    def trials_by_kind(self) -> list[tuple[Functional, Tensor, Tensor]]:
        r"""The training trials, before any input transform.

        Returns:
            For each kind what it observes, its trials and their labels,
            ``batch_shape x n``.
        """
        functionals = [likelihood.functional for likelihood in self.kinds]
        targets = self.train_targets.split(self._counts, dim=-1)
        return list(zip(functionals, self._original_trials, targets, strict=True))

    def expand_data(self, shape: torch.Size) -> Self:
        r"""The same model with a larger batch of the same trials.

        Args:
            shape: What to put in front of the batch shape.

        Returns:
            A copy of the model with batch shape ``shape x batch_shape``.
        """
        self.eval()
        model = self._copy_without_data()
        batch = shape + self.batch_shape
        model.train_inputs = tuple(_expand(self.train_inputs, self.kinds, batch))
        model.train_targets = self.train_targets.expand(
            batch + self.train_targets.shape[-1:]
        )
        if self._original_train_inputs is not None:
            original = _expand(self._original_trials, self.kinds, batch)
            model._original_trials = tuple(original)
        model._drop_cache()
        return model

    def _rows(self, trials: Sequence[Tensor]) -> Tensor:
        """The rows that trials of all kinds show, ``batch_shape x m x d``."""
        rows = [
            likelihood.functional.rows(part)
            for likelihood, part in zip(self.kinds, trials, strict=True)
        ]
        return rows[0] if len(rows) == 1 else torch.cat(rows, dim=-2)

    @property
    def _original_trials(self) -> tuple[Tensor, ...]:
        """The trials of each kind, before any input transform."""
        original = self._original_train_inputs
        if original is None:
            return self.train_inputs
        return (original,) if isinstance(original, Tensor) else original

    @_original_trials.setter
    def _original_trials(self, trials: tuple[Tensor, ...]) -> None:
        # BoTorch knows one tensor of inputs.
        original: Any = trials[0] if len(trials) == 1 else trials
        self._original_train_inputs = original

    @property
    def datapoints(self) -> Tensor:
        r"""The rows that the training trials show, ``batch_shape x m x d``.

        Named as in ``botorch.models.PairwiseGP``.
        """
        return self._rows(self.train_inputs)

    @property
    def _dim(self) -> int:
        """The number of columns of a trial, before any transform."""
        return self._original_trials[0].shape[-1]

    def with_inference(self, inference: Inference) -> Self:
        r"""The same model, with the posterior approximated in another way.

        Args:
            inference: How to approximate it.

        Returns:
            A copy of the model.
        """
        model = self._copy_without_data()
        model.train_inputs = self.train_inputs
        model.train_targets = self.train_targets
        model._original_train_inputs = self._original_train_inputs
        model.inference = inference
        model._drop_cache()
        return model

    def custom_fit(
        self, mll: MarginalLogLikelihood, **kwargs: Any
    ) -> MarginalLogLikelihood:
        r"""What ``fit_gpytorch_mll`` calls.

        Args:
            mll: A marginal likelihood of this model.
            kwargs: The arguments of ``fit_gpytorch_mll``.

        Returns:
            The marginal likelihood, in ``eval`` mode.
        """
        return fit(mll, **kwargs)

    def fantasize(
        self,
        X: Tensor,
        sampler: MCSampler,
        observation_noise: Tensor | None = None,
        **kwargs: Any,
    ) -> Self:
        r"""Condition the model on sampled outcomes of trials.

        Args:
            X: The rows of trials, ``batch_shape x (n' q) x d``; a ``q = 2`` batch is
                one duel.
            sampler: Draws the labels.
            observation_noise: Not used, as in ``FantasizeMixin`` for models without a
                noise variance.
            kwargs: ``propagate_grads``, whether the posterior that the labels are drawn
                from carries gradients of the hyperparameters.

        Returns:
            The fantasy model, ``num_fantasies x batch_shape``.
        """
        if self.functional.num_rows == 1:
            return super().fantasize(X, sampler, observation_noise, **kwargs)
        with settings.propagate_grads(kwargs.pop("propagate_grads", False)):
            posterior = self.posterior(X, observation_noise=True)
        trials = self.functional.trials(X)
        return self.condition_on_observations(trials, sampler(posterior), **kwargs)

    def condition_on_observations(
        self, X: Tensor | Observations, Y: Tensor | None = None, **kwargs: Any
    ) -> Self:
        r"""The same model, with the same hyperparameters, given more trials.

        The search for the new approximation starts at the present one. The posterior of
        the new model is differentiable in ``X``.

        Args:
            X: Trials in the form of ``train_X``, ``n'`` of them; their batch shape is
                broadcast with that of the model. Or ``Observations`` of one of the
                model's kinds.
            Y: Labels, ``batch_shape x n' x 1``; may have further leading dimensions.
            kwargs: Not used.

        Returns:
            A new model; this one is unchanged.
        """
        if isinstance(X, Observations):
            kind = self._find_kind(X.likelihood)
            return self._extend(self._copy_without_data, kind, X.X, X.Y)
        check_kind("X", X, Tensor)
        if Y is None:
            raise InputDataError("Expected ``Y`` to hold labels, but got None.")
        check_kind("Y", Y, Tensor)
        return self._extend(self._copy_without_data, self._asked, X, Y)

    def grow(self, observations: Observations) -> Self:
        r"""The same as :meth:`condition_on_observations`, at less cost.

        The hyperparameters are not copied: both models have the same, and neither is to
        be changed.

        Args:
            observations: Trials of one of the model's kinds.

        Returns:
            A new model.
        """
        kind = self._find_kind(observations.likelihood)
        more = observations.X, observations.Y
        return self._extend(self._share_without_data, kind, *more)

    def _find_kind(self, likelihood: OutcomeLikelihood) -> int:
        """The kind of trials that a likelihood belongs to."""
        for kind, known in enumerate(self.kinds):
            if known is likelihood or known.is_like(likelihood):
                return kind
        names = ", ".join(type(known).__name__ for known in self.kinds)
        raise UnsupportedError(
            "Expected the likelihood of ``X`` to be one of the model's, "
            f"{names} with their rates, but got another "
            f"{type(likelihood).__name__}."
        )

    def _extend(
        self, make: Callable[[], Self], kind: int, X: Tensor, Y: Tensor
    ) -> Self:
        """A model without data, given the trials of this one and more of a kind."""
        self.eval()
        functional = self.kinds[kind].functional
        trial_shape = torch.Size(
            [functional.num_rows, self._dim][-functional.trial_dim :]
        )
        check_new_trials(X, Y, trial_shape, self.kinds[kind])
        batch = torch.broadcast_shapes(
            X.shape[: -len(trial_shape) - 1], Y.shape[:-2], self.batch_shape
        )

        def extend(parts: tuple[Tensor, ...], more: Tensor) -> tuple[Tensor, ...]:
            """Trials of all kinds, with more of the one kind."""
            extended = list(_expand(parts, self.kinds, batch))
            event = functional.trial_dim + 1  # the dimensions beside the batch
            more = more.expand(batch + more.shape[-event:])
            extended[kind] = torch.cat([extended[kind], more], dim=-event)
            return tuple(extended)

        model = make()
        rows = functional.trials(self._preprocess(functional.rows(X)))
        model.train_inputs = extend(self.train_inputs, rows)
        targets = self.train_targets.unsqueeze(-1)
        Y = Y.to(self.train_targets)
        model.train_targets = self._insert(targets, Y, kind, batch).squeeze(-1)
        if self._original_train_inputs is not None:
            original = extend(self._original_trials, X)
            model._original_trials = tuple(part.detach() for part in original)
        start = self._start  # if this model was not asked anything
        if self._approximation is not None:
            start = self._approximation.start
        if start is not None:
            fresh = start.values.new_zeros(Y.shape[-2], start.values.shape[-1])
            values = self._insert(start.values, fresh, kind, batch)
            model._start = Start(values)
            attached = any(trials.requires_grad for trials in model.train_inputs)
            if batch == self.batch_shape and not attached:
                known = self._mark_old(self._everything(), kind, Y.shape[-2])
                model._start = Start(values, self._approximation, known)
        if batch == self.batch_shape:
            model._warm_samples = self._keep_samples(kind, Y.shape[-2])
        return model

    def _preprocess(self, rows: Tensor) -> Tensor:
        """Transform rows as those of the training trials are."""
        if "input_transform" not in self._modules:
            return rows
        transform: Any = self.input_transform
        return transform.preprocess_transform(rows)

    def _everything(self) -> Tensor:
        """All trials, marked."""
        number = self.train_targets.shape[-1]
        device = self.train_targets.device
        return torch.ones(number, dtype=torch.bool, device=device)

    def _mark_old(self, known: Tensor, kind: int, count: int) -> Tensor:
        """The same marks, with new trials at the end of their kind unmarked."""
        end = sum(self._counts[: kind + 1])
        return torch.cat([known[:end], known.new_zeros(count), known[end:]])

    def _keep_samples(
        self, kind: int, count: int
    ) -> dict[tuple[int, int], tuple[Tensor, Tensor]]:
        """Draws for a model with more trials, and which of its trials they know."""
        draws = dict(self._warm_samples)
        for key, samples in self._samples.items():
            draws[key] = self._everything(), samples.values
        return {
            key: (self._mark_old(known, kind, count), values)
            for key, (known, values) in draws.items()
        }

    def _insert(
        self, values: Tensor, more: Tensor, kind: int, batch: torch.Size
    ) -> Tensor:
        """Rows of all trials, with those of more trials at the end of their kind."""
        parts = list(values.split(self._counts, dim=-2))
        parts.insert(kind + 1, more)
        return torch.cat([t.expand(batch + t.shape[-2:]) for t in parts], dim=-2)

    def _copy_without_data(self) -> Self:
        """A copy of the hyperparameters; conditioning sets the data."""
        data = self.train_inputs, self.train_targets, self._original_train_inputs
        self.train_inputs, self.train_targets = (), None  # pyright: ignore
        self._original_train_inputs = None
        try:
            model = deepcopy(self)
        finally:
            self.train_inputs, self.train_targets, self._original_train_inputs = data
        return model

    def _share_without_data(self) -> Self:
        """A model with the same modules; conditioning sets the data."""
        model = copy(self)
        # So that one of the models can be given another input transform.
        model._modules = dict(self._modules)
        return model

    def set_train_data(
        self,
        inputs: Tensor | Sequence[Tensor] | None = None,
        targets: Tensor | None = None,
        strict: bool = True,
    ) -> None:
        r"""Replace the training data; hyperparameters stay as they are.

        Args:
            inputs: The new trials, in the form of ``train_X``, of each kind.
            targets: Their labels, ``batch_shape x n``.
            strict: Whether shape, dtype and device must stay the same.
        """
        if inputs is not None:
            trials = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
            if strict:
                for new, old in zip(trials, self.train_inputs, strict=True):
                    check_alike("inputs", new, old)
            self.train_inputs = trials
        if targets is not None:
            check_targets(targets, self.train_inputs, self.kinds)
            if strict:
                check_alike("targets", targets, self.train_targets)
            self.train_targets = targets
        self._drop_cache()

    def _transform_trials(
        self,
        trials: Sequence[Tensor],
        transform: Callable[[Tensor], Tensor] | None = None,
    ) -> tuple[Tensor, ...]:
        """Transform the rows of trials of all kinds at once."""
        if transform is None:
            if "input_transform" not in self._modules:
                return tuple(trials)
            transform = self.transform_inputs
        functionals = [likelihood.functional for likelihood in self.kinds]
        sizes = [
            functional.num_rows * count
            for functional, count in zip(functionals, self._counts, strict=True)
        ]
        rows = transform(self._rows(trials)).split(sizes, dim=-2)
        return tuple(
            functional.trials(part)
            for functional, part in zip(functionals, rows, strict=True)
        )

    def _set_transformed_inputs(self) -> None:
        if hasattr(self, "input_transform") and not self._has_transformed_inputs:
            trials = self.train_inputs
            transform: Any = self.input_transform
            with torch.no_grad():
                transformed = self._transform_trials(
                    trials, transform.preprocess_transform
                )
            self.set_train_data(transformed, strict=False)
            self._original_trials = trials
            self._has_transformed_inputs = True

    def _drop_cache(self) -> None:
        self._approximation = None
        self._start = None
        self._samples = {}
        self._warm_samples = {}

    def train(self, mode: bool = True) -> Self:
        r"""Switch between ``train`` and ``eval`` mode; a switch drops the cache.

        Args:
            mode: Whether to train.
        """
        if mode or self.training:
            self._drop_cache()
        return super().train(mode=mode)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        self._drop_cache()
        self.train_inputs = tuple(fn(t) for t in self.train_inputs)  # pyright: ignore
        self.train_targets = fn(self.train_targets)
        if self._original_train_inputs is not None:
            self._original_trials = tuple(fn(t) for t in self._original_trials)
        return super()._apply(fn, recurse)

    def __getstate__(self) -> Mapping[str, Any]:
        # Copies and pickles hold the data without a graph, and no cache.
        inputs = tuple(t.detach() if t.grad_fn else t for t in self.train_inputs)
        nothing = {
            "_approximation": None,
            "_start": None if self._start is None else Start(self._start.values),
            "_samples": {},
            "_warm_samples": {},
        }
        return {**self.__dict__, **nothing, "train_inputs": inputs}


def _expand(
    parts: tuple[Tensor, ...], kinds: list[OutcomeLikelihood], batch: torch.Size
) -> list[Tensor]:
    """Trials of all kinds with a larger batch shape."""
    events = [likelihood.functional.trial_dim + 1 for likelihood in kinds]
    return [
        part.expand(batch + part.shape[-event:])
        for part, event in zip(parts, events, strict=True)
    ]


def renew(model: TrialModel, incompatible_keys: Any) -> None:
    r"""Drop what was computed before a state was loaded.

    Args:
        model: The model.
        incompatible_keys: Not used.
    """
    model._drop_cache()
    if model._has_transformed_inputs:
        model._revert_to_original_inputs()
        model._set_transformed_inputs()
