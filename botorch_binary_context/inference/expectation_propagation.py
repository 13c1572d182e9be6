r"""
Expectation propagation: Gaussian sites that match the moments of the true posterior.

The likelihood of trial ``i`` is replaced by a site ``exp(ν f - ½ τ f²)``, such that the
Gaussian without the site (the *cavity*) times the true likelihood has the same mean and
variance as the Gaussian with the site [Minka2001expectation]_. Laplace's method looks
at the posterior at one point, its mode; expectation propagation matches all of it, and
the mean of a skewed posterior is right to a few hundredths of a standard deviation.

With a guess or a lapse rate a trial may make the posterior wider: its site precision is
negative. Such sites are kept, with a second factorization in addition to the one of the
positive sites, since setting them to zero makes intervals about 10 % too narrow with
two alternatives.

.. [Minka2001expectation]
    T. P. Minka. Expectation propagation for approximate Bayesian inference. UAI 2001.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from botorch_binary_context.inference.gaussian import (
    GaussianApproximation,
    Inference,
    Start,
    TiltedLikelihood,
    TrialLikelihood,
    factorize,
    matvec,
)
from botorch_binary_context.inference.laplace import laplace_approximation
from botorch_binary_context.inference.local_posterior import LocalPosterior
from botorch_binary_context.inference.site_search import (
    CURVATURE,
    ClampedLikelihood,
    SiteSearch,
)
from botorch_binary_context.inference.sites import (
    Cavity,
    Marginals,
    Sites,
    match_moments,
    site_jacobian,
)
from botorch_binary_context.inference.slopes import Slopes, attach_slopes
from botorch_binary_context.inference.small import SmallProblem, SmallSites, to_slopes
from botorch_binary_context.likelihoods.probit_terms import Array
from botorch_binary_context.numerics.notices import warn_of_inaccuracy

TOLERANCE = 1e-5
MAX_SWEEPS = 200
# The maximum number of new trials that are added one by one to a former posterior.
MAX_NEW_TRIALS = 4


class ExpectationPropagation(Inference):
    r"""Expectation propagation, with negative sites where guesses or lapses need them.

    Example:
        >>> model = BinaryGP(train_X, train_Y, inference=ExpectationPropagation())
    """

    def __init__(
        self, tolerance: float = TOLERANCE, max_sweeps: int = MAX_SWEEPS
    ) -> None:
        r"""
        Args:
            tolerance: The most that one more sweep may change the moments of any trial,
                in posterior standard deviations.
            max_sweeps: The maximum number of factorizations of the posterior. A warning
                says if they did not suffice.
        """
        self.tolerance = tolerance
        self.max_sweeps = max_sweeps

    def approximate(
        self,
        likelihood: TrialLikelihood,
        prior_mean: Tensor,
        K: Tensor,
        targets: Tensor,
        start: Start | None = None,
    ) -> SiteApproximation:
        r"""Approximate the posterior of the contrasts by matching its moments.

        Args:
            likelihood: The likelihood of the trials.
            prior_mean: The prior mean ``m``, ``batch_shape x n``.
            K: The prior covariance, ``batch_shape x n x n``.
            targets: Labels, ``batch_shape x n``.
            start: The ``start`` of a similar approximation, if known.

        Returns:
            The approximation, differentiable once in ``prior_mean`` and ``K``.
        """
        prior = prior_mean, K, targets
        attached = K.requires_grad or prior_mean.requires_grad
        attached = torch.is_grad_enabled() and (attached or likelihood.requires_grad)
        found, matched, local = self._find_sites(likelihood, *prior, start)
        sites = found
        if attached:
            sites = attach_gradient(matched, *prior, sites)
        # The evidence is stationary in the sites only where their moments match.
        kept = found if matched is likelihood else sites
        return _approximation(likelihood, *prior, sites, kept, local)

    def evidence(
        self,
        likelihood: TrialLikelihood,
        prior_mean: Tensor,
        K: Tensor,
        targets: Tensor,
        start: Start | None = None,
    ) -> tuple[Tensor, Start]:
        r"""The approximate log evidence, and where to start the next time.

        The evidence is stationary in the sites, so its slopes are the slopes at fixed
        sites: ``a`` and ``½ (a aᵀ - P)``.

        Args:
            likelihood: The likelihood of the trials.
            prior_mean: The prior mean ``m``, ``batch_shape x n``.
            K: The prior covariance, ``batch_shape x n x n``.
            targets: Labels, ``batch_shape x n``.
            start: The ``start`` of a similar approximation, if known.

        Returns:
            ``log p(c)``, ``batch_shape``, and the ``start`` of this approximation.
        """
        prior = prior_mean, K, targets
        small = self._find_small(likelihood, *prior, start)
        if small is not None:
            value = K.new_tensor(small.log_evidence[0])
            sites = _small_sites(small)
            if torch.is_grad_enabled():
                value = _attach(value, likelihood, *prior, sites, to_slopes(small))
            return value, Start(torch.from_numpy(small.start[0]))
        sites, matched, _ = self._find_sites(likelihood, *prior, start)
        begin = Start(sites.stack())
        if matched is not likelihood and torch.is_grad_enabled():
            # Stationary only where the moments match.
            sites = attach_gradient(matched, *prior, sites)
            return log_evidence(likelihood, *prior, sites), begin
        return _stationary_evidence(likelihood, *prior, sites), begin

    def find_small(
        self, problem: SmallProblem, start: Array | None = None
    ) -> SmallSites:
        r"""The sites of models of few trials.

        Args:
            problem: The priors and the answers.
            start: The site parameters to start from, ``b x n x 2``.

        Returns:
            The sites of each model; ``is_found`` says where the search succeeded.
        """
        return problem.find_sites(start, self.tolerance, self.max_sweeps)

    def _find_small(
        self,
        likelihood: TrialLikelihood,
        prior_mean: Tensor,
        K: Tensor,
        targets: Tensor,
        start: Start | None,
    ) -> SmallSites | None:
        """The sites of a small problem, if it is one."""
        problem = SmallProblem.of(likelihood, prior_mean, K, targets)
        if problem is None:
            return None
        begin = None if start is None else start.values[None].numpy()
        found = self.find_small(problem, begin)
        return found if found.is_found.all() else None

    def _find_sites(
        self,
        likelihood: TrialLikelihood,
        prior_mean: Tensor,
        K: Tensor,
        targets: Tensor,
        start: Start | None,
    ) -> tuple[Sites, TiltedLikelihood, LocalPosterior | None]:
        """The sites, the likelihood whose moments they match, the last posterior."""
        matched: TiltedLikelihood = likelihood
        with torch.no_grad():
            # At least what rounding allows in single precision.
            tolerance = max(self.tolerance, 1e2 * torch.finfo(K.dtype).eps)
            curvature = CURVATURE if likelihood.is_log_concave else torch.inf
            search = SiteSearch(
                likelihood, prior_mean, K, targets, tolerance, curvature
            )
            begin = None
            values = None
            if start is not None:
                values = start.values
                begin = _extend(search, start)
            sites, error, local = search.run(values, self.max_sweeps, begin)
            if not bool((error <= tolerance).all()):
                sites, error, matched = self._retry(search, likelihood, sites, error)
                local = None
        if not bool((error <= tolerance).all()):
            warn_of_inaccuracy(
                "Expectation propagation did not reach its tolerance of "
                f"{tolerance:.1g} in {self.max_sweeps} sweeps; the moments of some "
                f"trial still change by {float(error.max()):.1g} posterior standard "
                "deviations.",
            )
        return sites, matched, None if local is None else local.compact()

    def _retry(
        self,
        search: SiteSearch,
        likelihood: TrialLikelihood,
        sites: Sites,
        error: Tensor,
    ) -> tuple[Sites, Tensor, TiltedLikelihood]:
        """Search again, for elements of the batch whose sites were not found.

        The first retry starts from Laplace's approximation. Where a posterior has
        several modes, there may be no match; the next retry then uses no negative
        sites, and warns.
        """
        mean = search.prior_mean
        K = search.K
        targets = search.targets
        start = laplace_approximation(likelihood, mean, K, targets).as_sites()
        missed = ~(error <= search.tolerance)
        sites, error = search.rerun(missed, start, sites, error, self.max_sweeps)
        missed = ~(error <= search.tolerance)
        if likelihood.is_log_concave or not bool(missed.any()):
            return sites, error, likelihood
        clamped = ClampedLikelihood(likelihood, missed)
        search = replace(search, likelihood=clamped)
        nothing = error.masked_fill(missed, torch.inf)
        found, found_error = search.rerun(
            missed, start, sites, nothing, self.max_sweeps
        )
        better = missed & (found_error <= search.tolerance)
        if not bool(better.any()):
            return sites, error, likelihood
        warn_of_inaccuracy(
            "Expectation propagation found no sites that match all moments, as happens "
            "where a posterior has several modes; sites that widen the posterior are "
            "left out.",
        )
        sites = found.where(better, sites)
        error = torch.where(better, found_error, error)
        return sites, error, replace(clamped, chosen=better)


@dataclass(frozen=True, kw_only=True)
class SiteApproximation(GaussianApproximation):
    r"""A Gaussian approximation by sites that match moments.

    Attributes:
        sites: The sites at which the evidence is evaluated.
        likelihood: The likelihood of the trials.
        targets: Their labels.
        local: The posterior near the sites, if it is known.
    """

    sites: Sites
    likelihood: TrialLikelihood
    targets: Tensor
    local: LocalPosterior | None = None

    @property
    def log_evidence(self) -> Tensor:
        r"""The approximate ``log p(c)``, Eq. 3.65 of [Rasmussen2006gpml]_."""
        return log_evidence(
            self.likelihood,
            self.prior_mean,
            self.prior_covariance,
            self.targets,
            self.sites,
        )

    def as_sites(self) -> Tensor:
        r"""The site parameters ``τ`` and ``ν``, ``batch_shape x n x 2``."""
        return self.sites.stack()

    @property
    def start(self) -> Start:
        """The site parameters."""
        return Start(self.as_sites())


def _approximation(
    likelihood: TrialLikelihood,
    prior_mean: Tensor,
    K: Tensor,
    targets: Tensor,
    sites: Sites,
    found: Sites,
    local: LocalPosterior | None = None,
) -> SiteApproximation:
    """The posterior that follows from the prior and the sites."""
    root = sites.root()
    inflation = None
    cholesky = factorize(K, root)
    b = sites.location - sites.precision * prior_mean
    Kb = matvec(K, b).unsqueeze(-1)
    P_Kb = root.unsqueeze(-1) * torch.cholesky_solve(root.unsqueeze(-1) * Kb, cholesky)
    if sites.has_negative:
        inflation = _inflation(K, sites, cholesky)
        P_Kb = P_Kb - inflation.mT @ (inflation @ Kb)
    return SiteApproximation(
        prior_mean=prior_mean,
        prior_covariance=K,
        weights=b - P_Kb.squeeze(-1),
        sqrt_information=root,
        cholesky=cholesky,
        inflation=inflation,
        sites=found,
        likelihood=likelihood,
        targets=targets,
        local=local,
    )


def _small_sites(found: SmallSites) -> Sites:
    precision = torch.from_numpy(found.precision[0])
    return Sites(precision, torch.from_numpy(found.location[0]))


def _extend(search: SiteSearch, start: Start) -> LocalPosterior | None:
    """The posterior near the sites of a former approximation, with new trials."""
    former = start.former
    known = start.known
    if not isinstance(former, SiteApproximation) or known is None:
        return None
    if former.local is None or int((~known).sum()) > MAX_NEW_TRIALS:
        return None
    return search.extend(former.local, known)


def _inflation(K: Tensor, sites: Sites, cholesky: Tensor) -> Tensor:
    """``R = L₂⁻¹ D (I - K P₊)``, with ``L₂`` the factor of ``I - D Σ₊ D``, ``D² = -τ``.

    ``P₊`` and ``Σ₊`` belong to the positive sites alone.
    """
    root = sites.root().unsqueeze(-1)
    wide = sites.negative_root().unsqueeze(-1)
    P = root * torch.cholesky_solve(torch.diag_embed(root.squeeze(-1)), cholesky)
    left = -K @ P
    left.diagonal(dim1=-2, dim2=-1).add_(1.0)
    system = -wide * (left @ K) * wide.mT
    system.diagonal(dim1=-2, dim2=-1).add_(1.0)
    factor = torch.linalg.cholesky(system)
    return torch.linalg.solve_triangular(factor, wide * left, upper=False)


def attach_gradient(
    likelihood: TiltedLikelihood,
    prior_mean: Tensor,
    K: Tensor,
    targets: Tensor,
    sites: Sites,
) -> Sites:
    r"""Make sites a differentiable function of the prior they belong to.

    The sites are a fixed point ``s = F(s; m, K)`` of a sweep, so that
    ``ds = (I - ∂F/∂s)⁻¹ ∂F``, where ``∂F`` is the change of a sweep with the prior, at
    fixed sites. This is one Newton step, taken with the graph of ``F`` in ``m`` and
    ``K`` alone.

    Args:
        likelihood: The likelihood of the trials.
        prior_mean: The prior mean ``m``, ``batch_shape x n``.
        K: The prior covariance, ``batch_shape x n x n``.
        targets: Labels, ``batch_shape x n``.
        sites: The sites, without a graph.

    Returns:
        The same sites, with their first derivatives in ``prior_mean``, ``K`` and the
        parameters of the likelihood.
    """
    marginals = Marginals.of(prior_mean, K, sites)
    moved = match_moments(likelihood, marginals, sites, targets)
    with torch.no_grad():
        system = site_jacobian(likelihood, marginals, sites, targets).neg_()
        system.diagonal(dim1=-2, dim2=-1).add_(1.0)
    step = torch.cat(
        [moved.precision - sites.precision, moved.location - sites.location], dim=-1
    )
    step = torch.linalg.solve(system, step.unsqueeze(-1)).squeeze(-1)
    precision, location = step.chunk(2, dim=-1)
    return Sites(sites.precision + precision, sites.location + location)


def log_evidence(
    likelihood: TrialLikelihood,
    prior_mean: Tensor,
    K: Tensor,
    targets: Tensor,
    sites: Sites,
) -> Tensor:
    r"""The approximate ``log p(c)`` that sites give.

    It is the mass of the prior times the sites, each scaled to the mass that the true
    likelihood has in its cavity; Eq. 3.65 of [Rasmussen2006gpml]_ in terms that stay
    finite for any site.

    Args:
        likelihood: The likelihood of the trials.
        prior_mean: The prior mean ``m``, ``batch_shape x n``.
        K: The prior covariance, ``batch_shape x n x n``.
        targets: Labels, ``batch_shape x n``.
        sites: The sites.

    Returns:
        A ``batch_shape`` tensor, with its gradient at fixed sites.
    """
    marginals = Marginals.of(prior_mean, K, sites)
    cavity = marginals.cavity(sites)
    true = likelihood.tilted_derivatives(cavity.mean, cavity.variance, targets).value
    return _combine_evidence(prior_mean, sites, marginals, cavity, true)


def _combine_evidence(
    m: Tensor, sites: Sites, marginals: Marginals, cavity: Cavity, true: Tensor
) -> Tensor:
    """The evidence, given the log masses of the true likelihood in the cavities."""
    tau = sites.precision
    nu = sites.location
    c = cavity.variance
    mu = cavity.mean
    shift = nu - tau * mu
    site = mu * (nu - tau * mu / 2) + shift.square() * c / (1 + tau * c) / 2
    scale = true - site + (1 + tau * c).log() / 2
    prior = m * (nu - tau * m / 2) + (nu - tau * m) * (marginals.mean - m) / 2
    return (prior + scale).sum(dim=-1) - marginals.half_log_det


def _stationary_evidence(
    likelihood: TrialLikelihood,
    prior_mean: Tensor,
    K: Tensor,
    targets: Tensor,
    sites: Sites,
) -> Tensor:
    """The evidence where it is stationary in the sites, with slopes in closed form."""
    with torch.no_grad():
        marginals = Marginals.by_inverse(prior_mean, K, sites)
        if marginals is None:
            marginals = Marginals.of(prior_mean, K, sites)
        cavity = marginals.cavity(sites)
    # With a graph to the parameters of the likelihood, if they are learned.
    true = likelihood.tilted_derivatives(cavity.mean, cavity.variance, targets).value
    with torch.no_grad():
        value = _combine_evidence(prior_mean, sites, marginals, cavity, true)
    if torch.is_grad_enabled():
        slopes = _stationary_slopes(sites, marginals)
        value = _attach(value, likelihood, prior_mean, K, targets, sites, slopes)
    if not true.requires_grad:
        return value
    return value + (true - true.detach()).sum(dim=-1)


def _attach(
    value: Tensor,
    likelihood: TrialLikelihood,
    prior_mean: Tensor,
    K: Tensor,
    targets: Tensor,
    sites: Sites,
    slopes: Slopes,
) -> Tensor:
    """The evidence at fixed sites, with its slopes in the prior."""
    if not (K.requires_grad or prior_mean.requires_grad):
        return value

    def evaluate(mean: Tensor, K: Tensor) -> Tensor:
        return log_evidence(likelihood, mean, K, targets, sites)

    return attach_slopes(value, prior_mean, K, slopes, evaluate)


def _stationary_slopes(sites: Sites, marginals: Marginals) -> Slopes:
    """``a = ν - τ μ`` and ``½ (a aᵀ - P)`` with ``P = T - T Σ T``."""
    with torch.no_grad():
        tau = sites.precision
        weights = sites.location - tau * marginals.mean
        slope = marginals.covariance * (tau.unsqueeze(-1) / 2)
        slope.mul_(tau.unsqueeze(-2))
        slope.diagonal(dim1=-2, dim2=-1).sub_(tau / 2)
        slope.addcmul_(weights.unsqueeze(-1), weights.unsqueeze(-2), value=0.5)
        return Slopes(weights, slope)
