r"""A server within the test's process, and a plain client of its JSON interface."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botorch_binary_context.web.guard import Role
from botorch_binary_context.web.lab import Lab
from botorch_binary_context.web.pages import Page
from botorch_binary_context.web.server import Place, find_place, make_server


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of an error."""
        return self.json["error"]["code"]


@dataclass(frozen=True)
class Served:
    lab: Lab
    place: Place

    @property
    def interface(self) -> str:
        return self.place.socket.getsockname()[0]

    @property
    def port(self) -> int:
        return self.place.socket.getsockname()[1]

    def url(self, role: Role = Role.PARTICIPANT) -> str:
        return self.place.address(role)

    def token(self, role: Role = Role.PARTICIPANT) -> str:
        return self.place.access.tokens[role]

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """A request as it is given, with nothing added but the length."""
        connection = http.client.HTTPConnection(self.interface, self.port, timeout=300)
        try:
            connection.putrequest(method, path, skip_host=True)
            for name, value in {"Host": self._host, **(headers or {})}.items():
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            sent = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, sent, response.read())
        finally:
            connection.close()

    @property
    def _host(self) -> str:
        return f"{self.interface}:{self.port}"

    def get(self, path: str, role: Role = Role.EXPERIMENTER) -> Answer:
        return self.send("GET", f"/{self.token(role)}/api/{path}")

    def post(self, path: str, role: Role = Role.PARTICIPANT, **fields: Any) -> Answer:
        return self.send(
            "POST",
            f"/{self.token(role)}/api/{path}",
            json.dumps(fields).encode(),
            {"Content-Type": "application/json"},
        )


@contextmanager
def serving(
    paths: Sequence[Path], page: Page | None = None, **kwargs: Any
) -> Iterator[Served]:
    """Serve journals on a free port; further arguments are those of the lab."""
    place_options = {
        name: kwargs.pop(name)
        for name in ("origins", "tokens", "host", "port")
        if name in kwargs
    }
    with Lab(paths, page, **kwargs) as lab:
        place = find_place(**{"port": 0, **place_options})
        server = make_server(lab, place)
        thread = threading.Thread(target=server.run, args=([place.socket],))
        thread.start()
        try:
            while not server.started:
                time.sleep(0.005)
            yield Served(lab, place)
        finally:
            server.should_exit = True
            thread.join()
            place.socket.close()
