r"""The hallucination believer, against a search by hand on a grid."""

from typing import Any

import torch

from botorch_binary_context import PreferenceLaplaceGP, recommend, suggest
from botorch_binary_context.goals import ContextAverage, Goal, WorstContext
from botorch_binary_context.rules.parameters import hallucinate
from tests.closeness import assert_all_close
from tests.rules.problems import SPACE, context_model
from tests.small_models import AnyModel


class TestHallucinationBeliever:
    def test_sides_are_the_incumbent_and_the_best_improvement(self) -> None:
        """The incumbent, and the largest expected improvement on it."""
        model = context_model(PreferenceLaplaceGP, batch_shape=(2,))
        duel = suggest(model, SPACE, "hb-random", seed=4).squeeze(1)  # 2 x 2 x 2
        incumbent = recommend(model, SPACE)
        assert_all_close(duel[:, 1, 1:], incumbent, atol=1e-5)
        best = self._best_on_a_grid(model, incumbent, seed=4)
        assert_all_close(duel[:, 0, 1:], best, atol=2e-3)

    def _best_on_a_grid(
        self, model: AnyModel, incumbent: torch.Tensor, seed: int
    ) -> torch.Tensor:
        torch.manual_seed(seed)
        believed = hallucinate(model)
        grid = torch.linspace(0, 1, 1001, dtype=torch.double).unsqueeze(-1)
        sides = torch.cat([grid.expand(2, -1, -1), incumbent.unsqueeze(1)], dim=1)
        posterior: Any = believed.posterior(SPACE.at_reference(sides))
        mvn = posterior.distribution
        mean, covar = mvn.mean, mvn.covariance_matrix
        gap = mean[:, :-1] - mean[:, -1:]
        variance = covar.diagonal(dim1=-2, dim2=-1)
        variance = variance[:, :-1] + variance[:, -1:] - 2 * covar[:, :-1, -1]
        normal = torch.distributions.Normal(0.0, 1.0)
        scale = variance.clamp_min(1e-12).sqrt()
        z = gap / scale
        improvement = gap * normal.cdf(z) + scale * normal.log_prob(z).exp()
        return grid[improvement.argmax(dim=-1)]

    def test_goals_and_batches(self) -> None:
        model = context_model(PreferenceLaplaceGP)
        goals: list[Goal] = [ContextAverage([0.2, 0.9]), WorstContext([0.2, 0.9])]
        for goal in goals:
            duels = suggest(model, SPACE, "hb-ald", q=3, goal=goal, seed=0)
            assert duels.shape == (3, 2, 2)
            assert torch.equal(duels[:, 0, 0], duels[:, 1, 0])
            assert float(duels[:, 0, 1].std()) > 1e-3
            model.condition_on_observations(duels, torch.ones(3, 1).double())
