r"""
A lens of sphere, cylinder and axis as one parameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from botorch.exceptions import InputDataError

from botorch_binary_context.experiment.angles import Periodic
from botorch_binary_context.experiment.ranges import check_name
from botorch_binary_context.experiment.variables import Parameter, Real
from botorch_binary_context.models.power_vectors import SPHERE_AND_CYLINDER

AXIS = 0.0, 180.0  # degrees
#: The name of the combinations of sphere and cylinder.
POWER_VECTOR = "power-vector"
# Beginnings of words: sphere, sphère, Sphäre, sfera; cylinder, cylindre, Zylinder.
_SPHERE = ("sph", "sf")
_CYLINDER = ("cyl", "zyl", "cil")


@dataclass(frozen=True)
class Lens:
    r"""A spherocylindrical lens: shown as sphere, cylinder and axis.

    Models see its power vector, the spherical equivalent ``M = S + C/2`` and the two
    crossed cylinders ``J0 = -C/2 cos 2α`` and ``J45 = -C/2 sin 2α``, in which equal
    distances mean equal blur: the axis is periodic, and does not matter without a
    cylinder. The values are those of three parameters, "``name`` sphere", "``name``
    cylinder" and "``name`` axis".

    Attributes:
        name: Its name.
        sphere: The least and the largest sphere, in diopters.
        cylinder: The least and the largest cylinder, in diopters.
        sphere_step: The step of the sphere; if None, any value can be shown.
        cylinder_step: The step of the cylinder.
        axis_step: The step of the axis, in degrees.

    Example:
        >>> Lens("right", sphere=(-6, 6), cylinder=(-4, 0))
        >>> Lens("trial", (-2, 2), (-2, 0), sphere_step=0.5, axis_step=None)
    """

    type: ClassVar[str] = "lens"
    name: str
    sphere: Sequence[float]
    cylinder: Sequence[float]
    sphere_step: float | None = 0.25
    cylinder_step: float | None = 0.25
    axis_step: float | None = 5.0

    def __post_init__(self) -> None:
        check_name(self.name)
        for argument in ("sphere", "cylinder"):
            bounds = _check_pair(self.name, argument, getattr(self, argument))
            object.__setattr__(self, argument, bounds)
        _ = self.parts  # checks the bounds and the steps

    @cached_property
    def parts(self) -> tuple[Real, Real, Periodic]:
        """The parameters that are shown: sphere, cylinder and axis."""
        low, high = self.sphere
        sphere = Real(f"{self.name} sphere", low, high, step=self.sphere_step)
        low, high = self.cylinder
        cylinder = Real(f"{self.name} cylinder", low, high, step=self.cylinder_step)
        axis = Periodic(f"{self.name} axis", *AXIS, step=self.axis_step)
        return sphere, cylinder, axis


#: What can be named in a space: a parameter, or several that belong together.
AnyParameter = Parameter | Lens


def parts_of(parameter: AnyParameter) -> tuple[Parameter, ...]:
    r"""The parameters that are shown for one that may be made of several.

    Args:
        parameter: The parameter.

    Returns:
        Its parts; itself if it has none.
    """
    return parameter.parts if isinstance(parameter, Lens) else (parameter,)


def are_sphere_and_cylinder(names: Sequence[str]) -> bool:
    r"""Whether two parameters are the powers of a lens, by their names.

    Args:
        names: The names of all parameters.

    Returns:
        Whether there are two, of which the first is a sphere and the second a cylinder
        in one of several languages.
    """
    if len(names) != 2:
        return False
    known = zip(names, (_SPHERE, _CYLINDER), strict=True)
    return all(any(word in name.lower() for word in words) for name, words in known)


def spell_out_combinations(content: Mapping[str, Any]) -> dict[str, Any]:
    r"""The settings of an old journal, with named combinations written out.

    It was once possible to name the combinations of any two parameters.

    Args:
        content: The settings as the journal has them.

    Returns:
        The same, with numbers instead of a name that does not apply.
    """
    parameters = content.get("parameters")
    tables = parameters if isinstance(parameters, list) else []
    names = [str(t.get("name")) for t in tables if isinstance(t, Mapping)]
    is_named = content.get("combinations") == POWER_VECTOR
    if not is_named or len(names) != 2 or are_sphere_and_cylinder(names):
        return dict(content)
    return {**content, "combinations": [list(row) for row in SPHERE_AND_CYLINDER]}


def _check_pair(name: str, argument: str, bounds: Any) -> tuple[Any, Any]:
    if not isinstance(bounds, list | tuple) or len(bounds) != 2:
        raise InputDataError(
            f"Expected ``{argument}`` of {name!r} to be two numbers, the least and the "
            f"largest power, but got {bounds!r}."
        )
    return bounds[0], bounds[1]
