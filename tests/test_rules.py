r"""Tests of the selection rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models.transforms import Normalize
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from scipy.stats import chi2
from torch import Tensor

from botorch_binary_context import (
    BINARY_RULES,
    DUEL_RULES,
    AdditiveContextKernel,
    BernoulliMutualInformation,
    BinaryLaplaceGP,
    BinaryUpperConfidenceBound,
    ContextSpace,
    ContextualBinaryKnowledgeGradient,
    LatentUpperConfidenceBound,
    MaximallyUncertainChallenge,
    MultiplicativeContextKernel,
    PreferenceLaplaceGP,
    SearchOptions,
    recommend,
    suggest,
)
from botorch_binary_context.rules import (
    Search,
    TwoStages,
    at_reference,
    frozen,
    most_informative,
)
from tests.helpers import (
    MODEL_CLASSES,
    AnyModel,
    ModelClass,
    RequireDevice,
    double,
    latent,
    latent_covariance,
    random_model,
    random_trials,
    simple_kernel,
    uniform,
)

QUICK = SearchOptions(num_restarts=3, raw_samples=32, max_evaluations=20)
UNIT = double([[0.0, 0.0], [1.0, 1.0]])
# One context, the first column; the system is to be good where it is 1.
SPACE = ContextSpace(UNIT, context_dims=[0], reference_context=[1.0])

ALL_RULES = [
    *((BinaryLaplaceGP, rule) for rule in BINARY_RULES),
    *((PreferenceLaplaceGP, rule) for rule in DUEL_RULES),
]
DETERMINISTIC_RULES = [
    *(
        (BinaryLaplaceGP, rule)
        for rule in ("ucb-ald", "lucb-ald", "ucb-fixed", "cbkg", "bald")
    ),
    *((PreferenceLaplaceGP, rule) for rule in ("muc-ald", "kg", "bald")),
]
# Rules to which the two sides of a duel are the same.
SYMMETRIC_RULES = ("kg", "bald", "cjes")

every_rule = pytest.mark.parametrize(("model_class", "rule"), ALL_RULES)
deterministic_rules = pytest.mark.parametrize(
    ("model_class", "rule"), DETERMINISTIC_RULES
)
both_models = pytest.mark.parametrize("model_class", MODEL_CLASSES)


def context_model(
    model_class: ModelClass, n: int = 8, batch_shape: Sequence[int] = (), seed: int = 0
) -> AnyModel:
    """A model of trials in ``SPACE``; elements differ in their hyperparameters."""
    base = simple_kernel(dim=1, batch_shape=batch_shape)
    kernel = MultiplicativeContextKernel(base, context_dims=[0])
    return random_model(model_class, n, 2, batch_shape, seed, covar_module=kernel)


def element_of(model: AnyModel, index: int) -> AnyModel:
    """One element of ``context_model``, on its own."""
    batched: Any = model.covar_module
    kernel = simple_kernel(dim=1)
    kernel.outputscale = batched.base_kernel.outputscale[index].detach()
    lengthscale = batched.base_kernel.base_kernel.lengthscale[index].detach()
    kernel.base_kernel.lengthscale = lengthscale
    return type(model)(
        model.train_inputs[0][index],
        model.train_targets[index].unsqueeze(-1),
        covar_module=MultiplicativeContextKernel(kernel, context_dims=[0]),
    )


def size_of(model_class: ModelClass) -> int:
    """How many rows a trial has."""
    return 1 if model_class is BinaryLaplaceGP else 2


# ------------------------------------------------------------------ any layout


def product_kernel(columns: list[int], dim: int) -> Kernel:
    """``k₁(s,s') k₂(x,x')``."""
    rest = [i for i in range(dim) if i not in columns]
    parts = [
        RBFKernel(ard_num_dims=len(dims), active_dims=tuple(dims))
        for dims in (columns, rest)
    ]
    kernel = ScaleKernel(parts[0] * parts[1]).double()
    kernel.outputscale = 3.0
    return kernel


KERNELS: dict[str, Callable[[list[int], int], Kernel]] = {
    "plain": lambda columns, dim: simple_kernel(dim),
    "multiplicative": lambda columns, dim: MultiplicativeContextKernel(
        simple_kernel(dim - len(columns)), columns
    ),
    "additive": lambda columns, dim: AdditiveContextKernel(
        simple_kernel(dim - len(columns)), columns
    ),
    "product": product_kernel,
}
# The context columns, the number of columns, the kernel.
LAYOUTS = [
    ([], 2, "plain"),
    ([0], 3, "multiplicative"),
    ([2], 3, "additive"),
    ([1], 3, "product"),
    ([2, 0], 4, "multiplicative"),
    ([-1, 1], 3, "additive"),
    ([0, 1], 3, "product"),
    ([0, 3, 2], 4, "multiplicative"),
    ([1, 2, 3], 4, "product"),
]


def shifted_space(columns: list[int], dim: int) -> ContextSpace:
    """Column ``i`` lies between ``i`` and ``i + 1``: none can pass for another."""
    low = torch.arange(dim).double()
    reference = [column % dim + 0.9 for column in columns]
    return ContextSpace(torch.stack([low, low + 1]), columns, reference)


def shifted_model(
    model_class: ModelClass, columns: list[int], dim: int, kernel: str
) -> AnyModel:
    """A model of trials in ``shifted_space``."""
    X, Y = random_trials(model_class, 6, dim)
    X = X + torch.arange(dim)
    if model_class is PreferenceLaplaceGP:
        X[..., 1, columns] = X[..., 0, columns]
    return model_class(X, Y, covar_module=KERNELS[kernel](columns, dim))


@every_rule
class TestTrials:
    @pytest.mark.parametrize(("columns", "dim", "kernel"), LAYOUTS)
    def test_layouts(
        self,
        model_class: ModelClass,
        rule: str,
        columns: list[int],
        dim: int,
        kernel: str,
    ) -> None:
        model = shifted_model(model_class, columns, dim, kernel)
        space = shifted_space(columns, dim)
        trial = suggest(model, space, rule, QUICK, seed=0)
        assert trial.shape == (size_of(model_class), dim)
        assert not trial.requires_grad
        assert torch.equal(trial, trial.clamp(space.bounds[0], space.bounds[1]))
        contexts = space.contexts(trial)
        assert torch.equal(contexts, contexts[:1].expand_as(contexts))
        if rule.endswith("fixed"):
            assert torch.equal(contexts[0], space.reference_context)
        # What is suggested can be run and told to the model.
        new = trial if model_class is BinaryLaplaceGP else trial.unsqueeze(0)
        conditioned = model.condition_on_observations(new, torch.ones(1, 1).double())
        assert latent(conditioned, trial).mean.isfinite().all()

    @pytest.mark.parametrize("batch_shape", [(1,), (2, 3)])
    def test_batch(
        self, model_class: ModelClass, rule: str, batch_shape: tuple[int, ...]
    ) -> None:
        model = context_model(model_class, batch_shape=batch_shape)
        trials = suggest(model, SPACE, rule, QUICK, seed=0)
        assert trials.shape == (*batch_shape, size_of(model_class), 2)
        assert ((trials >= 0) & (trials <= 1)).all()
        assert torch.equal(trials[..., 0, 0], trials[..., -1, 0])
        if rule == "random":
            assert trials[..., 0, 1].unique().numel() == math.prod(batch_shape)

    def test_no_trials_yet(self, model_class: ModelClass, rule: str) -> None:
        """The first trial is chosen by the prior."""
        for batch_shape in ((), (2,)):
            model = context_model(model_class, n=0, batch_shape=batch_shape)
            trial = suggest(model, SPACE, rule, QUICK, seed=0)
            assert trial.shape == (*batch_shape, size_of(model_class), 2)
            assert ((trial >= 0) & (trial <= 1)).all()

    def test_input_transform(self, model_class: ModelClass, rule: str) -> None:
        """The trial is the one of the normalised problem, in the original units."""
        bounds = double([[-2.0, 10.0], [0.0, 30.0]])
        low, width = bounds[0], bounds[1] - bounds[0]
        plain = random_model(model_class)
        model = model_class(
            low + width * plain.train_inputs[0],
            plain.train_targets.unsqueeze(-1),
            covar_module=plain.covar_module,
            input_transform=Normalize(2, bounds=bounds),
        )
        expected = suggest(plain, ContextSpace(UNIT, [0], [0.5]), rule, seed=0)
        found = suggest(model, ContextSpace(bounds, [0], [-1.0]), rule, seed=0)
        found = (found - low) / width
        if rule in SYMMETRIC_RULES:
            found, expected = found.sort(dim=-2).values, expected.sort(dim=-2).values
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)

    def test_precision_of_the_space(self, model_class: ModelClass, rule: str) -> None:
        space = ContextSpace(UNIT.float(), [0], [1.0])
        trial = suggest(context_model(model_class), space, rule, QUICK, seed=0)
        assert trial.dtype == torch.double

    def test_device(self, model_class: ModelClass, rule: str) -> None:
        model = context_model(model_class, batch_shape=(2,))
        with RequireDevice():
            suggest(model, SPACE, rule, QUICK, seed=0)


@every_rule
class TestRandomness:
    def test_seed(self, model_class: ModelClass, rule: str) -> None:
        model = context_model(model_class, batch_shape=(2,))
        first, again = (suggest(model, SPACE, rule, QUICK, seed=5) for _ in range(2))
        assert torch.equal(first, again)

    def test_seed_leaves_the_global_generator_alone(
        self, model_class: ModelClass, rule: str
    ) -> None:
        model = context_model(model_class)
        state = torch.get_rng_state()
        suggest(model, SPACE, rule, QUICK, seed=5)
        assert torch.equal(torch.get_rng_state(), state)

    def test_global_generator(self, model_class: ModelClass, rule: str) -> None:
        model = context_model(model_class)
        trials = []
        with torch.random.fork_rng():
            for _ in range(2):
                torch.manual_seed(7)
                trials.append([suggest(model, SPACE, rule, QUICK) for _ in range(2)])
        assert torch.equal(trials[0][0], trials[1][0])
        assert torch.equal(trials[0][1], trials[1][1])

    def test_other_seeds(self, model_class: ModelClass, rule: str) -> None:
        """What is random differs from seed to seed, what is not does not."""
        model = context_model(model_class)
        trials = torch.stack([suggest(model, SPACE, rule, seed=s) for s in range(4)])
        if rule in SYMMETRIC_RULES:
            trials = trials.sort(dim=-2).values
        spread = trials.std(dim=0).max()
        if (model_class, rule) in DETERMINISTIC_RULES:
            assert spread < 1e-4
        elif rule != "cjes":
            assert spread > 1e-2


@every_rule
class TestModelStaysTheSame:
    def test_hyperparameters(self, model_class: ModelClass, rule: str) -> None:
        model = context_model(model_class)
        kernel: Any = model.covar_module
        kernel.base_kernel.raw_outputscale.requires_grad_(False)
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        suggest(model, SPACE, rule, QUICK, seed=0)
        assert before
        for name, parameter in model.named_parameters():
            assert torch.equal(parameter, before[name])
            assert parameter.requires_grad == (not name.endswith("raw_outputscale"))
            assert parameter.grad is None

    def test_posterior(self, model_class: ModelClass, rule: str) -> None:
        model, X = context_model(model_class), uniform(5, 2)
        before = latent(model, X).mean
        suggest(model, SPACE, rule, QUICK, seed=0)
        assert torch.equal(latent(model, X).mean, before)

    def test_model_in_training(self, model_class: ModelClass, rule: str) -> None:
        model = context_model(model_class)
        expected = suggest(model, SPACE, rule, QUICK, seed=0)
        model.train()
        assert torch.equal(suggest(model, SPACE, rule, QUICK, seed=0), expected)


def test_frozen_thaws_after_an_error() -> None:
    model = context_model(BinaryLaplaceGP)
    with frozen(model):
        assert not any(p.requires_grad for p in model.parameters())
    with pytest.raises(ZeroDivisionError), frozen(model):
        raise ZeroDivisionError
    assert all(p.requires_grad for p in model.parameters())


# --------------------------------------------------------------- what is maximised

Score = Callable[[AnyModel, Tensor], Tensor]


def in_reference(trial: Tensor) -> Tensor:
    """The same parameters in the reference context."""
    return SPACE.at_reference(SPACE.parameters(trial))


def ucb(model: AnyModel, trial: Tensor) -> Tensor:
    return BinaryUpperConfidenceBound(model).evaluate(in_reference(trial))


def latent_ucb(model: AnyModel, trial: Tensor) -> Tensor:
    return LatentUpperConfidenceBound(model).evaluate(in_reference(trial))


def information(model: AnyModel, trial: Tensor) -> Tensor:
    return BernoulliMutualInformation(model).evaluate(trial)


def knowledge_gradient(model: AnyModel, trial: Tensor) -> Tensor:
    return ContextualBinaryKnowledgeGradient(model, SPACE).evaluate(trial)


def challenge(model: AnyModel, trial: Tensor) -> Tensor:
    """How uncertain the duel with the incumbent is; every trial has the same one."""
    incumbent = SPACE.at_reference(recommend(model, SPACE))
    acqf = MaximallyUncertainChallenge(model, incumbent)
    return acqf.evaluate(in_reference(trial[..., :1, :]))


# What the first and what the second stage maximise.
SCORES: dict[str, tuple[Score, ...]] = {
    "ucb-ald": (ucb, information),
    "lucb-ald": (latent_ucb, information),
    "ucb-fixed": (ucb,),
    "cbkg": (knowledge_gradient,),
    "kg": (knowledge_gradient,),
    "bald": (information,),
    "muc-ald": (challenge, information),
}


@deterministic_rules
def test_batch_reaches_what_elements_reach(model_class: ModelClass, rule: str) -> None:
    model = context_model(model_class, batch_shape=(4,))
    trials = suggest(model, SPACE, rule, seed=3)
    for i in range(4):
        alone = element_of(model, i)
        trial = suggest(alone, SPACE, rule, seed=3)
        for score in SCORES[rule]:
            with torch.no_grad():
                torch.testing.assert_close(
                    score(alone, trials[i]), score(alone, trial), rtol=1e-6, atol=0
                )


def unit_grid(n: int, dim: int) -> Tensor:
    """A regular grid in the unit cube, ``n^dim x dim``."""
    ticks = torch.linspace(0, 1, n).double()
    return torch.cartesian_prod(*[ticks] * dim).reshape(-1, dim)


class TestMaximum:
    """No point of a dense grid is better than the trial."""

    def trials_on_grid(self, model_class: ModelClass) -> Tensor:
        """One context and the parameters of one or two sides."""
        if model_class is BinaryLaplaceGP:
            return unit_grid(61, 2).unsqueeze(-2)
        s, first, second = unit_grid(17, 3).unbind(dim=-1)
        sides = [torch.stack([s, x], dim=-1) for x in (first, second)]
        return torch.stack(sides, dim=-2)

    @deterministic_rules
    @pytest.mark.parametrize("n", [3, 30])
    def test_grid(self, model_class: ModelClass, rule: str, n: int) -> None:
        model = context_model(model_class, n=n, seed=n)
        trial = suggest(model, SPACE, rule, seed=0)
        first, *second = SCORES[rule]
        with torch.no_grad():
            best = first(model, self.trials_on_grid(model_class)).max()
            assert first(model, trial) >= best - 1e-7
            if second:  # the context, given the parameters of the trial
                contexts = torch.linspace(0, 1, 201).double().reshape(-1, 1, 1)
                same = SPACE.join(SPACE.parameters(trial), contexts)
                assert second[0](model, trial) >= second[0](model, same).max() - 1e-7

    def test_incumbent_of_uncertain_challenge(self) -> None:
        model = context_model(PreferenceLaplaceGP)
        for rule in ("muc-ald", "muc-random"):
            duel = suggest(model, SPACE, rule, seed=0)
            torch.testing.assert_close(
                SPACE.parameters(duel)[1], recommend(model, SPACE), rtol=0, atol=1e-6
            )


@pytest.mark.parametrize(
    ("model_class", "ald", "random"),
    [
        (BinaryLaplaceGP, "ucb-ald", "ucb-random"),
        (BinaryLaplaceGP, "ts-ald", "ts-random"),
        (PreferenceLaplaceGP, "muc-ald", "muc-random"),
        (PreferenceLaplaceGP, "kss-ald", "kss-random"),
    ],
)
def test_ald_is_more_informative_than_a_random_context(
    model_class: ModelClass, ald: str, random: str
) -> None:
    """Under one seed both choose the same parameters; then the context decides."""
    model = context_model(model_class, batch_shape=(20,))
    informative, arbitrary = (suggest(model, SPACE, r, seed=1) for r in (ald, random))
    parameters = SPACE.parameters(informative), SPACE.parameters(arbitrary)
    torch.testing.assert_close(*parameters, rtol=0, atol=1e-9)
    gain = information(model, informative) - information(model, arbitrary)
    assert (gain >= -1e-9).all()
    assert gain.mean() > 0.01
    contexts = arbitrary[:, 0, 0]
    assert 0.3 < contexts.mean() < 0.7
    assert contexts.std() > 0.15


def test_an_informative_context_inside_the_box() -> None:
    """With a threshold as context the most informative test is near the threshold."""
    kernel = AdditiveContextKernel(simple_kernel(dim=1), context_dims=[0])
    kernel.context_variance = 4.0
    # Passed at -1.2 and below, failed at -0.8 and above: one knows where to ask.
    s = double([-3.0, -2.0, -1.2, -0.8, 0.0, 1.0]).repeat(10)
    X = torch.stack([s, torch.full_like(s, 0.5)], dim=-1)
    Y = (s < -1).double().unsqueeze(-1)
    model = BinaryLaplaceGP(X, Y, covar_module=kernel)
    space = ContextSpace(double([[-3.0, 0.0], [3.0, 1.0]]), [0], [0.0])
    search = Search(model, space, SearchOptions())
    context = most_informative(search, double([[0.5]]))
    grid = torch.linspace(-3, 3, 1001).double()
    trials = torch.stack([grid, torch.full_like(grid, 0.5)], dim=-1).unsqueeze(-2)
    expected = grid[information(model, trials).argmax()]
    torch.testing.assert_close(context, expected.reshape(1), rtol=0, atol=6e-3)


# ------------------------------------------------------------------------ the table


class TestTable:
    def test_names(self) -> None:
        assert set(BINARY_RULES) == {
            "ucb-ald",
            "ts-ald",
            "cbkg",
            "ucb-random",
            "ts-random",
            "bald",
            "random",
            "cjes",
            "ucb-fixed",
            "ts-fixed",
            "lucb-ald",
        }
        assert set(DUEL_RULES) == {
            "muc-ald",
            "kss-ald",
            "muc-random",
            "kss-random",
            "bald",
            "random",
            "kg",
            "cjes",
        }

    def test_default(self) -> None:
        model = context_model(BinaryLaplaceGP)
        expected = suggest(model, SPACE, "ucb-ald", seed=0)
        assert torch.equal(suggest(model, SPACE, seed=0), expected)

    def test_a_new_row(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A rule by the posterior mean, in the reference context."""

        def by_posterior_mean(search: Search) -> Tensor:
            return search.maximize_parameters(
                lambda X: search.model.posterior_mean(X).squeeze(-1)
            )

        for rules, model_class in (
            (BINARY_RULES, BinaryLaplaceGP),
            (DUEL_RULES, PreferenceLaplaceGP),
        ):
            monkeypatch.setitem(
                rules, "mean-fixed", TwoStages(by_posterior_mean, at_reference)
            )
            model = context_model(model_class, batch_shape=(2,))
            trial = suggest(model, SPACE, "mean-fixed", seed=0)
            expected = SPACE.at_reference(recommend(model, SPACE)).unsqueeze(-2)
            torch.testing.assert_close(trial, expected, rtol=0, atol=1e-6)

    def test_a_row_of_a_whole_trial(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(
            BINARY_RULES, "middle", lambda search: search.space.bounds.mean(0, True)
        )
        trial = suggest(context_model(BinaryLaplaceGP), SPACE, "middle")
        assert torch.equal(trial, double([[0.5, 0.5]]))

    def test_unknown_rule(self) -> None:
        for model_class, kind, rules in (
            (BinaryLaplaceGP, "pass/fail outcomes", BINARY_RULES),
            (PreferenceLaplaceGP, "duels", DUEL_RULES),
        ):
            message = (
                f"Expected ``rule`` to be a rule for {kind}, one of "
                f"{', '.join(rules)}, but got 'ucb'"
            )
            with pytest.raises(UnsupportedError, match=message):
                suggest(context_model(model_class), SPACE, "ucb")

    def test_rule_of_the_other_kind(self) -> None:
        with pytest.raises(UnsupportedError, match="but got 'muc-ald'"):
            suggest(context_model(BinaryLaplaceGP), SPACE, "muc-ald")
        with pytest.raises(UnsupportedError, match="but got 'ucb-ald'"):
            suggest(context_model(PreferenceLaplaceGP), SPACE)

    @both_models
    def test_wrong_space(self, model_class: ModelClass) -> None:
        space = ContextSpace(torch.stack([torch.zeros(3), torch.ones(3)]).double())
        model = context_model(model_class)
        message = "Expected ``space`` to have the 2 columns .* but got 3"
        with pytest.raises(InputDataError, match=message):
            suggest(model, space, "random")
        with pytest.raises(InputDataError, match=message):
            recommend(model, space)


# ------------------------------------------------------------------- recommendation


@both_models
class TestRecommend:
    @pytest.mark.parametrize("reference", [0.0, 0.4, 1.0])
    def test_grid(self, model_class: ModelClass, reference: float) -> None:
        kernel = AdditiveContextKernel(simple_kernel(dim=2), context_dims=[1])
        model = random_model(model_class, n=15, dim=3, covar_module=kernel)
        bounds = torch.stack([torch.zeros(3), torch.ones(3)]).double()
        space = ContextSpace(bounds, context_dims=[1], reference_context=[reference])
        best = recommend(model, space)
        assert best.shape == (2,)
        assert not best.requires_grad
        grid = unit_grid(101, 2)

        def mean(parameters: Tensor) -> Tensor:
            context = torch.full_like(parameters[:, :1], reference)
            X = torch.cat([parameters[:, :1], context, parameters[:, 1:]], dim=-1)
            # One by one: the joint covariance is not needed.
            return latent(model, X.unsqueeze(-2)).mean.flatten().detach()

        values = mean(grid)
        assert mean(best.unsqueeze(0)) >= values.max() - 1e-9
        distance = (best - grid[values.argmax()]).abs().max()
        assert distance < 0.02

    def test_reference_context_matters(self, model_class: ModelClass) -> None:
        """With a product kernel the best parameters depend on the context."""
        model = shifted_model(model_class, [0], 2, "product")
        bounds = shifted_space([0], 2).bounds
        for reference in (0.0, 1.0):
            best = recommend(model, ContextSpace(bounds, [0], [reference]))
            grid = torch.linspace(1, 2, 401).double()
            X = torch.stack([torch.full_like(grid, reference), grid], dim=-1)
            values = latent(model, X).mean.squeeze(-1)
            torch.testing.assert_close(
                best, grid[values.argmax()].reshape(1), rtol=0, atol=5e-3
            )

    def test_batch(self, model_class: ModelClass) -> None:
        model = context_model(model_class, batch_shape=(5,))
        best = recommend(model, SPACE)
        assert best.shape == (5, 1)
        for i in range(5):
            alone = element_of(model, i)
            torch.testing.assert_close(
                best[i], recommend(alone, SPACE), rtol=0, atol=1e-6
            )

    def test_input_transform(self, model_class: ModelClass) -> None:
        bounds = double([[-2.0, 10.0], [0.0, 30.0]])
        low, width = bounds[0], bounds[1] - bounds[0]
        plain = context_model(model_class)
        model = model_class(
            low + width * plain.train_inputs[0],
            plain.train_targets.unsqueeze(-1),
            covar_module=plain.covar_module,
            input_transform=Normalize(2, bounds=bounds),
        )
        best = recommend(model, ContextSpace(bounds, [0], [0.0]))
        expected = low[1:] + width[1:] * recommend(plain, SPACE)
        torch.testing.assert_close(best, expected, rtol=0, atol=1e-5)

    def test_repeats_itself(self, model_class: ModelClass) -> None:
        model = context_model(model_class)
        state = torch.get_rng_state()
        first, again = recommend(model, SPACE), recommend(model, SPACE)
        assert torch.equal(first, again)
        assert torch.equal(torch.get_rng_state(), state)
        assert all(p.requires_grad for p in model.parameters())

    def test_no_trials(self, model_class: ModelClass) -> None:
        best = recommend(context_model(model_class, n=0, batch_shape=(2,)), SPACE)
        assert best.shape == (2, 1)
        assert ((best >= 0) & (best <= 1)).all()

    def test_trials_outside_the_box(self, model_class: ModelClass) -> None:
        model = context_model(model_class)
        space = ContextSpace(double([[0.0, 0.45], [1.0, 0.55]]), [0], [1.0])
        best = recommend(model, space)
        assert 0.45 <= best.item() <= 0.55

    def test_device(self, model_class: ModelClass) -> None:
        model = context_model(model_class, batch_shape=(2,))
        with RequireDevice():
            recommend(model, SPACE)


# ---------------------------------------------------------------- Thompson sampling


class TestThompsonSampling:
    """Trials are draws from ``p(x* | D)``."""

    num_draws = 2000
    num_bins = 12

    def model(self, model_class: ModelClass, batch_shape: Sequence[int]) -> AnyModel:
        """One model, or a batch of the same one."""
        base = simple_kernel(dim=1)
        base.base_kernel.lengthscale = double([[0.2]])
        base.outputscale = 2.0
        kernel = MultiplicativeContextKernel(base, context_dims=[0])
        single = random_model(model_class, n=6, covar_module=kernel)
        X, Y = single.train_inputs[0], single.train_targets.unsqueeze(-1)
        X, Y = X.expand(*batch_shape, *X.shape), Y.expand(*batch_shape, *Y.shape)
        return model_class(X, Y, covar_module=kernel)

    def brute_force(self, model_class: ModelClass) -> Tensor:
        """Maximisers of draws from the joint posterior on a fine grid."""
        grid = torch.linspace(0, 1, 301).double()
        X = torch.stack([torch.ones_like(grid), grid], dim=-1)  # s₀ = 1
        model = self.model(model_class, ())
        mean = latent(model, X).mean.squeeze(-1).detach()
        eigenvalues, eigenvectors = torch.linalg.eigh(latent_covariance(model, X))
        root = (eigenvectors * eigenvalues.clamp_min(0).sqrt()).detach()
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(301, 100_000, generator=generator, dtype=torch.double)
        return grid[(mean.unsqueeze(-1) + root @ noise).argmax(dim=0)]

    def assert_same_distribution(self, draws: Tensor, reference: Tensor) -> None:
        """A chi-square test at the level 1e-4; both ends of the box are bins."""
        inside = reference[(reference > 0) & (reference < 1)]
        levels = torch.linspace(0, 1, self.num_bins - 1).double()[1:-1]
        cuts = torch.cat([double([1e-3]), inside.quantile(levels), double([1 - 1e-3])])
        count = torch.bucketize(draws.contiguous(), cuts).bincount(
            minlength=self.num_bins
        )
        expected = torch.bucketize(reference, cuts).bincount(minlength=self.num_bins)
        # The reference is a sample too: its variance adds to that of the draws.
        ratio = draws.numel() / reference.numel()
        expected = expected * ratio
        assert (expected > 5).all()
        statistic = ((count - expected).square() / (expected * (1 + ratio))).sum()
        assert statistic < chi2.isf(1e-4, self.num_bins - 1)

    def test_outcomes(self) -> None:
        model = self.model(BinaryLaplaceGP, (self.num_draws,))
        trials = suggest(model, SPACE, "ts-fixed", seed=0)
        assert (trials[..., 0] == 1).all()
        reference = self.brute_force(BinaryLaplaceGP)
        self.assert_same_distribution(trials[:, 0, 1], reference)

    def test_duels(self) -> None:
        """Both sides are draws, independent of each other."""
        model = self.model(PreferenceLaplaceGP, (self.num_draws,))
        first, second = suggest(model, SPACE, "kss-random", seed=0)[..., 1].unbind(-1)
        reference = self.brute_force(PreferenceLaplaceGP)
        self.assert_same_distribution(first, reference)
        self.assert_same_distribution(second, reference)
        correlation = torch.corrcoef(torch.stack([first, second]))[0, 1]
        assert abs(correlation) < 4 / math.sqrt(self.num_draws)


@both_models
def test_recommendation_repeats_itself(model_class: ModelClass) -> None:
    """Whatever torch's generator does; another seed finds the same maximum."""
    model = context_model(model_class)
    first = recommend(model, SPACE, seed=3)
    torch.manual_seed(1)
    assert torch.equal(recommend(model, SPACE, seed=3), first)
    torch.testing.assert_close(
        recommend(model, SPACE, seed=4), first, rtol=0, atol=1e-5
    )
