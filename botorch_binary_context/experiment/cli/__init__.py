r"""
The command line: ``binary-context new eye.toml eye.journal``, ``binary-context ask …``.

Every command opens the journal, does one thing and closes it. Errors are one line on
stderr and the exit code 2.
"""

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    r"""Run a command.

    Args:
        argv: The arguments, by default those of the process.

    Returns:
        The exit code; 130 if the user interrupts it, however early.
    """
    try:
        # Here, and not at the top, so that an interruption of it is noticed.
        from botorch_binary_context.experiment.cli.program import run
    except KeyboardInterrupt:
        return 130
    return run(argv)


__all__ = ["main"]
