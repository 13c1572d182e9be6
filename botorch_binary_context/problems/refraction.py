r"""
Refraction: finding the correction of an eye from letters that were read or not.

The simulated patient of section 5 of [Fauvel2022contextual]_. A lens whose sphere and
cylinder differ from the prescription by ``(S, C)`` diopters leaves a blur

    ``β² = (S² + (S + C)²) / 2``

(the axis of the cylinder is given). Decimal acuity falls as ``1 / (1 + β²)``
[Blendowske2015]_, so the visual acuity in logMAR, the log10 of the smallest angle that
is resolved, is

    ``VA = log10(1 + β²)``,

0 at the prescription and, if that is the center of the box, 1.6 at a corner. (The paper
prints ``1 + β²`` for the difference itself, which is 1 at the optimum and up to 41,
beyond all letters.)

.. [Blendowske2015]
    R. Blendowske. Unaided visual acuity and blur: a simple model. Optometry and Vision
    Science 92, 2015.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from botorch.exceptions import InputDataError
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_binary_context.context import ContextSpace
from botorch_binary_context.likelihoods import ProbitLikelihood
from botorch_binary_context.models import power_vectors
from botorch_binary_context.problems.contexts import ContextProblem

MAX_POWER = 4.0  # of sphere and cylinder, in diopters
LETTER_SIZES = (-1.0, 2.0)  # in logMAR
#: The combinations of sphere and cylinder in which blur is round.
POWER_VECTOR = power_vectors.SPHERE_AND_CYLINDER


def blur(error: Tensor) -> Tensor:
    r"""``β`` of a lens that differs from the prescription.

    It has no gradient at the prescription itself; :func:`visual_acuity` has.

    Args:
        error: The errors of sphere and cylinder in diopters, ``... x 2``.

    Returns:
        A ``...`` tensor, in diopters.
    """
    return _squared_blur(error).sqrt()


def _squared_blur(error: Tensor) -> Tensor:
    _check_lenses(error)
    sphere, cylinder = error.unbind(dim=-1)
    return (sphere.square() + (sphere + cylinder).square()) / 2


def _check_lenses(lenses: Tensor) -> None:
    if lenses.shape[-1:] != (2,):
        raise BotorchTensorDimensionError(
            "Expected lenses to have 2 columns, sphere and cylinder, but got shape "
            f"{list(lenses.shape)}."
        )


def visual_acuity(error: Tensor) -> Tensor:
    r"""``VA = log10(1 + β²)`` of a lens that differs from the prescription.

    Args:
        error: The errors of sphere and cylinder in diopters, ``... x 2``.

    Returns:
        A ``...`` tensor, in logMAR; 0 is 20/20, and less is better.
    """
    return torch.log1p(_squared_blur(error)) / math.log(10.0)


class RefractionProblem(ContextProblem):
    r"""Letters read or not by a patient who looks through a trial lens.

    A trial is ``z = (s, S, C)``: a letter of size ``s`` (logMAR, -1 to 2) and a lens of
    sphere ``S`` and cylinder ``C`` (diopters, -4 to 4). The letter is read with
    probability ``γ + (1 - γ - λ) Φ(a (s - VA(x)))``: the acuity is the size at which
    the patient is halfway between guessing and reading. The reference context is by
    default 0.5 logMAR, the middle of the sizes, which a good lens makes easy and a bad
    one does not. The score is ``-VA``, so its highest is 0.

    With a batch of prescriptions the problem is a batch of patients, one for each
    element of the batch of a model.

    Example:
        >>> patient = RefractionProblem(prescription=(-1.5, -0.75))
        >>> X = patient.space.at_reference(torch.zeros(5, 2, dtype=torch.double))
        >>> Y = patient.observe(X)  # 5 x 1
        >>> -patient.score(X[:, 1:])  # VA in logMAR
    """

    prescription: Tensor

    def __init__(
        self,
        slope: float = 5.0,
        num_alternatives: int = 26,
        prescription: Sequence[float] | Tensor = (0.0, 0.0),
        lapse_rate: float = 0.0,
        reference_size: float = 0.5,
    ) -> None:
        r"""
        Args:
            slope: The slope ``a`` of the psychometric function, per logMAR.
            num_alternatives: The number of letters to choose from, ``n``; the guess
                rate ``γ`` is ``1/n``.
            prescription: The sphere and cylinder that give the best acuity,
                ``batch_shape x 2``.
            lapse_rate: The rate ``λ`` at which letters are misnamed although they are
                seen.
            reference_size: The letter size of the reference context.
        """
        super().__init__()
        if not 0.0 < slope < math.inf:
            raise InputDataError(
                f"Expected ``slope`` to be positive and finite, but got {slope}."
            )
        if not float(num_alternatives).is_integer() or num_alternatives < 2:
            raise InputDataError(
                "Expected ``num_alternatives`` to be an integer, at least 2, but got "
                f"{num_alternatives}."
            )
        smallest, largest = LETTER_SIZES
        if not smallest <= reference_size <= largest:
            raise InputDataError(
                f"Expected ``reference_size`` to be a letter size, {smallest:g} to "
                f"{largest:g} logMAR, but got {reference_size}."
            )
        self.slope = float(slope)
        self.reference_size = float(reference_size)
        self.likelihood = ProbitLikelihood(1.0 / num_alternatives, lapse_rate)
        self.register_buffer("prescription", _check_prescription(prescription))

    @property
    def space(self) -> ContextSpace:
        """The box of the trials, three columns, the letter size first."""
        smallest, largest = LETTER_SIZES
        bounds = [
            [smallest, -MAX_POWER, -MAX_POWER],
            [largest, MAX_POWER, MAX_POWER],
        ]
        return ContextSpace(
            self.prescription.new_tensor(bounds),
            context_dims=[0],
            reference_context=self.reference_size,
        )

    @property
    def optimal_score(self) -> float:
        """The highest score, which the prescription has."""
        return 0.0

    def error(self, parameters: Tensor) -> Tensor:
        r"""How far lenses are from the prescription.

        Args:
            parameters: Sphere and cylinder, ``batch_shape x n x 2``; ``n`` may be
                missing if there is one patient.

        Returns:
            A tensor of the same shape.
        """
        _check_lenses(parameters)
        best = self.prescription.to(parameters)
        if best.ndim == 1:
            return parameters - best
        pairs = zip(parameters.shape[-3::-1], best.shape[-2::-1], strict=False)
        fits = all(a == b or 1 in (a, b) for a, b in pairs)
        if parameters.ndim <= best.ndim or not fits:
            raise BotorchTensorDimensionError(
                f"Expected lenses of {list(best.shape[:-1])} patients to be of shape "
                f"``batch_shape x n x 2``, but got {list(parameters.shape)}."
            )
        return parameters - best.unsqueeze(-2)

    def score(self, parameters: Tensor) -> Tensor:
        r"""``-VA`` of lenses.

        Args:
            parameters: As in :meth:`error`.

        Returns:
            A tensor without the last dimension.
        """
        return -visual_acuity(self.error(parameters))

    def latent(self, X: Tensor) -> Tensor:
        r"""``a (s - VA(x))``.

        Args:
            X: Trials, ``batch_shape x n x 3``, the letter size first.

        Returns:
            A ``batch_shape x n`` tensor.
        """
        return self.slope * (X[..., 0] + self.score(X[..., 1:]))

    def success_probability(self, X: Tensor) -> Tensor:
        r"""The probability that the letter is read.

        Args:
            X: Trials, ``batch_shape x n x 3``, the letter size first.

        Returns:
            A ``batch_shape x n`` tensor.
        """
        return self.likelihood.probability(self.latent(X))


def _check_prescription(prescription: Sequence[float] | Tensor) -> Tensor:
    device = torch.get_default_device()
    dtype = torch.double
    if isinstance(prescription, Tensor):
        device = prescription.device
        dtype = prescription.dtype if prescription.is_floating_point() else dtype
    expected = (
        "Expected ``prescription`` to be sphere and cylinder, ``batch_shape x 2``, at "
        f"most {MAX_POWER:g} diopters"
    )
    try:
        best = torch.as_tensor(prescription, dtype=dtype, device=device)
    except (TypeError, ValueError) as error:
        raise InputDataError(f"{expected}, but got {prescription!r}.") from error
    if best.shape[-1:] != (2,) or not bool((best.abs() <= MAX_POWER).all()):
        shown = best.tolist() if best.numel() <= 4 else f"shape {list(best.shape)}"
        if best.shape[-1:] == (2,):
            shown = best[~(best.abs() <= MAX_POWER).all(dim=-1)][0].tolist()
        raise InputDataError(f"{expected}, but got {shown}.")
    return best
