r"""Short ways to write the tensors of a test."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def double(values: Any) -> Tensor:
    """A double precision tensor."""
    return torch.tensor(values, dtype=torch.double)


def uniform(*shape: int, seed: int = 0) -> Tensor:
    """Double precision numbers in [0, 1], the same at every call."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=generator, dtype=torch.double)
