r"""
Tables of rules, to which other packages can add theirs.

A package registers a rule as an entry point of the group
``botorch_binary_context.rules`` in its ``pyproject.toml``; the rule can then be used by
its name everywhere, including experiments:

.. code-block:: toml

    [project.entry-points."botorch_binary_context.rules"]
    my-rule = "my_package.rules:my_rule"
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from botorch.exceptions import UnsupportedError

from botorch_binary_context.functionals import Functional
from botorch_binary_context.rules.base import Rule

#: The group of the entry points.
GROUP = "botorch_binary_context.rules"


class RuleTable(dict[str, Rule]):
    r"""Rules by name, from this package and from others.

    Iteration covers the rules of this package and those added to the table; a rule of
    another package is loaded when its name is used.
    """

    def __init__(self, functional: Functional, rules: dict[str, Rule]) -> None:
        r"""
        Args:
            functional: What the trials observe, VALUE or DIFFERENCE.
            rules: The rules.
        """
        super().__init__(rules)
        self.functional = functional

    def __missing__(self, name: str) -> Rule:
        rule = load_rule(name) if isinstance(name, str) else None
        if rule is None or not self._is_for(rule):
            raise KeyError(name)
        return rule

    def __contains__(self, name: object) -> bool:
        try:
            self[name]  # pyright: ignore[reportArgumentType]
        except KeyError:
            return False
        return True

    def _is_for(self, rule: Rule) -> bool:
        return getattr(rule, "functional", self.functional) == self.functional


def check_rule(rule: Any, name: str) -> None:
    r"""Raise an error unless an object can be a rule.

    Args:
        rule: The object.
        name: The name or argument under which it was given, for the message.
    """
    if not callable(rule):
        raise UnsupportedError(
            f"Expected {name} to be a rule, which can be called with a ``Selection``, "
            f"but got {rule!r}."
        )


def load_rule(name: str) -> Rule | None:
    r"""The rule that an installed package has registered under a name.

    Args:
        name: The name of an entry point.

    Returns:
        The rule; None if there is none of that name.
    """
    for entry in entry_points(group=GROUP, name=name):
        rule: Any = entry.load()
        check_rule(rule, f"the entry point {name!r} of {GROUP}")
        return rule
    return None
