r"""
The trials of a model, of one or several kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Self

import torch
from botorch.models.gpytorch import GPyTorchModel
from botorch.models.transforms.input import InputTransform
from gpytorch.mlls import MarginalLogLikelihood
from gpytorch.models.gp import GP
from torch import Tensor
from torch.nn import ModuleList

from botorch_binary_context.functionals import Functional, StackedFunctional
from botorch_binary_context.inference import (
    GaussianApproximation,
    Inference,
    Start,
)
from botorch_binary_context.inference.exact import ContrastSamples
from botorch_binary_context.likelihoods import OutcomeLikelihood, StackedLikelihood
from botorch_binary_context.models.fitting import fit
from botorch_binary_context.models.validation import (
    check_alike,
    check_targets,
)


class TrialModel(GPyTorchModel, GP):
    r"""The part of a model that holds its trials.

    It holds the trials of each kind, before and after the input transform, and what was
    computed from them, which is dropped when they change.
    """

    train_inputs: tuple[Tensor, ...]
    train_targets: Tensor
    inference: Inference
    likelihoods: ModuleList
    _num_outputs = 1
    _asked: int
    _approximation: GaussianApproximation | None
    _start: Start | None
    # The hyperparameters at which the present or the former approximation was computed.
    _kept: list[Tensor]
    # Draws from the true posterior; and draws to start from, with marks of the trials
    # that they include.
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
            shape: The dimensions to put in front of the batch shape.

        Returns:
            A copy of the model with batch shape ``shape x batch_shape``.
        """
        self.eval()
        model = self._copy_without_data()
        batch = shape + self.batch_shape
        model.train_inputs = tuple(expand_trials(self.train_inputs, self.kinds, batch))
        model.train_targets = self.train_targets.expand(
            batch + self.train_targets.shape[-1:]
        )
        if self._original_train_inputs is not None:
            original = expand_trials(self._original_trials, self.kinds, batch)
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
        # BoTorch expects one tensor of inputs.
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
        r"""Learn the hyperparameters; ``fit_gpytorch_mll`` calls this.

        Args:
            mll: A marginal likelihood of this model.
            kwargs: The arguments of ``fit_gpytorch_mll``.

        Returns:
            The marginal likelihood, in ``eval`` mode.
        """
        return fit(mll, **kwargs)

    def _copy_without_data(self) -> Self:
        """A copy with the hyperparameters but without data."""
        data = self.train_inputs, self.train_targets, self._original_train_inputs
        self.train_inputs = ()
        self.train_targets = None  # pyright: ignore
        self._original_train_inputs = None
        try:
            model = deepcopy(self)
        finally:
            self.train_inputs, self.train_targets, self._original_train_inputs = data
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


def expand_trials(
    parts: tuple[Tensor, ...], kinds: list[OutcomeLikelihood], batch: torch.Size
) -> list[Tensor]:
    r"""Trials of all kinds with a larger batch shape.

    Args:
        parts: The trials of each kind.
        kinds: Their likelihoods.
        batch: The batch shape.

    Returns:
        The trials of each kind.
    """
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
