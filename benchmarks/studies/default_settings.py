r"""
The study ``default-settings``: pass/fail experiments with settings that nobody chose.

Simulated subjects of several kinds, whose experiments give only names and bounds of
their variables: lenses without power vectors, and threshold problems of two to four
parameters. The defaults were chosen on the problems of ``TUNING``; those of the report
are others. ``fresh-default-settings`` examines the patients of the ``fresh-*`` studies,
whom no default was chosen on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from benchmarks.studies.fresh import PATIENTS
from benchmarks.studies.refraction import draw_prescriptions
from benchmarks.studies.settings_study import SettingsProblem, SettingsStudy
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.experiment import (
    Context,
    NamedSpace,
    PassFail,
    Real,
    Settings,
)
from botorch_binary_context.experiment.space import Encoder
from botorch_binary_context.problems import (
    ContextProblem,
    RefractionProblem,
    ThresholdContextProblem,
    make_objective,
)
from botorch_binary_context.problems.contexts import WrappedProblem

#: Rules and priors that are compared.
WAYS = {
    "ucb99-target": {"rule": "ucb99-target"},
    "ucb99-ald": {"rule": "ucb99-ald"},
    "ucb-ald": {"rule": "ucb-ald"},
    "ucb-ald-separate": {"rule": "ucb-ald", "priors": "separate"},
    "mkg": {"rule": "mkg"},
}
# The seeds of the subjects' prescriptions: no subject is in both sets.
TUNING_SEED, REPORT_SEED = 101, 202


class EncodedProblem(WrappedProblem):
    r"""A problem whose trials are encoded in the same way as an experiment's."""

    def __init__(self, problem: ContextProblem, named: NamedSpace) -> None:
        r"""
        Args:
            problem: The problem in its own units, with one context.
            named: The same variables by their names.
        """
        super().__init__(problem)
        self._encoder = Encoder(named)
        self._sign = -1.0 if named.contexts[0].harder == "up" else 1.0

    @property
    def space(self) -> ContextSpace:
        """The box of encoded trials, the context first."""
        return self._encoder.context_space

    def score(self, parameters: Tensor) -> Tensor:
        r"""How good parameters are.

        Args:
            parameters: A ``... x d`` tensor of encoded parameters.

        Returns:
            A ``...`` tensor of scores; higher is better.
        """
        low, high = self.problem.space.parameter_bounds
        return self.problem.score(torch.lerp(low, high, parameters))

    def latent(self, X: Tensor) -> Tensor:
        r"""The latent function.

        Args:
            X: A ``... x (1 + d)`` tensor of encoded trials.

        Returns:
            A ``...`` tensor of latent values.
        """
        return self.problem.latent(self._in_units(X))

    def success_probability(self, X: Tensor) -> Tensor:
        r"""The probability of a pass.

        Args:
            X: A ``... x (1 + d)`` tensor of encoded trials.

        Returns:
            A ``...`` tensor of probabilities.
        """
        return self.problem.success_probability(self._in_units(X))

    def _in_units(self, X: Tensor) -> Tensor:
        low, high = self.problem.space.bounds
        unit = torch.cat([(1.0 + self._sign * X[..., :1]) / 2.0, X[..., 1:]], dim=-1)
        return torch.lerp(low, high, unit)


def name_variables(space: ContextSpace, harder: str) -> NamedSpace:
    r"""The variables of a problem, by names.

    Args:
        space: The box of the trials, the context first.
        harder: Which way tests become harder.

    Returns:
        A space with the parameters ``x1``, ``x2``, ... and the context ``s``.
    """
    low, high = space.bounds.tolist()
    parameters = [
        Real(f"x{i}", a, b) for i, (a, b) in enumerate(zip(low, high, strict=True)) if i
    ]
    reference = float(space.reference_context)
    context = Context("s", reference, low=low[0], high=high[0], harder=harder)
    return NamedSpace(parameters, [context])


def lenses(slope: float, seed: int, seeds: int) -> SettingsProblem:
    r"""Patients with prescriptions of their own, and letters to read.

    Args:
        slope: The slope of the psychometric function.
        seed: The seed of the prescriptions.
        seeds: The number of patients.

    Returns:
        The problem, without power vectors.
    """
    patients = RefractionProblem(
        slope, prescription=draw_prescriptions(seeds, seed), reference_size=0.5
    )
    return _make(patients, "down", PassFail(float(patients.likelihood.guess_rate)))


def threshold(function: str, seeds: int) -> SettingsProblem:
    r"""A benchmark function behind tests of chosen difficulty.

    Args:
        function: The name of the function.
        seeds: Not used; all seeds have the same problem.
    """
    problem = ThresholdContextProblem(make_objective(function))
    return _make(problem, "up", PassFail())


def _make(problem: ContextProblem, harder: str, feedback: PassFail) -> SettingsProblem:
    named = name_variables(problem.space, harder)
    return SettingsProblem(
        EncodedProblem(problem, named), partial(Settings, named, feedback)
    )


#: The problems that defaults were chosen on.
TUNING: dict[str, Callable[[int], SettingsProblem]] = {
    "lenses, slope 5": partial(lenses, 5, TUNING_SEED),
    "threshold, Goldstein-Price": partial(threshold, "Goldstein-Price"),
    "threshold, Hartmann 4D": partial(threshold, "Hartmann 4D"),
}
#: The problems of the report.
PROBLEMS: dict[str, Callable[[int], SettingsProblem]] = {
    "lenses, slope 3": partial(lenses, 3, REPORT_SEED),
    "lenses, slope 8": partial(lenses, 8, REPORT_SEED),
    "threshold, Levy": partial(threshold, "Levy"),
    "threshold, Hartmann 3-D": partial(threshold, "Hartmann 3-D"),
}
STUDY = SettingsStudy(
    name="default-settings",
    title="Regrets of pass/fail experiments that give names and bounds alone: of "
    "lenses in logMAR, of threshold problems in standard deviations.",
    problems=PROBLEMS,
    ways=WAYS,
)
FRESH = SettingsStudy(
    name="fresh-default-settings",
    title="The acuity in logMAR that the recommended lens loses, by the number of "
    "letters shown, in experiments that give names and bounds alone, or also expect "
    'one best lens (`priors="peak"`). None of them knows how lenses add up.',
    problems={"lenses, slope 5": partial(lenses, 5, PATIENTS)},
    ways={
        "ucb99-ald": {"rule": "ucb99-ald"},
        "ucb99-ald, peak": {"rule": "ucb99-ald", "priors": "peak"},
        "mkg, peak": {"rule": "mkg", "priors": "peak"},
    },
    seeds=100,
    checkpoints=(30, 60, 100),
)
