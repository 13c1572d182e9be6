r"""Requests that no page of ours makes: nothing breaks, leaks or is lost."""

from __future__ import annotations

import json
import random
import re
import socket
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from botorch_binary_context.experiment import Experiment
from botorch_binary_context.web.body import MAX_BYTES
from botorch_binary_context.web.guard import Role
from tests.experiment.simulation import unmodeled
from tests.web.serving import Answer, Served, serving

SECRET = "secret of the file system"
JSON = {"Content-Type": "application/json"}
LEAK = re.compile(rb"Traceback|File \"|\.py|site-packages|/tmp|/root|/home")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("lab")
    (folder / "secret.txt").write_text(SECRET)
    files = folder / "files"
    files.mkdir()
    (files / "tone.txt").write_text("a tone")
    (files / "link").symlink_to(folder / "secret.txt")
    path = folder / "one.journal"
    Experiment.create(path, unmodeled()).close()
    with serving([path], files=files, origins=["http://lab.example"]) as server:
        yield server


@pytest.fixture(autouse=True)
def nothing_is_lost(served: Served, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """One client has a pending trial throughout, and the server logs no error."""
    trial = served.post("experiments/one/ask", client="victim").json["trial"]
    events = len(served.lab.desks["one"].experiment.history)
    yield
    after = served.post("experiments/one/ask", client="victim").json["trial"]
    assert after == trial
    assert len(served.lab.desks["one"].experiment.history) == events
    assert not [r for r in caplog.records if r.levelname in ("ERROR", "CRITICAL")]


def check_refused(answer: Answer, *statuses: int) -> None:
    assert answer.status in statuses, answer
    assert set(answer.json["error"]) == {"code", "message"}
    assert not LEAK.search(answer.body)
    assert SECRET.encode() not in answer.body
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"


def tell(served: Served, body: bytes, **headers: str) -> Answer:
    path = f"/{served.token()}/api/experiments/one/tell"
    return served.send("POST", path, body, {**JSON, **headers})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        b"{}" * 2,
        b'{"client": NaN}',
        b'{"client": 1e999}',
        b'{"client": "\\ud800"}',
        b"[" * 20000,
        b'{"a":' * 9000,
        b'{"client": "victim", "id": ' + b"9" * 5000 + b', "outcome": 1}',
    ],
)
def test_what_is_no_json_object(served: Served, body: bytes) -> None:
    check_refused(tell(served, body), 400, 422)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"client": "victim"},
        {"client": None, "id": 1, "outcome": 1},
        {"client": "", "id": 1, "outcome": 1},
        {"client": " victim", "id": 1, "outcome": 1},
        {"client": "x" * 65, "id": 1, "outcome": 1},
        {"client": "a\nb", "id": 1, "outcome": 1},
        {"client": ["victim"], "id": 1, "outcome": 1},
        {"client": {}, "id": 1, "outcome": 1},
        {"client": "victim", "id": "1", "outcome": 1},
        {"client": "victim", "id": 1.0, "outcome": 1},
        {"client": "victim", "id": True, "outcome": 1},
        {"client": "victim", "id": [1], "outcome": 1},
        {"client": "victim", "id": 1, "outcome": "maybe"},
        {"client": "victim", "id": 1, "outcome": 2},
        {"client": "victim", "id": 1, "outcome": [1]},
        {"client": "victim", "id": 1, "outcome": {"pass": 1}},
        {"client": "victim", "id": 1, "outcome": 1, "shown": []},
        {"client": "victim", "id": 1, "outcome": 1, "shown": {"noise": 99}},
        {"client": "victim", "id": 1, "outcome": 1, "shown": {"noise": "loud"}},
        {"client": "victim", "id": 1, "outcome": 1, "shown": {"noise": None}},
        {"client": "victim", "id": 1, "outcome": 1, "shown": {"other": 1}},
        {"client": "victim", "id": 1, "outcome": 1, "reaction_time": -1},
        {"client": "victim", "id": 1, "outcome": 1, "reaction_time": "fast"},
        {"client": "victim", "id": 1, "outcome": 1, "reaction_time": [1]},
        {"client": "victim", "id": 1, "outcome": 1, "extra": []},
        {"client": "victim", "id": 1, "outcome": 1, "extra": {"id": 3}},
        {"client": "victim", "id": 1, "outcome": 1, "extra": {"": 3}},
        {"client": "victim", "id": 1, "outcome": 1, "rater": "me"},
        {"client": "victim", "id": 0, "outcome": 1},
        {"client": "victim", "id": -1, "outcome": 1},
        {"client": "victim", "id": 10**30, "outcome": 1},
        {"client": "thief", "id": 1, "outcome": 1},
    ],
)
def test_wrong_fields(served: Served, fields: dict[str, Any]) -> None:
    check_refused(tell(served, json.dumps(fields).encode()), 403, 404, 422)


def random_value(luck: random.Random, depth: int = 0) -> Any:
    """Any JSON."""
    kind = luck.randrange(9 if depth < 3 else 7)
    if kind == 7:
        return [random_value(luck, depth + 1) for _ in range(luck.randrange(4))]
    if kind == 8:
        names = [random_text(luck) for _ in range(luck.randrange(4))]
        return {name: random_value(luck, depth + 1) for name in names}
    numbers = (luck.randrange(-5, 5), luck.uniform(-1e3, 1e3), 10 ** luck.randrange(40))
    return [None, True, False, *numbers, random_text(luck)][kind]


def random_text(luck: random.Random) -> str:
    characters = [
        chr(luck.choice([luck.randrange(1, 255), luck.randrange(0xE000)]))
        for _ in range(5)
    ]
    text = "".join(c for c in characters if not 0xD800 <= ord(c) < 0xE000)
    return luck.choice(["victim", "one", "noise", "pass", "", text])


def test_a_hundred_random_requests(served: Served) -> None:
    luck = random.Random(0)
    verbs = ["ask", "tell", "withdraw", "undo", "stop", "status", "nothing", "plot"]
    names = ["client", "id", "outcome", "shown", "extra", "reaction_time", "more"]
    for _ in range(100):
        # "client" is never a valid name: nobody asks, nothing is answered.
        fields = {name: random_value(luck) for name in luck.sample(names, 4)}
        fields["client"] = luck.choice([None, "", 1, [], {}, "x" * 70, "a\0b"])
        experiment = luck.choice(["one", "two", urllib.parse.quote(random_text(luck))])
        path = f"/{served.token()}/api/experiments/{experiment}/{luck.choice(verbs)}"
        method = luck.choice(["POST", "POST", "POST", "PUT", "DELETE", "PATCH"])
        body = bytearray(json.dumps(fields).encode())
        if luck.random() < 0.3:
            body[luck.randrange(len(body))] = luck.randrange(256)
        answer = served.send(method, path, bytes(body), JSON)
        check_refused(answer, 400, 403, 404, 405, 422)


@pytest.mark.parametrize("token", ["", "x", "%00", "..", "é", "a" * 5000])
def test_wrong_tokens(served: Served, token: str) -> None:
    path = f"/{urllib.parse.quote(token, safe='%')}/api/experiments"
    check_refused(served.send("GET", path), 403)
    check_refused(served.send("POST", f"{path}/one/ask", b"{}", JSON), 403)
    own = served.token()
    for near in (own[:-1], own + "x", own.swapcase()):
        check_refused(served.send("GET", f"/{near}/api/experiments"), 403)


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example", ""]
)
def test_wrong_hosts(served: Served, host: str) -> None:
    """Such as after a name of another site was pointed to this machine."""
    answer = served.send(
        "GET", f"/{served.token()}/api/experiments", None, {"Host": host}
    )
    check_refused(answer, 403)


@pytest.mark.skipif(sys.platform != "linux", reason="has one loopback address only")
def test_hosts_of_another_interface(tmp_path: Path) -> None:
    """As with the address of a network: it is the only name, and the only way in."""
    path = tmp_path / "one.journal"
    Experiment.create(path, unmodeled()).close()
    with serving([path], host="127.0.0.2") as served:
        assert served.url().startswith(f"http://127.0.0.2:{served.port}/")
        address = f"/{served.token()}/api/experiments"
        own = {"Origin": f"http://127.0.0.2:{served.port}"}
        assert served.send("GET", address, None, own).status == 200
        for name in ("127.0.0.1", "localhost"):
            other = f"{name}:{served.port}"
            check_refused(served.send("GET", address, None, {"Host": other}), 403)
            origin = {"Origin": f"http://{other}"}
            check_refused(served.send("GET", address, None, origin), 403)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", served.port))


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1"])
def test_wrong_origins(served: Served, origin: str) -> None:
    body = {"client": "victim", "id": 1, "outcome": 1}
    check_refused(tell(served, json.dumps(body).encode(), Origin=origin), 403)
    path = f"/{served.token()}/api/experiments/one/tell"
    check_refused(served.send("OPTIONS", path, None, {"Origin": origin}), 403)


def test_allowed_origins(served: Served) -> None:
    path = f"/{served.token()}/api/experiments"
    for origin in (f"http://127.0.0.1:{served.port}", "http://lab.example"):
        answer = served.send("GET", path, None, {"Origin": origin})
        assert answer.status == 200
    allowed = "access-control-allow-origin"
    assert answer.headers[allowed] == "http://lab.example"
    preflight = {
        "Origin": "http://lab.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    answer = served.send("OPTIONS", f"{path}/one/tell", None, preflight)
    assert (answer.status, answer.headers[allowed]) == (200, "http://lab.example")


def test_forms_of_other_sites_are_refused(served: Served) -> None:
    """What a page can send without asking first."""
    body = b'{"client": "victim", "id": 1, "outcome": 1}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        check_refused(tell(served, body, **{"Content-Type": kind}), 415)


def test_oversized_bodies(served: Served) -> None:
    body = b'{"client": "victim", "id": 1, "outcome": 1, "extra": {"a": "%s"}}'
    check_refused(tell(served, body % (b"x" * MAX_BYTES)), 413)
    check_refused(send_chunks(served, b"x" * 1024, MAX_BYTES // 1024 + 1), 413)


def send_chunks(served: Served, chunk: bytes, number: int) -> Answer:
    """A body that does not tell its length, and has no end."""
    head = (
        f"POST /{served.token()}/api/experiments/one/tell HTTP/1.1\r\n"
        f"Host: 127.0.0.1:{served.port}\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    ).encode()
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(head)
        for _ in range(number):
            connection.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, content = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().splitlines()
    pairs = (line.partition(": ") for line in lines)
    headers = {name.lower(): value for name, _, value in pairs}
    return Answer(int(first.split()[1]), headers, content)


@pytest.mark.parametrize(
    "path",
    [
        "files/../secret.txt",
        "files/%2e%2e/secret.txt",
        "files/..%2fsecret.txt",
        "files//etc/passwd",
        "files/%2fetc%2fpasswd",
        "files/link",
        "files/%00",
        "files/tone.txt%00.png",
        "static/../app.py",
        "static/%2e%2e/guard.py",
        "static/..%5cguard.py",
        "api/experiments/..%2fone",
        "api/experiments/one/../../../../etc/passwd",
        "api",
        "%ff",
        "files",
        "static",
    ],
)
def test_path_tricks(served: Served, path: str) -> None:
    answer = served.send("GET", f"/{served.token()}/{path}")
    assert answer.status in (307, 404), answer
    assert not LEAK.search(answer.body)
    assert SECRET.encode() not in answer.body


def test_own_files(served: Served) -> None:
    answer = served.send("GET", f"/{served.token()}/files/tone.txt")
    assert (answer.status, answer.body) == (200, b"a tone")


def test_garbage_instead_of_http(served: Served) -> None:
    for garbage in (b"\x16\x03\x01\x00", b"GET\r\n\r\n", b"\0" * 100):
        with socket.create_connection(("127.0.0.1", served.port)) as connection:
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
            assert not LEAK.search(connection.recv(65536))


def test_a_connection_that_breaks_in_the_middle(served: Served) -> None:
    head = (
        f"POST /{served.token()}/api/experiments/one/tell HTTP/1.1\r\n"
        f"Host: 127.0.0.1:{served.port}\r\nContent-Type: application/json\r\n"
        'Content-Length: 60\r\n\r\n{"client": "victim", '
    ).encode()
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(head)


def test_websockets_are_refused(served: Served) -> None:
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    answer = served.send("GET", f"/{served.token()}/api/socket", None, headers)
    check_refused(answer, 404)


def test_a_participant_is_no_experimenter(served: Served) -> None:
    for verb in ("recommend", "plot", "export"):
        check_refused(served.get(f"experiments/one/{verb}", Role.PARTICIPANT), 403)
    for verb in ("stop", "resume"):
        check_refused(served.post(f"experiments/one/{verb}"), 403)
