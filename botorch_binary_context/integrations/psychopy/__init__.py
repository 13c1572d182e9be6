r"""Experiments as handlers of PsychoPy, which is not imported."""

from botorch_binary_context.integrations.psychopy.handler import BinaryContextHandler
from botorch_binary_context.integrations.psychopy.quest import quest_handler

__all__ = ["BinaryContextHandler", "quest_handler"]
