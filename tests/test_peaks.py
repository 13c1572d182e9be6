r"""Tests of the prior that expects one peak somewhere."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from scipy.integrate import quad
from torch import Tensor

from botorch_binary_context import (
    ApproximateMarginalLogLikelihood,
    ContextSpace,
    draw_hyperparameters,
    population_prior,
    psychometric_gp,
    suggest,
)
from botorch_binary_context.inference import ExpectationPropagation
from botorch_binary_context.means import LinearContextMean
from botorch_binary_context.models.defaults import (
    OUTPUTSCALE,
    PEAK_HEIGHT,
    PEAK_OUTPUTSCALE,
    PEAK_WIDTH,
)
from botorch_binary_context.numerics.covariance import covariance, variance
from botorch_binary_context.peaks import (
    BLUR,
    PeakKernel,
    PeakLaw,
    PeakMean,
    Peaks,
    ThresholdPeaks,
)
from botorch_binary_context.problems import POWER_VECTOR
from botorch_binary_context.problems.refraction import blur, visual_acuity
from tests.derivatives import finite_difference, jacobian
from tests.devices import RequireDevice
from tests.tensors import double, uniform

HEIGHT, WIDTH = 1.5, 0.3


def peak_at(center: float, x: float) -> float:
    return -HEIGHT * math.log(1 + ((x - center) / WIDTH) ** 2)


def line(number: int) -> Tensor:
    """The middles of equal parts of [0, 1]."""
    return ((torch.arange(number).double() + 0.5) / number).unsqueeze(-1)


class TestAgainstQuadrature:
    """With a peak uniform in [0, 1]."""

    peaks = Peaks(line(400), HEIGHT, WIDTH)
    points = (0.0, 0.37, 1.0, 1.4)

    def mean(self, x: float) -> float:
        return quad(lambda c: peak_at(c, x), 0.0, 1.0, points=[min(x, 1.0)])[0]

    def product(self, x: float, y: float) -> float:
        return quad(lambda c: peak_at(c, x) * peak_at(c, y), 0.0, 1.0)[0]

    def test_mean_agrees(self) -> None:
        X = double([[x] for x in self.points])
        expected = double([self.mean(x) for x in self.points])
        found = PeakMean(self.peaks)(X)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)

    def test_covariance_agrees(self) -> None:
        X = double([[x] for x in self.points])
        found = covariance(PeakKernel(self.peaks), X, X)
        for i, x in enumerate(self.points):
            for j, y in enumerate(self.points):
                expected = self.product(x, y) - self.mean(x) * self.mean(y)
                assert found[i, j].item() == pytest.approx(expected, rel=0, abs=2e-4)


def test_moments_of_the_drawn_functions() -> None:
    """In several dimensions: NumPy's covariance of one function for each center."""
    centers = uniform(50, 3)
    X = uniform(7, 3, seed=1)
    distances = (X.numpy()[:, None] - centers.numpy()[None]) / WIDTH
    drawn = -HEIGHT * np.log1p(np.square(distances).sum(-1))  # 7 x 50
    peaks = Peaks(centers, HEIGHT, WIDTH)
    kernel = PeakKernel(peaks)
    expected = torch.from_numpy(np.cov(drawn, bias=True))
    torch.testing.assert_close(covariance(kernel, X, X), expected)
    torch.testing.assert_close(variance(kernel, X), expected.diagonal())
    torch.testing.assert_close(kernel(X, X).to_dense(), expected)
    torch.testing.assert_close(PeakMean(peaks)(X), torch.from_numpy(drawn.mean(-1)))


def test_batches_and_precision() -> None:
    kernel = PeakKernel(Peaks(uniform(16, 2)))
    X = uniform(2, 3, 5, 2, seed=1)
    whole = covariance(kernel, X, X[..., :2, :])
    assert whole.shape == (2, 3, 5, 2)
    one = covariance(kernel, X[1, 2], X[1, 2, :2])
    torch.testing.assert_close(whole[1, 2], one)
    single = covariance(kernel.float(), X.float(), X[..., :2, :].float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), whole, rtol=1e-4, atol=1e-4)


def test_gradient_equals_finite_differences_even_at_a_peak() -> None:
    """Also at a peak."""
    kernel = PeakKernel(Peaks(uniform(16, 2), HEIGHT, WIDTH))
    X = torch.cat([kernel.peaks.centers[:1], uniform(2, 2, seed=1)])
    other = uniform(1, 2, seed=2)

    def values(points: Tensor) -> Tensor:
        return covariance(kernel, points, other).flatten()

    expected = finite_difference(values, X)
    torch.testing.assert_close(jacobian(values, X), expected, rtol=1e-6, atol=1e-6)


def test_mean_leaves_contexts_to_the_other_mean() -> None:
    peaks = Peaks(uniform(16, 2))
    slope = LinearContextMean([1], slope=3.0).double()
    X = uniform(5, 3)
    plain: Any = PeakMean(peaks)(X[:, [0, 2]])
    expected = plain + 3.0 * X[:, 1]
    torch.testing.assert_close(PeakMean(peaks, slope, [0, 2])(X), expected)


def test_peaks_make_nothing_on_the_default_device() -> None:
    with RequireDevice():
        kernel = PeakKernel(Peaks(uniform(16, 2)))
        covariance(kernel, uniform(3, 2), uniform(4, 2))
        PeakMean(kernel.peaks)(uniform(3, 2))


@pytest.mark.parametrize(
    ("centers", "options", "name"),
    [
        (torch.zeros(3), {}, "centers"),
        (torch.zeros(0, 2), {}, "centers"),
        (torch.zeros(3, 0), {}, "centers"),
        (torch.zeros(3, 2), {"height": 0.0}, "height"),
        (torch.zeros(3, 2), {"width": math.nan}, "width"),
    ],
)
def test_refuses_wrong_centers_heights_and_widths(
    centers: Tensor, options: dict[str, float], name: str
) -> None:
    with pytest.raises(InputDataError, match=f"``{name}``"):
        Peaks(centers, **options)


def lens_space() -> ContextSpace:
    bounds = double([[-4.0, -1.0, -4.0], [4.0, 2.0, 4.0]])
    return ContextSpace(bounds, context_dims=[1], reference_context=[0.5])


class TestPsychometricModel:
    @pytest.mark.parametrize("slope", ["constant", "varies"])
    def test_prior_of_lenses(self, slope: str) -> None:
        """What one peak adds: moments over many prescriptions, by their blur."""
        space = lens_space()
        lenses = double([[0.0, 0.0], [3.0, 0.0], [-1.0, 2.0]])
        moments = []
        for shape in ("any", "peak"):
            model = psychometric_gp(
                space.bounds[:0],
                space.bounds[:0, :1],
                space,
                combinations=POWER_VECTOR,
                slope=slope,
                shape=shape,
            )
            posterior: Any = model.posterior(space.at_reference(lenses))
            found = posterior.distribution
            moments.append((found.mean, found.covariance_matrix))
        needed = 8 * uniform(4000, 2, seed=3) - 4
        beta = blur(lenses.unsqueeze(1) - needed) / 8  # in units of the box
        drawn = -PEAK_HEIGHT * torch.log1p((beta / PEAK_WIDTH).square())
        gained = moments[1][0] - moments[0][0]
        torch.testing.assert_close(gained, drawn.mean(dim=-1), rtol=0, atol=0.1)
        more = (moments[1][1] - moments[0][1]).diagonal()
        expected = torch.cov(drawn).diagonal() + PEAK_OUTPUTSCALE - OUTPUTSCALE
        torch.testing.assert_close(more, expected, rtol=0, atol=0.15)

    @pytest.mark.parametrize("rule", ["ucb99-ald", "ts-ald", "mkg", "gradient"])
    def test_rules_suggest_trials_within_the_bounds(self, rule: str) -> None:
        space = lens_space()
        X = space.bounds[0] + (space.bounds[1] - space.bounds[0]) * uniform(2, 6, 3)
        Y = uniform(2, 6, 1, seed=1).round()
        model = psychometric_gp(X, Y, space, shape="peak")
        trial = suggest(model, space, rule, seed=0)
        assert trial.shape == (2, 1, 3)
        assert ((trial >= space.bounds[0]) & (trial <= space.bounds[1])).all()

    def test_without_parameters(self) -> None:
        space = ContextSpace(double([[-1.0], [2.0]]), [0], [0.5])
        X = double([[0.0], [1.0]])
        Y = double([[0.0], [1.0]])
        means = [
            psychometric_gp(X, Y, space, shape=shape).posterior(X).mean
            for shape in ("any", "peak")
        ]
        torch.testing.assert_close(*means)

    def test_unknown_shape(self) -> None:
        X = uniform(1, 3)
        with pytest.raises(InputDataError, match="``shape`` to be one of any, peak"):
            psychometric_gp(X, X[:, :1].round(), lens_space(), shape="round")


def examined_lenses(
    batch: tuple[int, ...], shape: str | PeakLaw = BLUR, seed: int = 0
) -> Any:
    """A model of patients who were shown eight letters each."""
    space = lens_space()
    width = space.bounds[1] - space.bounds[0]
    X = space.bounds[0] + width * uniform(*batch, 8, 3, seed=seed)
    Y = (X[..., 1:2] > 0.5).double()
    return psychometric_gp(X, Y, space, 1 / 26, combinations=POWER_VECTOR, shape=shape)


def unexamined_lenses(**options: Any) -> Any:
    """A model of a patient before the first letter."""
    space = lens_space()
    X = space.bounds[:0]
    return psychometric_gp(X, X[:, :1], space, combinations=POWER_VECTOR, **options)


class TestLawOfBlur:
    """Lenses in diopters and letters in logMAR, from -1 to 2."""

    unit_of_context = 1.5  # half the range
    origin = 0.5  # its middle

    def test_functions_are_acuities_times_the_slope(self) -> None:
        model = examined_lenses((3,))
        slopes = double([2.0, 5.0, 8.0])
        model.mean_module.base_mean.slope = (slopes * self.unit_of_context)[:, None]
        rows = model.input_transform(model.train_inputs[0])
        found = model.mean_module.peaks(rows[..., [0, 2]])  # patients x letters x J
        corner = lens_space().at_reference(double([[0.0, 0.0]]))
        centers = corner.repeat(found.shape[-1], 1)
        centers = model.input_transform(centers)
        centers[:, [0, 2]] = model.mean_module.peaks.centers
        centers = model.input_transform.untransform(centers)[:, [0, 2]]
        lenses = model.train_inputs[0][..., [0, 2]].unsqueeze(-2)
        acuity = visual_acuity(lenses - centers) - 0.05 - self.origin
        torch.testing.assert_close(found, -slopes[:, None, None] * acuity)

    def test_prior_of_lenses(self) -> None:
        """Moments over many prescriptions, by their acuity."""
        space = lens_space()
        lenses = double([[0.0, 0.0], [3.0, 0.0], [-1.0, 2.0]])
        model = unexamined_lenses(shape=BLUR)
        slope = model.mean_module.base_mean.slope.item() / self.unit_of_context
        needed = 8 * uniform(4000, 2, seed=3) - 4
        acuity = visual_acuity(lenses.unsqueeze(1) - needed) - 0.05
        drawn = -slope * (acuity - self.origin)
        rows = model.input_transform(space.at_reference(lenses))[:, [0, 2]]
        peaks = model.mean_module.peaks
        mean = PeakMean(peaks)(rows)
        torch.testing.assert_close(mean, drawn.mean(dim=-1), rtol=0, atol=0.1)
        found = covariance(PeakKernel(peaks), rows, rows)
        torch.testing.assert_close(found, torch.cov(drawn), rtol=0.1, atol=0.1)

    def test_slope_is_learned_once(self) -> None:
        """Its gradient is that of the mean and of the heights together."""
        precise = ExpectationPropagation(tolerance=1e-12)
        model = examined_lenses(()).with_inference(precise)
        mean = model.mean_module.base_mean
        names = [name for name, _ in model.named_parameters() if "slope" in name]
        assert len(names) == 1
        mll: Any = ApproximateMarginalLogLikelihood(model.likelihood, model)

        def evidence(raw: Tensor) -> Tensor:
            model.train()
            with torch.no_grad():
                mean.raw_slope.copy_(raw.reshape(1))
            return mll(model(*model.train_inputs), model.train_targets).reshape(1)

        raw = mean.raw_slope.detach().clone()
        (found,) = torch.autograd.grad(evidence(raw).sum(), mean.raw_slope)
        expected = finite_difference(lambda x: evidence(x).detach(), raw)
        torch.testing.assert_close(found, expected.flatten(), rtol=1e-5, atol=1e-8)

    def test_every_prior_counts_once(self) -> None:
        """Though the mean and the kernel share the peaks, and these the slope."""
        model = examined_lenses(())
        names = [name.rpartition(".")[2] for name, *_ in model.named_priors()]
        assert sorted(names) == [
            "lengthscale_prior",
            "outputscale_prior",
            "slope_prior",
        ]
        density = sum(
            prior.log_prob(get(module)).sum()
            for _, module, prior, get, _ in model.named_priors()
        )
        mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
        evidence, _ = model.inference.evidence(
            model.trial_likelihood,
            *model.prior_of_training_trials(),
            model.train_targets,
        )
        found = mll.at_training_data() * model.train_targets.shape[-1]
        torch.testing.assert_close(found, evidence + density)

    def test_batch_is_as_single_models(self) -> None:
        batch = examined_lenses((2,))
        all_X, all_Y = batch.train_inputs[0], batch.train_targets.unsqueeze(-1)
        batch.mean_module.base_mean.slope = double([[4.0], [9.0]])
        points = lens_space().at_reference(uniform(3, 2))
        whole = batch.posterior(points).mean
        for i, slope in enumerate([4.0, 9.0]):
            single = psychometric_gp(
                all_X[i],
                all_Y[i],
                lens_space(),
                1 / 26,
                combinations=POWER_VECTOR,
                shape=BLUR,
            )
            mean: Any = single.mean_module
            mean.base_mean.slope = slope
            torch.testing.assert_close(single.posterior(points).mean, whole[i])

    @pytest.mark.parametrize("rule", ["ucb99-ald", "ts-ald", "mkg", "gradient"])
    def test_rules_suggest_trials_within_the_bounds(self, rule: str) -> None:
        space = lens_space()
        trial = suggest(examined_lenses((2,)), space, rule, seed=0)
        assert trial.shape == (2, 1, 3)
        assert not trial.requires_grad
        assert ((trial >= space.bounds[0]) & (trial <= space.bounds[1])).all()

    def test_population_has_one_slope(self) -> None:
        earlier = [examined_lenses((), seed=seed) for seed in (0, 2, 4)]
        model = population_prior(earlier, mean_function=True).apply(
            examined_lenses((), seed=6)
        )
        base: Any = model.mean_module.base
        assert base.base_mean is base.peaks.context_mean
        assert model.posterior(lens_space().bounds).mean.isfinite().all()

    def test_every_draw_of_hyperparameters_has_its_own_heights(self) -> None:
        model = examined_lenses(())
        draws: Any = draw_hyperparameters(model, 3)
        slopes = draws.mean_module.base_mean.slope  # draws x 1
        assert slopes.flatten().unique().numel() > 1
        X = uniform(4, 2)
        expected = model.mean_module.peaks(X) / model.mean_module.base_mean.slope
        found = draws.mean_module.peaks(X) / slopes.unsqueeze(-1)
        torch.testing.assert_close(found, expected.expand(3, -1, -1))
        points = lens_space().at_reference(X)
        assert draws.posterior(points).mean.shape == (3, 4, 1)

    def test_without_parameters(self) -> None:
        space = ContextSpace(double([[-1.0], [2.0]]), [0], [0.5])
        X = double([[0.0], [1.0]])
        models = [
            psychometric_gp(X, double([[0.0], [1.0]]), space, shape=shape)
            for shape in ("any", BLUR)
        ]
        torch.testing.assert_close(*[m.posterior(X).mean for m in models])

    def test_acuity_with_the_best_lens(self) -> None:
        """Before any letter: as expected, or anything if nothing is expected."""
        spreads = {}
        for name, law in {"any": PeakLaw(1.0, 1.0), "blur": BLUR}.items():
            model = unexamined_lenses(shape=law)
            offset = model.covar_module.base_kernel.kernels[-1].constant
            slope = model.mean_module.base_mean.slope / self.unit_of_context
            spreads[name] = (offset.sqrt() / slope).item()
        assert spreads["blur"] == pytest.approx(0.2)
        assert spreads["any"] > 1.0

    def test_directions(self) -> None:
        """Where tests become harder upwards, the threshold falls around the best."""
        space = lens_space()
        up, down = (
            unexamined_lenses(harder=harder, shape=PeakLaw(1.0, 1.0, lowest, 0.1))
            for harder, lowest in (("up", 0.7), ("down", 0.3))
        )
        lens = double([[0.5, 1.0]])
        # As far above the middle of the context as below it.
        rows = [space.join(lens, double([[size]])) for size in (0.1, 0.9)]
        means = [m.posterior_mean(row) for m, row in zip((up, down), rows, strict=True)]
        torch.testing.assert_close(*means)

    def test_needs_a_unit_of_distances(self) -> None:
        X = uniform(1, 3)
        with pytest.raises(InputDataError, match="``combinations`` of the parameters"):
            psychometric_gp(X, X[:, :1].round(), lens_space(), shape=BLUR)

    def test_needs_one_context(self) -> None:
        bounds = double([[-4.0, -1.0, 0.0], [4.0, 2.0, 1.0]])
        space = ContextSpace(bounds, [1, 2], [0.5, 0.5])
        X = uniform(1, 3)
        with pytest.raises(InputDataError, match="one context.* but it has 2"):
            psychometric_gp(X, X[:, :1].round(), space, shape=BLUR)


@pytest.mark.parametrize(
    ("rise", "width", "name"), [(0.0, 1.0, "rise"), (1.0, math.inf, "width")]
)
def test_refuses_wrong_laws(rise: float, width: float, name: str) -> None:
    with pytest.raises(InputDataError, match=f"``{name}`` to be positive"):
        PeakLaw(rise, width)


def test_threshold_peaks_keep_device_and_precision() -> None:
    mean = LinearContextMean([0], slope=3.0)
    with RequireDevice():
        peaks = ThresholdPeaks(uniform(16, 2).float(), mean, PeakLaw(1.0, 0.2))
        values = peaks(uniform(3, 2).float())
    assert values.dtype == torch.float32
    torch.testing.assert_close(
        values, 3.0 * Peaks.forward(peaks, uniform(3, 2)).float()
    )


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({"lowest": 0.1}, "``lowest`` and ``uncertainty`` to be given together"),
        ({"uncertainty": 0.1}, "``lowest`` and ``uncertainty`` to be given together"),
        ({"lowest": 0.1, "uncertainty": 0.0}, "``uncertainty`` to be positive"),
        ({"lowest": math.nan, "uncertainty": 0.1}, "``lowest`` to be finite"),
    ],
)
def test_refuses_wrong_expectations(known: dict[str, float], expected: str) -> None:
    with pytest.raises(InputDataError, match=expected):
        PeakLaw(1.0, 1.0, **known)
