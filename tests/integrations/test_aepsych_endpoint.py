r"""AEPsych's messages: over a socket, by its own client, and queries."""

from __future__ import annotations

import json
import math
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from botorch_binary_context.integrations.aepsych import (
    AEPsychEndpoint,
    AEPsychSession,
)
from tests.integrations.aepsych_messages import EAR, TASTE, error, send


class TestQueries:
    @pytest.fixture(scope="class")
    @staticmethod
    def asked(tmp_path_factory: pytest.TempPathFactory) -> AEPsychSession:
        """Someone who hears above 30 dB."""
        path = tmp_path_factory.mktemp("aepsych") / "ear.journal"
        session = AEPsychSession(path, seed=0)
        send(session, "setup", config_str=EAR)
        grid = [(p, 5.0 * i) for p in (250.0, 1000.0, 4000.0) for i in range(18)]
        config = {"pitch": [p for p, _ in grid], "level": [x for _, x in grid]}
        send(session, "tell", config=config, outcome=[int(x > 30) for _, x in grid])
        return session

    def predict(self, session: AEPsychSession, **x: Any) -> Any:
        x = {"query_type": "prediction", "x": x, "probability_space": True}
        return send(session, "query", **x)["y"]

    def test_prediction_is_that_of_the_model(self, asked: AEPsychSession) -> None:
        """That of the model, and where the threshold was simulated."""
        found = self.predict(asked, pitch=[1000.0, 1000.0], level=[10.0, 60.0])
        assert found[0] < 0.05
        assert found[1] > 0.95
        one = self.predict(asked, pitch=1000.0, level=[10.0])
        assert one == pytest.approx(found[0])
        experiment = asked.strategy.experiment
        X = experiment.encoder.encode({"level": 60.0}, [{"pitch": 1000.0}])
        posterior = experiment.model().posterior(X)
        z = posterior.mean.item() / math.sqrt(1.0 + posterior.variance.item())
        assert found[1] == pytest.approx(0.5 * math.erfc(-z / math.sqrt(2.0)))
        assert "same length" in error(
            asked,
            "query",
            {"query_type": "prediction", "x": {"pitch": [1, 2], "level": [1]}},
        )
        assert "``x`` to give values" in error(
            asked, "query", {"query_type": "prediction", "x": None}
        )

    def test_no_point_of_a_grid_is_beyond_the_extrema(
        self, asked: AEPsychSession
    ) -> None:
        """No point of a grid is beyond them."""
        grid = [(125.0 * 2**i, 10.0 * j - 10.0) for i in range(7) for j in range(11)]
        found = self.predict(
            asked, pitch=[p for p, _ in grid], level=[x for _, x in grid]
        )
        for kind, limit in (("max", max(found)), ("min", min(found))):
            answer = send(asked, "query", query_type=kind, probability_space=True)
            sign = 1 if kind == "max" else -1
            assert sign * (answer["y"] - limit) > -1e-4
            x = {k: v for k, v in answer["x"].items() if k != "ear"}
            assert self.predict(asked, **x) == pytest.approx(answer["y"], abs=1e-3)

    def test_inverse_finds_the_threshold_at_a_given_pitch(
        self, asked: AEPsychSession
    ) -> None:
        for pitch in (300.0, 4000.0):
            answer = send(
                asked,
                "query",
                query_type="inverse",
                y=0.75,
                probability_space=True,
                constraints={0: pitch},
            )
            assert answer["x"]["pitch"] == [pytest.approx(pitch)]
            assert answer["y"] == pytest.approx(0.75, abs=1e-3)
            assert 20.0 < answer["x"]["level"][0] < 45.0
        assert "``y`` to be a number" in error(
            asked, "query", {"query_type": "inverse", "y": "high"}
        )
        assert "``constraints`` to name" in error(
            asked, "query", {"constraints": {"7": 1.0}}
        )


@contextmanager
def endpoint(path: Path) -> Iterator[AEPsychEndpoint]:
    with AEPsychEndpoint(path, port=0, seed=0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def exchange(port: int, *pieces: bytes) -> bytes:
    """Send bytes and say that there are no more; all that comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        for piece in pieces:
            connection.sendall(piece)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while data := connection.recv(4096):
            received += data
        return received


class TestEndpoint:
    def test_hostile_bytes(self, tmp_path: Path) -> None:
        """Each gets an error, and the next client an answer."""
        info = json.dumps({"type": "info", "message": {}}).encode()
        wrong = [
            b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + info,
            b"\x00\x01\x02",
            b'{"type": }',
            b'{"type": "ask", "message": {"num_points": "\xff"}}',
            b'{"type": ["ask"]}',
            b'{"type": {}, "message": NaN}',
            b"{" * 2000 + b"}" * 2000,
        ]
        with endpoint(tmp_path / "ear.journal") as server:
            setup = {"type": "setup", "message": {"config_str": EAR}}
            exchange(server.port, json.dumps(setup).encode())
            for data in wrong:
                answer = json.loads(exchange(server.port, data))
                assert "server_error" in answer
                assert "Traceback" not in answer["server_error"]
            assert exchange(server.port, b'{"type": "info"') == b""  # cut off
            answer = json.loads(exchange(server.port, info[:9], info[9:]))
            assert answer["strat_count"] == 1

    def test_only_this_machine(self, tmp_path: Path) -> None:
        with endpoint(tmp_path / "ear.journal") as server:
            assert server.server_address[0] == "127.0.0.1"

    def test_long_errors_fit_into_what_the_client_reads(self, tmp_path: Path) -> None:
        request = {"type": "nonsense", "message": {"text": "x" * 10**5}}
        with endpoint(tmp_path / "ear.journal") as server:
            received = exchange(server.port, json.dumps(request).encode())
        assert len(received) < 4096
        assert json.loads(received)["message"] is None

    @pytest.mark.slow
    def test_command_serves_a_configuration_until_exit(self, tmp_path: Path) -> None:
        (tmp_path / "ear.ini").write_text(EAR)
        program = [sys.executable, "-m", "botorch_binary_context.experiment"]
        files = [str(tmp_path / "ear.journal"), "--config", str(tmp_path / "ear.ini")]
        process = subprocess.Popen(
            [*program, "aepsych", *files, "--port", "0", "--json"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        place = json.loads(process.stdout.readline())
        ask = b'{"type": "ask", "message": ""}'
        assert "pitch" in json.loads(exchange(place["port"], ask))["config"]
        exchange(place["port"], b'{"type": "exit", "message": ""}')
        assert process.wait(timeout=60) == 0
        process.stdout.close()


class TestWithTheClient:
    def test_ask_and_tell(self, aepsych_client: Any, tmp_path: Path) -> None:
        """A whole experiment, with the rule at work for the last three trials."""
        with endpoint(tmp_path / "ear.journal") as server:
            client = aepsych_client(port=server.port)
            client.configure(config_str=EAR, config_name="ear")
            assert client.parameters()["level"] == [-10.0, 90.0]
            finished = False
            asked = []
            while not finished:
                answer = client.ask()
                finished = answer["is_finished"]
                asked.append(answer["config"]["level"][0])
                heard = int(asked[-1] > 30)
                told = client.tell(answer["config"], heard, response_time=0.4)
                assert told == {"trials_recorded": 1, "model_data_added": 1}
            assert len(asked) == 8
            trials = server.session.strategy.experiment.trials
            assert [trial.values["level"] for trial in trials] == asked
            assert [trial.chosen_by for trial in trials[-3:]] == ["map-eavc"] * 3
            assert trials[0].extra == {"response_time": 0.4}
            best = client.query("max", probability_space=True)
            assert best["y"] > 0.5
            client.configure(config_str=TASTE)
            client.resume(config_name="ear")
            assert client.info()["current_strat_data_pts"] == 8
            with pytest.raises(RuntimeError, match="to be a positive whole number"):
                client.ask(num_points=0)
            assert client.finish_strategy()["finished_strategy"] == "opt_strat"
            assert client.finalize()["success"]
            client.socket.close()
