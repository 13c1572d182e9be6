r"""
Which page shows the trials of an experiment, and what it needs to know.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botorch_binary_context.errors import InputDataError, UnsupportedError, quote
from botorch_binary_context.experiment.settings import Settings

STATIC = Path(__file__).parent / "static"
#: The module of the experimenter that draws stimuli.
STIMULUS = "stimulus.js"
#: The pages for participants.
PAGES = ("eye", "duel", "plain")
#: The symbols of an eye chart, and how many there are to choose from.
OPTOTYPES = {"sloan": 10, "landolt": 8, "landolt4": 4}


@dataclass(frozen=True)
class Page:
    r"""A page for participants.

    Attributes:
        kind: "eye", "duel" or "plain".
        optotypes: What the eye chart shows: "sloan" letters, "landolt" rings with gaps
            in eight positions, or "landolt4" in four.
        size: The context that is the size of the optotypes, in logMAR; by default the
            only one.
    """

    kind: str
    optotypes: str = "sloan"
    size: str | None = None

    def __post_init__(self) -> None:
        for name, choices in (("kind", PAGES), ("optotypes", OPTOTYPES)):
            if getattr(self, name) not in choices:
                raise InputDataError(
                    f"Expected ``{name}`` of a page to be one of {', '.join(choices)}, "
                    f"but got {quote(getattr(self, name))}."
                )

    def describe(self, settings: Settings) -> dict[str, Any]:
        r"""What the page needs to know, for an experiment that it can show.

        Args:
            settings: The settings of the experiment.

        Returns:
            A dictionary that can be written as JSON.
        """
        if self.kind == "duel" and settings.feedback.num_sides != 2:
            raise UnsupportedError(
                "Expected an experiment with duels for the page 'duel', but got "
                f"{settings.feedback.kind}."
            )
        if self.kind != "eye":
            return {"kind": self.kind}
        size = self._size(settings)
        return {"kind": self.kind, "optotypes": self.optotypes, "size": size}

    def find_mismatch(self, settings: Settings) -> str | None:
        r"""A warning if guesses are right more or less often than the settings say.

        Args:
            settings: The settings of an experiment that the page can show.

        Returns:
            The text of the warning; None if there is nothing to warn about.
        """
        rate = getattr(settings.feedback, "guess_rate", None)
        number = OPTOTYPES[self.optotypes]
        if self.kind != "eye" or rate is None or abs(rate - 1 / number) < 1e-3:
            return None
        return (
            f"The eye chart has {number} choices, but the settings have a guess rate "
            f"of {rate:.3g}: begin with ``alternatives = {number}`` in the settings."
        )

    def _size(self, settings: Settings) -> str:
        if settings.feedback.kind != "pass/fail":
            raise UnsupportedError(
                "Expected pass/fail outcomes for the page 'eye', but got "
                f"{settings.feedback.kind}."
            )
        names = [c.name for c in settings.space.contexts]
        found = [name for name in names if self.size in (None, name)]
        if len(found) != 1:
            raise InputDataError(
                "Expected ``size`` to be the context with the size of the letters, one "
                f"of {names}, but got {quote(self.size)}."
            )
        return found[0]


def default_page(settings: Settings) -> str:
    r"""The page for an experiment if none is chosen.

    Args:
        settings: The settings of the experiment.

    Returns:
        "duel" for experiments with duels, otherwise "plain".
    """
    return "duel" if settings.feedback.num_sides == 2 else "plain"
