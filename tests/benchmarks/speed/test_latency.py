r"""Tests of how the waiting of an experimenter is measured."""

from __future__ import annotations

from benchmarks.speed import latency


def test_latencies_are_measured_and_shown_in_a_table() -> None:
    rows = latency._measure_latencies([8, 20])
    assert [row.num_answers for row in rows] == [8, 20]
    for row in rows:
        assert 0 < row.ask < 60
        assert 0 < row.tell < 60
        assert 10 < row.memory < 1e5
    table = latency.format_latencies([latency.Latency(300, 0.04, 0.02, 500.0)])
    assert table.splitlines()[-1] == "| 300 | 40 ms | 80 ms | 20 ms | 500 MB |"
