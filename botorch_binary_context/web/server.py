r"""
Serving a lab on this machine: the socket, the addresses, the tokens.
"""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from botorch_binary_context.errors import InputDataError
from botorch_binary_context.web.app import make_app
from botorch_binary_context.web.guard import Access, Role, make_token
from botorch_binary_context.web.lab import Lab

#: The default address of the server: on this machine only.
LOOPBACK = "127.0.0.1"
PORT = 8765
MAX_CONNECTIONS = 256
MIN_TOKEN = 16


@dataclass(frozen=True)
class Place:
    r"""Where a server listens, and who may talk to it.

    Attributes:
        socket: The bound socket.
        access: Who may talk to it.
    """

    socket: socket.socket
    access: Access

    def address(self, role: Role) -> str:
        r"""The address to open in a browser.

        Args:
            role: Whose page it is.

        Returns:
            The address, with the token.
        """
        host = next(iter(self.access.hosts))
        return f"http://{host}/{self.access.tokens[role]}/"


def find_place(
    host: str = LOOPBACK,
    port: int = PORT,
    origins: Collection[str] = (),
    tokens: str | Path | None = None,
) -> Place:
    r"""Bind a socket.

    Args:
        host: The address of a network interface, by default one that only this machine
            can reach.
        port: The port; 0 for any that is free.
        origins: Further origins whose pages may use the JSON interface.
        tokens: A file to keep the tokens in, so that addresses stay the same; by
            default the tokens are new.
    """
    _check_host(host)
    if not 0 <= port < 2**16:
        raise InputDataError(
            f"Expected ``port`` to be from 0 to {2**16 - 1}, but got {port}."
        )
    kept = None if tokens is None else _keep_tokens(Path(tokens))
    bound = _bind(host, port)
    number = bound.getsockname()[1]
    names = [host, "localhost"] if host in (LOOPBACK, "::1") else [host]
    hosts = [
        f"[{name}]:{number}" if ":" in name else f"{name}:{number}" for name in names
    ]
    hosts += [host.rpartition(":")[0] for host in hosts if number == 80]
    access = Access(hosts, origins)
    return Place(bound, access if kept is None else Access(hosts, origins, kept))


def _check_host(host: str) -> None:
    if host in ("", "0.0.0.0", "::"):
        raise InputDataError(
            "Expected ``host`` to be the address of one network interface, for example "
            f"{LOOPBACK}, but got {host!r}, which is all of them."
        )


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        is_elsewhere = isinstance(error, socket.gaierror)
        if is_elsewhere or error.errno == errno.EADDRNOTAVAIL:
            raise InputDataError(
                "Expected ``host`` to be the address of a network interface of this "
                f"machine, for example {LOOPBACK}, but got {host!r}."
            ) from None
        if error.errno != errno.EADDRINUSE:
            raise
        raise InputDataError(
            "Expected ``port`` to be free, or 0 for any that is, but got "
            f"{port}, which is in use."
        ) from None


def _keep_tokens(path: Path) -> dict[Role, str]:
    """The tokens of a file; a new file is made if needed, for its owner only."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read_tokens(path)
    tokens = {role: make_token() for role in Role}
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump({role.value: token for role, token in tokens.items()}, file)
    return tokens


def _read_tokens(path: Path) -> dict[Role, str]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        tokens = {role: content[role.value] for role in Role}
    except (ValueError, KeyError, TypeError):
        tokens = {}
    texts = [token for token in tokens.values() if isinstance(token, str)]
    usable = [t for t in texts if len(t) >= MIN_TOKEN and t.isascii() and "/" not in t]
    if len(set(usable)) != len(Role):
        raise InputDataError(
            f"Expected ``tokens`` to be a file with two tokens, but got {path}."
        )
    return tokens


def make_server(lab: Lab, place: Place) -> uvicorn.Server:
    r"""A server that is not running yet.

    Args:
        lab: The experiments.
        place: The address of the server.
    """
    config = uvicorn.Config(
        make_app(lab, place.access),
        log_level="warning",
        access_log=False,  # it would show the tokens
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        ws="none",
        timeout_graceful_shutdown=5,
    )
    return uvicorn.Server(config)


def serve(lab: Lab, place: Place) -> None:
    r"""Serve until the process is interrupted.

    Args:
        lab: The experiments.
        place: The address of the server.
    """
    make_server(lab, place).run(sockets=[place.socket])
