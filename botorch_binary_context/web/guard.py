r"""
Who may speak to the server: checked before anything else is done with a request.

A page of another site must not be able to use the server through the participant's
browser. Its requests have the wrong ``Origin`` or, if it tampers with name resolution,
the wrong ``Host``, and no token.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from botorch_binary_context.web.refusals import RefusalError

_BASE = (
    "default-src 'none'; script-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' data: blob:; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "
)
#: What a page may load: only files from this server.
POLICY = _BASE + "style-src 'self'; font-src 'self'"
#: The experimenter's own pages may have inline styles, and fonts within these.
FILES_POLICY = _BASE + "style-src 'self' 'unsafe-inline'; font-src 'self' data:"
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Role(Enum):
    r"""The role of a token's holder."""

    PARTICIPANT = "participant"
    EXPERIMENTER = "experimenter"


def make_token() -> str:
    r"""A random, unguessable text for an address."""
    return secrets.token_urlsafe(18)


@dataclass(frozen=True)
class Access:
    r"""Who may speak to the server.

    Attributes:
        hosts: The allowed values of the header ``Host``, with the port.
        origins: Further origins whose pages may use the JSON interface.
        tokens: The token of each role.
    """

    hosts: Collection[str]
    origins: Collection[str] = ()
    tokens: dict[Role, str] = field(
        default_factory=lambda: {role: make_token() for role in Role}
    )

    def check(self, headers: Headers, path: str) -> Role:
        r"""Check a request.

        Args:
            headers: Its headers.
            path: Its path.

        Returns:
            The role of the client.
        """
        if headers.getlist("host") not in [[host] for host in self.hosts]:
            raise RefusalError(
                403, "wrong-host", "Expected the address of this server."
            )
        origins = headers.getlist("origin")
        own = [f"http://{host}" for host in self.hosts]
        if any(origin not in (*own, *self.origins) for origin in origins):
            raise RefusalError(403, "wrong-origin", "Expected a page of this server.")
        given = path.split("/")[1].encode() if "/" in path else b""
        for role, token in self.tokens.items():
            if secrets.compare_digest(given, token.encode()):
                return role
        raise RefusalError(403, "wrong-token", "Expected the address with its token.")


class Guard:
    r"""Checks requests, notes their role and adds headers to all responses."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        r"""
        Args:
            app: The application that allowed requests go to.
            access: Who may speak to the server.
        """
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # closed before it is open: refused with 403
            await send({"type": "websocket.close"})
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(MutableHeaders(scope=message), scope)
            await send(message)

        try:
            scope["role"] = self._access.check(Headers(scope=scope), scope["path"])
        except RefusalError as refusal:
            response = JSONResponse(refusal.to_dict(), refusal.status)
            await response(scope, receive, send_guarded)
            return
        await self._app(scope, receive, send_guarded)


def _add_headers(headers: MutableHeaders, scope: Scope) -> None:
    for name, value in HEADERS.items():
        headers[name] = value
    is_file = scope["path"].split("/")[2:3] == ["files"]
    headers["Content-Security-Policy"] = FILES_POLICY if is_file else POLICY
    is_static = scope["path"].split("/")[2:3] in (["files"], ["static"])
    headers["Cache-Control"] = "no-cache" if is_static else "no-store"
