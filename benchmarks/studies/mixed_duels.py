r"""
The study ``mixed-duels``: duels in a context about mixed parameters.

The defaults were chosen on the problems of ``TUNING``, none of whose functions is in
the report.
"""

from __future__ import annotations

from functools import partial

from benchmarks.studies.mixed_problems import Kind, MixedDuels
from benchmarks.studies.settings_study import SettingsProblem, SettingsStudy
from botorch_binary_context.experiment import Duels, Settings

#: The problems that defaults were chosen on.
TUNING = {
    "tuning gain": Kind((("Colville", "rrcr"), ("Levy", "ri")), "gain", 0.4, seed=1),
    "tuning drift": Kind(
        (("Powell", "rrri"), ("Three-Hump Camel", "rc")), "drift", 0.7, seed=2
    ),
    "tuning blend": Kind(
        (("Sum Squares", "rc"), ("Levy N.13", "ri"), ("Trid", "rc")),
        "blend",
        0.0,
        seed=3,
    ),
}
#: The problems of the report; the first is six real, two categorical and one whole.
PROBLEMS = {
    "Hartmann 6+3 gain": Kind(
        (("Hartmann 6D", "rrrrrr"), ("Hartmann 3-D", "cci")), "gain", 0.5, seed=11
    ),
    "Hartmann 6+3 drift": Kind(
        (("Hartmann 6D", "rrcrrr"), ("Hartmann 3-D", "rci")), "drift", 1.0, seed=12
    ),
    "Hartmann 4 gain": Kind((("Hartmann 4D", "rrci"),), "gain", 0.3, seed=13),
    "Hartmann 4 blend": Kind(
        (("Hartmann 4D", "crri"), ("Six-Hump Camel", "rr")), "blend", 0.2, seed=14
    ),
    "Hartmann 3 drift": Kind(
        (("Hartmann 3-D", "rcr"), ("Rosenbrock", "ri")), "drift", 0.5, seed=15
    ),
    "Camel and Goldstein gain": Kind(
        (("Six-Hump Camel", "rr"), ("Goldstein-Price", "cr"), ("Beale", "ri")),
        "gain",
        1.0,
        seed=16,
    ),
    "Ackley and Dixon drift": Kind(
        (("Ackley", "cr"), ("Dixon-Price", "rr"), ("Sphere", "ic")),
        "drift",
        0.3,
        seed=17,
    ),
    "Goldstein and Beale blend": Kind(
        (("Goldstein-Price", "rc"), ("Beale", "ri")), "blend", 0.6, seed=18
    ),
}
#: Rules and priors that are compared.
WAYS = {
    "muc-target": {"rule": "muc-target"},
    "muc-fixed": {"rule": "muc-fixed"},
    "muc-random": {"rule": "muc-random"},
    "muc-ald-separate": {"rule": "muc-ald", "priors": "separate"},
    "muc-ald": {"rule": "muc-ald"},
    "mkg": {"rule": "mkg"},
    "cjes": {"rule": "cjes"},
}


def make_problem(kind: Kind, seeds: int) -> SettingsProblem:
    r"""A problem with the settings that are not compared.

    Args:
        kind: The definition of the problem.
        seeds: Not used; all seeds have the same problem.
    """
    problem = MixedDuels(kind)
    return SettingsProblem(problem, partial(Settings, problem.named, Duels()))


STUDY = SettingsStudy(
    name="mixed-duels",
    title="Regrets, in standard deviations of the performance, of duels in a context "
    "about real, whole and categorical parameters.",
    problems={name: partial(make_problem, kind) for name, kind in PROBLEMS.items()},
    ways=WAYS,
)
