r"""An endpoint for the clients of AEPsych, which is not imported."""

from botorch_binary_context.integrations.aepsych.configuration import (
    Configuration,
    read_configuration,
)
from botorch_binary_context.integrations.aepsych.server import AEPsychEndpoint
from botorch_binary_context.integrations.aepsych.session import AEPsychSession

__all__ = ["AEPsychEndpoint", "AEPsychSession", "Configuration", "read_configuration"]
