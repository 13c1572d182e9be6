r"""
The command that serves experiments to browsers. It needs the extra ``web``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from botorch_binary_context.errors import UnsupportedError
from botorch_binary_context.experiment.cli.output import show

if TYPE_CHECKING:
    from botorch_binary_context.web.lab import Lab
    from botorch_binary_context.web.server import Place


def serve(arguments: argparse.Namespace) -> None:
    r"""Serve experiments until the program is interrupted.

    Args:
        arguments: The journals, the page, and the address of the server.
    """
    _check_extra()
    from botorch_binary_context.web.lab import Lab
    from botorch_binary_context.web.pages import Page
    from botorch_binary_context.web.server import find_place

    page = None
    if arguments.page is not None:
        page = Page(arguments.page, arguments.optotypes, arguments.size)
    with Lab(arguments.journals, page, arguments.files) as lab:
        for desk in lab.desks.values():
            mismatch = page and page.find_mismatch(desk.experiment.settings)
            if mismatch:
                warnings.warn(f"{desk.name}: {mismatch}", UserWarning, stacklevel=1)
        place = find_place(
            arguments.host, arguments.port, arguments.allow_origin, arguments.tokens
        )
        announce_and_serve(arguments, lab, place)


def serve_demo(arguments: argparse.Namespace) -> None:
    r"""Serve an eye chart that a simulated person answers in the browser.

    Args:
        arguments: The journal to make, if any, the number of trials and the port.
    """
    _check_extra()
    from botorch_binary_context.experiment.demo import demo_settings, simulated_person
    from botorch_binary_context.experiment.experiment import Experiment
    from botorch_binary_context.experiment.stopping import Stop
    from botorch_binary_context.web.lab import Lab
    from botorch_binary_context.web.pages import OPTOTYPES, Page
    from botorch_binary_context.web.server import find_place

    page = Page("eye")
    num_letters = OPTOTYPES[page.optotypes]
    stop = Stop(answers=arguments.trials)
    settings = replace(demo_settings(num_letters), stop=stop)
    place = find_place(port=arguments.port)  # before a file is made
    with place.socket, tempfile.TemporaryDirectory() as folder:
        journal = arguments.journal or Path(folder) / "demo.journal"
        Experiment.create(journal, settings).close()
        person = simulated_person(num_letters=num_letters)
        with Lab([journal], page, simulated=person) as lab:
            announce_and_serve(arguments, lab, place)


def announce_and_serve(arguments: argparse.Namespace, lab: Lab, place: Place) -> None:
    r"""Print the addresses, open the browser if that is wanted, and serve.

    Args:
        arguments: Whether to print JSON and to open the browser.
        lab: The experiments.
        place: The address of the server.
    """
    from botorch_binary_context.web.guard import Role
    from botorch_binary_context.web.server import serve

    addresses = {role.value: place.address(role) for role in Role}
    lines = [f"{role}: {address}" for role, address in addresses.items()]
    show(arguments, addresses, *lines, "Ctrl-C ends the server; every answer is kept.")
    sys.stdout.flush()  # a script may wait for them
    if arguments.open:
        webbrowser.open(place.address(Role.PARTICIPANT))
    serve(lab, place)


def _check_extra() -> None:
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise UnsupportedError(
            "Expected the extra ``web`` to be installed, but it is not: install "
            "'botorch-binary-context[web]'."
        ) from None
