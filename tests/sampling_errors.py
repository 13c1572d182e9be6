r"""How far the mean of samples may be from what it should be."""

from __future__ import annotations

import math

from torch import Tensor

# The largest of some thousand standard normal variables is below this but for 1e-3.
LARGEST_Z = 5.2


def largest_z(samples: Tensor, expected: Tensor) -> float:
    """The largest error of the mean of samples, in standard errors.

    Args:
        samples: Independent along the first dimension.
        expected: What their mean should be. Where they do not vary it is, to 1e-9.
    """
    error = (samples.mean(dim=0) - expected).abs()
    standard_error = samples.std(dim=0) / math.sqrt(samples.shape[0])
    return (error / (standard_error + 1e-9)).max().item()
