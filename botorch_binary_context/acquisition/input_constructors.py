r"""
Constructors of the acquisition functions' arguments, by which Ax finds them.

Importing the package registers them with BoTorch's ``acqf_input_constructor``.
"""

from __future__ import annotations

from typing import Any

from botorch.acquisition.input_constructors import acqf_input_constructor
from torch import Tensor

from botorch_binary_context.acquisition.analytic import (
    DEFAULT_BETA,
    BernoulliMutualInformation,
    BinaryUpperConfidenceBound,
    LatentUpperConfidenceBound,
    MaximallyUncertainChallenge,
)
from botorch_binary_context.acquisition.entropy_search import (
    ContextualJointEntropySearch,
)
from botorch_binary_context.acquisition.knowledge_gradient import (
    ContextualBinaryKnowledgeGradient,
    OneShotContextualBinaryKnowledgeGradient,
)
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.models.laplace_gp import LaplaceGP


@acqf_input_constructor(BinaryUpperConfidenceBound, LatentUpperConfidenceBound)
def construct_inputs_ucb(
    model: LaplaceGP, beta: float = DEFAULT_BETA
) -> dict[str, Any]:
    r"""Arguments of the upper confidence bounds.

    Args:
        model: The model.
        beta: The weight of the standard deviation.

    Returns:
        A dict mapping the names of arguments to their values.
    """
    return {"model": model, "beta": beta}


@acqf_input_constructor(BernoulliMutualInformation)
def construct_inputs_mutual_information(model: LaplaceGP) -> dict[str, Any]:
    r"""Arguments of the mutual information.

    Args:
        model: The model.

    Returns:
        A dict mapping the names of arguments to their values.
    """
    return {"model": model}


@acqf_input_constructor(MaximallyUncertainChallenge)
def construct_inputs_challenge(model: LaplaceGP, incumbent: Tensor) -> dict[str, Any]:
    r"""Arguments of the maximally uncertain challenge.

    Args:
        model: The model.
        incumbent: The current best trial.

    Returns:
        A dict mapping the names of arguments to their values.
    """
    return {"model": model, "incumbent": incumbent}


@acqf_input_constructor(
    ContextualBinaryKnowledgeGradient,
    OneShotContextualBinaryKnowledgeGradient,
    ContextualJointEntropySearch,
)
def construct_inputs_contextual(
    model: LaplaceGP, space: ContextSpace, **options: Any
) -> dict[str, Any]:
    r"""Arguments of the acquisition functions that know the reference context.

    Args:
        model: The model.
        space: The box of the trials.
        options: Further arguments of the acquisition function.

    Returns:
        A dict mapping the names of arguments to their values.
    """
    return {"model": model, "space": space, **options}
