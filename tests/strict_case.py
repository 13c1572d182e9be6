r"""A test case in which warnings are errors."""

from __future__ import annotations

from botorch.utils.testing import BotorchTestCase


class StrictTestCase(BotorchTestCase):
    """A BoTorch test case that leaves warnings what they are in this run: errors."""

    def setUp(self, suppress_input_warnings: bool = False) -> None:
        """Keep the filters of the test run, which BoTorch's own ``setUp`` resets."""
