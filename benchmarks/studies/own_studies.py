r"""Studies that are not tables of rules and functions, each with its own run."""

from __future__ import annotations

from typing import Any

from benchmarks.studies import (
    answers,
    ax_duels,
    ax_readme,
    coverage,
    default_settings,
    known_physics,
    lapses,
    mixed_duels,
    population,
    threshold_coverage,
)

#: Objects with ``run`` and ``write_report``, by the names of the studies.
OWN_STUDIES: dict[str, Any] = {
    answers.NAME: answers,
    ax_duels.NAME: ax_duels,
    ax_readme.NAME: ax_readme,
    coverage.NAME: coverage,
    known_physics.NAME: known_physics,
    lapses.STUDY.name: lapses.STUDY,
    mixed_duels.STUDY.name: mixed_duels.STUDY,
    population.NAME: population,
    threshold_coverage.STUDY.name: threshold_coverage.STUDY,
    default_settings.STUDY.name: default_settings.STUDY,
    default_settings.FRESH.name: default_settings.FRESH,
}
