r"""The studies that are no table of rules and functions, each with a run of its own."""

from __future__ import annotations

from typing import Any

from benchmarks.studies import coverage, default_settings, mixed_duels

#: What has ``run`` and ``write_report``, by the names of the studies.
OWN_STUDIES: dict[str, Any] = {
    coverage.NAME: coverage,
    mixed_duels.STUDY.name: mixed_duels.STUDY,
    default_settings.STUDY.name: default_settings.STUDY,
}
