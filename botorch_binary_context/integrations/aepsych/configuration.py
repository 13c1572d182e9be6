r"""
The configuration files of AEPsych, read as settings of an experiment.

AEPsych does not distinguish parameters from contexts. Here, parameters in which the
model is monotonic, and those whose section says ``role = context``, become contexts;
the others are parameters.
"""

from __future__ import annotations

import configparser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context.errors import quote
from botorch_binary_context.experiment.feedback import Duels, PassFail
from botorch_binary_context.experiment.feedback_base import Feedback
from botorch_binary_context.experiment.settings import Settings
from botorch_binary_context.experiment.space import NamedSpace
from botorch_binary_context.experiment.stopping import Stop
from botorch_binary_context.experiment.variables import Context, Integer, Real, Value

#: The rules that replace acquisition functions that learn about a threshold; others
#: are replaced by the default rule, which looks for the maximum.
RULES = {
    "EAVC": "map-eavc",
    "GlobalMI": "map-mi",
    "GlobalSUR": "map-mi",
    "LocalMI": "bald",
    "LocalSUR": "bald",
    "MCLevelSetEstimation": "bald",
    "MCPosteriorVariance": "bald",
    "MonotonicMCLSE": "bald",
    "MonotonicMCPosteriorVariance": "bald",
    "BernoulliMCMutualInformation": "bald",
    "MonotonicBernoulliMCMutualInformation": "bald",
    "ProbabilityOfLevelSet": "bald",
    "PairwiseMCPosteriorVariance": "bald",
}
_MONOTONIC_KEYS = ("monotonic_idxs", "monotonic_dims")

Sections = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Configuration:
    r"""The content of a configuration file of AEPsych.

    Attributes:
        text: The text of the file.
        sections: The values of its keys by section, as texts.
        settings: The settings of the experiment.
        names: The names of all of AEPsych's parameters, in order.
        fixed: The values of the parameters that never change, by their names.
        strategies: The names of the strategies, each with its number of trials.
    """

    text: str
    sections: Sections
    settings: Settings
    names: Sequence[str]
    fixed: Mapping[str, Value]
    strategies: Sequence[tuple[str, int]]


def read_configuration(text: str, seed: int | None = None) -> Configuration:
    r"""Read a configuration file.

    Args:
        text: The content of the file.
        seed: The seed of the experiment; by default each draws its own.

    Returns:
        The settings of the experiment, and what else the file says.
    """
    sections = _parse(text)
    common = sections.get("common", {})
    names = _list(_require(common, "parnames", "common"))
    strategies = _strategies(sections)
    variables = [_variable(sections, name, i) for i, name in enumerate(names)]
    fixed = {n: v for n, v in zip(names, variables, strict=True) if _is_value(v)}
    contexts = [v for v in variables if isinstance(v, Context)]
    parameters: list[Any] = [v for v in variables if isinstance(v, Real)]
    feedback = _feedback(sections)
    total = sum(number for _, number in strategies)
    settings = Settings(
        NamedSpace(parameters, contexts),
        feedback,
        rule=_rule(sections, feedback),
        initial_trials=strategies[0][1] if len(strategies) > 1 else None,
        stop=Stop(answers=total) if total else None,
        seed=seed,
    )
    return Configuration(text, sections, settings, names, fixed, strategies)


def _parse(text: str) -> Sections:
    if not isinstance(text, str):
        raise InputDataError(
            f"Expected ``config_str`` to be a configuration, but got {quote(text)}."
        )
    parser = configparser.ConfigParser(
        inline_comment_prefixes=("#",), interpolation=None, strict=False
    )
    try:
        parser.read_string(text)
    except configparser.Error as error:
        message = " ".join(str(error).split())
        raise InputDataError(
            f"Expected ``config_str`` to be a configuration, but got: {message}"
        ) from None
    return {name: dict(parser[name]) for name in parser.sections()}


def _list(text: str) -> list[str]:
    items = text.strip().removeprefix("[").removesuffix("]").split(",")
    return [item.strip().strip("'\"") for item in items if item.strip()]


def _require(section: Mapping[str, str], key: str, name: str) -> str:
    if key not in section:
        raise InputDataError(f"Expected [{name}] to give ``{key}``, but got none.")
    return section[key]


def _number(section: Mapping[str, str], key: str, name: str) -> float:
    text = _require(section, key, name)
    try:
        return float(text)
    except ValueError:
        raise InputDataError(
            f"Expected ``{key}`` of [{name}] to be a number, but got {text!r}."
        ) from None


def _is_true(text: str) -> bool:
    return text.strip().lower() in ("true", "1", "yes", "on")


def _is_value(variable: Any) -> bool:
    return isinstance(variable, float | str)


def _variable(sections: Sections, name: str, index: int) -> Any:
    """A parameter or a context, or the value of a parameter that is fixed."""
    section = sections.get(name, {})
    kind = section.get("par_type", "continuous")
    if kind == "fixed":
        return _fixed(_require(section, "value", name))
    if kind == "binary":
        return Integer(name, 0, 1)
    if kind not in ("continuous", "integer"):
        raise UnsupportedError(
            f"Expected ``par_type`` of {name!r} to be continuous, integer, binary or "
            f"fixed, but got {kind!r}."
        )
    low, high = (_bound(sections, name, index, end) for end in ("lower", "upper"))
    scale = "log" if _is_true(section.get("log_scale", "")) else "linear"
    monotonic = index in _monotonic(sections)
    if section.get("role", "context" if monotonic else "") == "context":
        harder = section.get("harder", "down" if monotonic else None)
        hardest = high if harder == "up" else low
        given = "reference" in section
        reference = _number(section, "reference", name) if given else hardest
        step = 1.0 if kind == "integer" else None
        return Context(
            name, reference, low, high, scale=scale, harder=harder, step=step
        )
    return (Integer if kind == "integer" else Real)(name, low, high, scale)


def _fixed(text: str) -> Value:
    try:
        return float(text)
    except ValueError:
        return text.strip().strip("'\"")


def _bound(sections: Sections, name: str, index: int, end: str) -> float:
    """A bound, from the parameter's section or, in older files, the common list."""
    section = sections.get(name, {})
    if f"{end}_bound" in section:
        return _number(section, f"{end}_bound", name)
    bounds = _list(sections["common"].get({"lower": "lb", "upper": "ub"}[end], ""))
    if index >= len(bounds):
        return _number(section, f"{end}_bound", name)
    return _number({end: bounds[index]}, end, "common")


def _monotonic(sections: Sections) -> list[int]:
    """The positions of the parameters with which success grows."""
    found = [s[key] for s in sections.values() for key in _MONOTONIC_KEYS if key in s]
    return [int(item) for text in found for item in _list(text)]


def _feedback(sections: Sections) -> Feedback:
    common = sections["common"]
    kinds = _list(common.get("outcome_types", common.get("outcome_type", "binary")))
    if kinds not in (["binary"], ["single_probit"], ["pairwise_probit"]):
        raise UnsupportedError(
            "Expected ``outcome_types`` to be [binary], but got "
            f"{', '.join(kinds) or 'none'}."
        )
    if common.get("stimuli_per_trial", "1") == "2" or kinds == ["pairwise_probit"]:
        return Duels()
    floors = [s["floor"] for s in sections.values() if "floor" in s]
    return PassFail(guess_rate=floors[0] if floors else 0.0)


def _rule(sections: Sections, feedback: Feedback) -> str | None:
    """The rule that replaces the acquisition function of the last strategy."""
    names = [s["acqf"] for s in sections.values() if "acqf" in s]
    rule = RULES.get(names[-1]) if names else None
    return rule if rule in feedback.rules else None


def _strategies(sections: Sections) -> list[tuple[str, int]]:
    found = []
    for name in _list(sections["common"].get("strategy_names", "")):
        section = sections.get(name, {})
        asks = section.get("min_asks", section.get("n_trials", "0"))
        found.append((name, int(_number({"min_asks": asks}, "min_asks", name))))
    return found
