r"""
Conditioning of a model on more trials, starting from its present posterior.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Self

import torch
from botorch import settings
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models.model import FantasizeMixin
from botorch.sampling.base import MCSampler
from torch import Tensor

from botorch_binary_context.checks import check_kind
from botorch_binary_context.inference import Start
from botorch_binary_context.likelihoods import OutcomeLikelihood
from botorch_binary_context.models.observations import Observations
from botorch_binary_context.models.trial_model import TrialModel, expand_trials
from botorch_binary_context.models.validation import check_new_trials


class ConditionedModel(TrialModel, FantasizeMixin):
    r"""A model that can be conditioned on further trials.

    The search for the new model's posterior starts at the posterior of this model.
    """

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
                broadcast with the model's batch shape. Or ``Observations`` of one of
                the model's kinds.
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

        The hyperparameters are not copied: both models share them, so do not change
        them in either model.

        Args:
            observations: Trials of one of the model's kinds.

        Returns:
            A new model that also has these trials.
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
        """A new model, given the trials of this one and more trials of one kind."""
        self.eval()
        batch = self._check_more(kind, X, Y)
        model = make()
        more = self._preprocess(kind, X)
        model.train_inputs = self._append(self.train_inputs, more, kind, batch)
        targets = self.train_targets.unsqueeze(-1)
        Y = Y.to(self.train_targets)
        model.train_targets = self._insert(targets, Y, kind, batch).squeeze(-1)
        if self._original_train_inputs is not None:
            original = self._append(self._original_trials, X, kind, batch)
            model._original_trials = tuple(part.detach() for part in original)
        self._prepare_search(model, kind, Y.shape[-2], batch)
        return model

    def _check_more(self, kind: int, X: Tensor, Y: Tensor) -> torch.Size:
        """The batch shape of a model with more trials, if these are well-formed."""
        functional = self.kinds[kind].functional
        trial_shape = torch.Size(
            [functional.num_rows, self._dim][-functional.trial_dim :]
        )
        check_new_trials(X, Y, trial_shape, self.kinds[kind])
        return torch.broadcast_shapes(
            X.shape[: -len(trial_shape) - 1], Y.shape[:-2], self.batch_shape
        )

    def _preprocess(self, kind: int, X: Tensor) -> Tensor:
        """Transform trials of a kind in the same way as the training trials."""
        functional = self.kinds[kind].functional
        rows = functional.rows(X)
        if "input_transform" in self._modules:
            transform: Any = self.input_transform
            rows = transform.preprocess_transform(rows)
        return functional.trials(rows)

    def _append(
        self, parts: tuple[Tensor, ...], more: Tensor, kind: int, batch: torch.Size
    ) -> tuple[Tensor, ...]:
        """Trials of all kinds, with more trials of one kind."""
        extended = list(expand_trials(parts, self.kinds, batch))
        event = self.kinds[kind].functional.trial_dim + 1  # dimensions after the batch
        more = more.expand(batch + more.shape[-event:])
        extended[kind] = torch.cat([extended[kind], more], dim=-event)
        return tuple(extended)

    def _prepare_search(
        self, model: Self, kind: int, count: int, batch: torch.Size
    ) -> None:
        """Let the searches of a model with more trials start at what is known here."""
        start = self._start  # if no posterior was computed yet
        if self._approximation is not None:
            start = self._approximation.start
        if start is not None:
            fresh = start.values.new_zeros(count, start.values.shape[-1])
            values = self._insert(start.values, fresh, kind, batch)
            model._start = Start(values)
            attached = any(trials.requires_grad for trials in model.train_inputs)
            if batch == self.batch_shape and not attached:
                known = self._mark_old(self._everything(), kind, count)
                model._start = Start(values, self._approximation, known)
        if batch == self.batch_shape:
            model._warm_samples = self._keep_samples(kind, count)

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
        """Draws for a model with more trials, and marks of the trials they include."""
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
        """Rows of all trials, with the rows of new trials at the end of their kind."""
        parts = list(values.split(self._counts, dim=-2))
        parts.insert(kind + 1, more)
        return torch.cat([t.expand(batch + t.shape[-2:]) for t in parts], dim=-2)

    def _share_without_data(self) -> Self:
        """A model with the same modules; conditioning sets the data."""
        model = copy(self)
        # So that one of the models can be given another input transform.
        model._modules = dict(self._modules)
        return model
