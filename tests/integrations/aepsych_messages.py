r"""Messages of AEPsych's clients."""

from __future__ import annotations

import json
from typing import Any

from botorch_binary_context.integrations.aepsych import (
    AEPsychSession,
)

EAR = """
[common]
parnames = [pitch, level, ear]
stimuli_per_trial = 1
outcome_types = [binary]
strategy_names = [init_strat, opt_strat]
target = 0.75

[pitch]
par_type = continuous
lower_bound = 125  # hertz
upper_bound = 8000
log_scale = True

[level]
par_type = continuous
lower_bound = -10
upper_bound = 90

[ear]
par_type = fixed
value = left

[init_strat]
generator = SobolGenerator
min_asks = 5

[opt_strat]
generator = OptimizeAcqfGenerator
acqf = EAVC
model = MonotonicProjectionGP
min_asks = 3

[MonotonicProjectionGP]
monotonic_dims = [1]

[metadata]
participant_id = P7
"""


TASTE = """
[common]
parnames = [sweet, sour]
stimuli_per_trial = 2
outcome_types = [binary]
strategy_names = [init_strat]

[sweet]
par_type = continuous
lower_bound = 0
upper_bound = 1

[sour]
par_type = integer
lower_bound = 1
upper_bound = 5

[init_strat]
generator = SobolGenerator
min_asks = 4
"""


def send(session: AEPsychSession, kind: str, **message: Any) -> dict[str, Any]:
    """A message and its answer, both of which have to be JSON."""
    request = json.loads(json.dumps({"type": kind, "message": message}))
    answer = session.answer(request)
    assert "server_error" not in answer, answer
    return json.loads(json.dumps(answer, allow_nan=False))


def error(session: AEPsychSession, kind: Any, message: Any = "") -> str:
    request = {"type": kind, "message": message}
    answer = session.answer(request)
    assert answer["message"] == request
    return answer["server_error"]
