r"""
The columns of trials as Ax's adapters pass them, and how models see them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from ax.core.search_space import SearchSpaceDigest
from botorch.exceptions import InputDataError
from botorch.models.transforms.input import InputTransform
from torch import Tensor
from torch.nn.functional import one_hot

from botorch_binary_context.context import ContextSpace
from botorch_binary_context.experiment import Categorical, Context, NamedSpace, Real


@dataclass(frozen=True)
class TrialColumns:
    r"""The columns of trials in the units of Ax's transformed search space.

    Attributes:
        digest: The description of the columns by Ax's adapter.
        contexts: The names of the context columns.
    """

    digest: SearchSpaceDigest
    contexts: Sequence[str]

    def __post_init__(self) -> None:
        missing = [n for n in self.contexts if n not in self.digest.feature_names]
        if missing:
            raise InputDataError(
                "Expected ``contexts`` to name parameters of the search space, "
                f"{list(self.digest.feature_names)}, but got {missing}."
            )

    @cached_property
    def context_dims(self) -> list[int]:
        """The context columns, in the order of the names."""
        return [self.digest.feature_names.index(name) for name in self.contexts]

    @cached_property
    def categories(self) -> dict[int, list[float]]:
        """The values of each categorical column."""
        choices = self.digest.discrete_choices
        return {
            i: [float(value) for value in choices[i]]
            for i in self.digest.categorical_features
        }

    @cached_property
    def numbers(self) -> list[int]:
        """The columns of parameters that are numbers."""
        others = {*self.context_dims, *self.categories}
        return [i for i in range(len(self.digest.bounds)) if i not in others]

    @property
    def bounds(self) -> Tensor:
        """The ``2 x d`` box, in double precision."""
        return torch.tensor(self.digest.bounds, dtype=torch.double, device="cpu").T

    def space(self, reference: Mapping[str, float] | None = None) -> ContextSpace:
        r"""The box of the trials.

        Args:
            reference: The reference value of each context, in the units of the columns;
                by default the middle of its range.
        """
        bounds = self.bounds
        dims = sorted(self.context_dims)
        names = [self.digest.feature_names[i] for i in dims]
        middle = bounds.mean(dim=0)[dims].tolist()
        values = middle if reference is None else [reference[n] for n in names]
        return ContextSpace(bounds, dims, values)

    def named_space(self, harder: Sequence[str]) -> NamedSpace:
        r"""Contexts, numbers and categories, in this order, with their names.

        Args:
            harder: "up" or "down" for each context: which way tests become harder.

        Returns:
            The names and ranges.
        """
        low, high = self.bounds.tolist()
        names = self.digest.feature_names
        return NamedSpace(
            [Real(names[i], low[i], high[i]) for i in self.numbers]
            + [Categorical(names[i], values) for i, values in self.categories.items()],
            [
                Context(
                    names[i],
                    reference=(low[i] + high[i]) / 2,
                    low=low[i],
                    high=high[i],
                    harder=way,
                )
                for i, way in zip(self.context_dims, harder, strict=True)
            ],
        )


class EncodeColumns(InputTransform):
    r"""Takes contexts to [-1, 1], numbers to [0, 1] and categories to one-hot columns.

    The columns are the contexts, the numbers and then the categories, as the kernels of
    experiments take them. If contexts are centered, tests become easier as their
    columns rise.
    """

    offset: Tensor
    scale: Tensor

    def __init__(
        self, columns: TrialColumns, harder: Sequence[str], centered: bool = True
    ) -> None:
        r"""
        Args:
            columns: The columns of the trials.
            harder: "up" or "down" for each context: which way tests become harder.
            centered: Whether the middle of a context is mapped to zero. Otherwise zero,
                where a multiplicative context tells nothing, stays zero.
        """
        super().__init__()
        self.transform_on_train = True
        self.transform_on_eval = True
        self.transform_on_fantasize = True
        self.order = [*columns.context_dims, *columns.numbers]
        self.categories = columns.categories
        low, high = columns.bounds[:, self.order]
        m = len(columns.context_dims)
        offset = low.clone()
        scale = 1 / (high - low)
        if centered:
            offset[:m] = (low + high)[:m] / 2
            signs = [-1.0 if way == "up" else 1.0 for way in harder]
            scale[:m] = 2 * scale[:m] * scale.new_tensor(signs)
        else:
            largest = torch.maximum(low.abs(), high.abs())[:m]
            offset[:m] = 0.0
            scale[:m] = 1 / largest
        self.register_buffer("offset", offset)
        self.register_buffer("scale", scale)

    def transform(self, X: Tensor) -> Tensor:
        r"""The columns that kernels take.

        Args:
            X: A ``... x d`` tensor.

        Returns:
            A ``... x d'`` tensor.
        """
        parts = [(X[..., self.order] - self.offset) * self.scale]
        for column, values in self.categories.items():
            distance = (X[..., column, None].detach() - X.new_tensor(values)).abs()
            parts.append(one_hot(distance.argmin(dim=-1), len(values)).to(X))
        return torch.cat(parts, dim=-1)
