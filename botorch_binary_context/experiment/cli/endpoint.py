r"""
The command that answers clients of AEPsych.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from botorch_binary_context.experiment.cli.output import show


def aepsych(arguments: argparse.Namespace) -> None:
    r"""Answer clients of AEPsych until one says "exit" or the program is interrupted.

    Args:
        arguments: The journal, the port, and a configuration file if no client is to
            send one.
    """
    from botorch_binary_context.integrations.aepsych import AEPsychEndpoint

    config = None if arguments.config is None else Path(arguments.config).read_text()
    with AEPsychEndpoint(arguments.journal, arguments.port) as endpoint:
        if config is not None and not endpoint.session.has_experiment:
            endpoint.session.set_up(config)
        data = {"host": endpoint.host, "port": endpoint.port}
        show(
            arguments,
            data,
            f"AEPsych's clients can connect to {endpoint.host}:{endpoint.port}.",
            "Ctrl-C ends the server; every answer is kept.",
        )
        endpoint.serve_forever()
