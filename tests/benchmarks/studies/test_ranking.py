import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError

from benchmarks.studies.ranking import pairwise_wins, rank_rules
from tests.golden_numbers import load_golden


class TestRankRules:
    def test_golden_rankings_are_found(self) -> None:
        for trial in load_golden("ranking")["trials"]:
            ranking = rank_rules(trial["scores"])
            assert ranking.borda == trial["borda_by_algo"]
            assert ranking.rank == trial["ranking"]

    def test_tensor_of_scores_is_ranked_by_wins(self) -> None:
        scores = torch.rand(2, 3, 20, 4) + torch.tensor([0.0, 2.0]).view(2, 1, 1, 1)
        ranking = rank_rules(scores)
        assert ranking.borda == [0, 3]
        assert ranking.rank == [2, 1]
        expected = np.array([[0.0, 0.0], [1.0, 0.0]])
        np.testing.assert_array_equal(ranking.last_wins, expected)
        np.testing.assert_array_equal(ranking.mean_wins, expected)

    def test_tie_broken_by_mean(self) -> None:
        scores = np.random.default_rng(0).random((2, 1, 20, 5))
        scores[0, ..., :-1] += 2.0  # equal at the end, ahead before
        ranking = rank_rules(scores)
        assert ranking.borda == [1, 0]
        assert ranking.last_wins.sum() == 0.0
        assert ranking.mean_wins.tolist() == [[0.0, 1.0], [0.0, 0.0]]

    def test_equal_scores(self) -> None:
        ranking = rank_rules(np.ones((3, 2, 5, 4)))
        assert ranking.borda == [0, 0, 0]
        assert ranking.rank == [1, 1, 1]

    def test_wrong_scores(self) -> None:
        for scores in (np.ones((3, 2, 5)), np.full((2, 2, 5, 4), np.nan)):
            with pytest.raises(InputDataError, match="``scores``"):
                rank_rules(scores)

    def test_pairwise_wins(self) -> None:
        values = np.stack([np.arange(20.0), np.arange(20.0) + 100])[:, None]
        wins = pairwise_wins(values)
        assert wins.tolist() == [[[False, False], [True, False]]]
