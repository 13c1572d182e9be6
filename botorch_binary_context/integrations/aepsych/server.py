r"""
The endpoint: messages of AEPsych's clients over TCP, on this machine only.
"""

from __future__ import annotations

import json
import socketserver
import threading
from pathlib import Path
from typing import Any, cast

from botorch_binary_context.integrations.aepsych.framing import (
    FramingError,
    MessageReader,
)
from botorch_binary_context.integrations.aepsych.session import AEPsychSession

LOOPBACK = "127.0.0.1"
#: Where AEPsych's clients look for a server.
PORT = 5555
# AEPsych's Python client reads only this many bytes of an answer.
MAX_ANSWER = 4096
_PIECE = 2**16


class AEPsychEndpoint(socketserver.ThreadingTCPServer):
    r"""A server that AEPsych's clients can talk to.

    Several clients may be connected at once; they share the experiments. A client that
    sends anything but JSON objects gets an error and is disconnected.

    Example:
        >>> with AEPsychEndpoint("listener-3.journal") as endpoint:
        ...     endpoint.serve_forever()  # until a client says "exit"
    """

    allow_reuse_address = True
    daemon_threads = True

    def __init__(
        self, journal: str | Path, port: int = PORT, seed: int | None = None
    ) -> None:
        r"""
        Args:
            journal: The file of the first experiment, which is continued if it exists;
                the files of others have a number at the end of their name.
            port: The port; 0 for any that is free.
            seed: The seed of new experiments; by default each draws its own.
        """
        self.session = AEPsychSession(journal, seed)
        self._lock = threading.Lock()
        try:
            super().__init__((LOOPBACK, port), _Connection)
        except BaseException:
            self.session.close()
            raise

    @property
    def host(self) -> str:
        """The address, which only this machine can reach."""
        return LOOPBACK

    @property
    def port(self) -> int:
        """The port."""
        return self.server_address[1]

    def answer(self, text: bytes) -> dict[str, Any]:
        r"""Answer a message, one at a time.

        Args:
            text: The message.
        """
        try:
            request = json.loads(text)
        except ValueError as error:  # also if it is not text
            return {"server_error": repr(error), "message": None}
        with self._lock:
            answer = self.session.answer(request)
        if self.session.finished:
            threading.Thread(target=self.shutdown, daemon=True).start()
        return answer

    def server_close(self) -> None:
        r"""Close the socket and the journals."""
        super().server_close()
        self.session.close()


class _Connection(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        """Answer one message after another until the client disconnects."""
        endpoint = cast(AEPsychEndpoint, self.server)
        reader = MessageReader()
        try:
            while data := self.request.recv(_PIECE):
                for message in reader.feed(data):
                    self._send(endpoint.answer(message))
        except FramingError as error:
            self._send({"server_error": repr(error), "message": None})
        except OSError:
            return  # the client has disconnected

    def _send(self, answer: dict[str, Any]) -> None:
        text = json.dumps(answer)
        if "server_error" in answer and len(text) > MAX_ANSWER:
            text = json.dumps({**answer, "message": None})
        self.request.sendall(text.encode())
