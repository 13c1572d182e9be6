r"""
The command line: ``binary-context new eye.toml eye.journal``, ``binary-context ask …``.

Every command opens the journal, does one thing and closes it. Errors are one line on
stderr and the exit code 2.
"""

from botorch_binary_context.experiment.cli.program import main

__all__ = ["main"]
