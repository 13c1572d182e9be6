from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import torch

from benchmarks.__main__ import main
from benchmarks.studies import maps, searches
from tests.tensors import double


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "TRIALS", 8)
    monkeypatch.setattr(maps, "CHECKPOINTS", (7, 8))
    monkeypatch.setattr(maps, "LEARN_AT", (7,))
    monkeypatch.setattr(maps, "RULES", ("sobol", "map-mi"))
    monkeypatch.setattr(maps, "OBSERVERS", (("contrast", 2),))


@pytest.mark.usefixtures("short")
class TestMaps:
    def test_command_writes_a_report_and_finishes_only_once(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        arguments = ["map", "--seeds", "2", "--output", str(tmp_path)]
        main(arguments)
        assert "contrast-2-ep-map-mi is finished" in capsys.readouterr().out
        report = (tmp_path / "map" / "report.md").read_text()
        assert report.count("| contrast 2 ep | `map-mi` |") == 4
        main(arguments)  # all is finished
        assert "is finished" not in capsys.readouterr().out

    def test_same_randomness_for_all_rules(self) -> None:
        first, second = (
            maps.draw_randomness(maps.Task("contrast", 2, "ep", rule, 2))
            for rule in maps.RULES
        )
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))

    def test_errors_vanish_for_a_known_function(self) -> None:
        """With the true function in the place of the posterior mean."""
        side = torch.linspace(-1, 1, maps.GRID, dtype=torch.double)
        x, s = torch.meshgrid(side, side, indexing="ij")
        found = maps._thresholds(maps.contrast_sensitivity(x, s))
        expected = -0.4 + 0.9 * (side - 0.2) ** 2
        torch.testing.assert_close(found, expected.clamp(-1, 1), rtol=0, atol=1e-9)

    def test_success_goes_from_one_half_to_one_with_contrast(self) -> None:
        task = maps.Task("contrast", 2, "ep", "sobol", 1)
        trials = double([[0.2, -1.0], [0.2, 1.0], [0.2, -0.4]])
        torch.testing.assert_close(
            task.success(trials), double([0.5, 1.0, 0.75]), rtol=0, atol=2e-3
        )


class TestPublishedFunctions:
    """By hand at x = 0.5: the width is 2 (0.05 + 0.4 · 0.81 · 0.25) = 0.262."""

    def test_detection_equals_the_value_by_hand(self) -> None:
        value = maps.detection(double(0.5), double(-0.9))
        assert abs(float(value) - (0.4 / 0.262 - 4)) < 1e-12

    def test_discrimination_equals_the_values_by_hand(self) -> None:
        task = maps.Task("discrimination", 2, "ep", "sobol", 1)
        success = task.success(double([[0.5, -1.0], [0.5, -0.9]]))
        expected = torch.special.ndtr(double([0.0, 0.2 / 0.262]))
        torch.testing.assert_close(success, expected, rtol=0, atol=1e-9)


def test_answers_needed() -> None:
    curves = {"sobol": [0.5, 0.4, 0.3], "bald": [0.4, 0.2, 0.1], "random": [0.6] * 3}
    frame = pl.concat(
        pl.DataFrame(
            {
                "function": ["f"] * 3,
                "alternatives": [2] * 3,
                "inference": ["ep"] * 3,
                "rule": [rule] * 3,
                "trials": [50, 100, 150],
                "volume": errors,
            }
        )
        for rule, errors in curves.items()
    )
    shares = maps.answers_needed(frame, "volume").select("rule", "share").rows()
    assert [rule for rule, _ in shares] == ["bald", "random"]
    assert abs(shares[0][1] - 0.5) < 1e-12  # 75 of 150
    assert shares[1][1] == float("inf")


class TestSearches:
    @pytest.mark.parametrize(
        ("study", "name"),
        sorted({(case[0], case[2]) for case in searches.cases(2)}),
    )
    def test_loss_of_each_search_is_at_most_one_half(
        self, study: str, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        quick = searches.SearchOptions(4, 64, max_evaluations=10)
        monkeypatch.setattr(searches, "DENSE", quick)
        frame = searches.measure(study, "Forrester et al (2008)", name, 2)
        assert frame.height == 2
        assert frame["loss"].is_between(0.0, 0.5).all()

    def test_report_counts_losses_and_gives_the_largest(self, tmp_path: Path) -> None:
        frame = pl.DataFrame(
            {
                "study": ["duels"] * 3,
                "function": ["f"] * 3,
                "criterion": ["cjes"] * 3,
                "seed": [0, 1, 2],
                "loss": [0.0, 0.02, 0.3],
                "seconds": [0.1] * 3,
            }
        )
        searches.store.save(frame, tmp_path / "searches" / "f.cjes.parquet")
        text = searches.write_report(tmp_path).read_text()
        assert "| `cjes` | duels | 2 of 3 | 30.0 % | 100 |" in text
