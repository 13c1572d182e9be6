r"""
The table of all studies of rules.
"""

from __future__ import annotations

from benchmarks.studies.fresh import FRESH
from benchmarks.studies.tuned import TUNED

#: The studies by their names.
STUDIES = TUNED | FRESH
