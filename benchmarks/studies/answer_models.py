r"""
Models that predict answers from earlier ones: ours, and what others would use.

Each is a function of training answers of several repetitions, ``r x n x ... x d``, and
the trials to predict. Ours fit all repetitions as one batch, the others one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from benchmarks.studies.answer_sets import Answers
from benchmarks.studies.experiment import FIT_OPTIONS
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.models import (
    ApproximateMarginalLogLikelihood,
    AveragedGP,
    BinaryGP,
    PreferenceGP,
    psychometric_gp,
)
from botorch_binary_context.models.latent_gp import LatentGP

NUM_SETS = 16
AT_ONCE = 100  # predicted trials

#: From training answers and trials, ``r x t x ...``, to ``r x t`` probabilities.
Predict = Callable[[Answers, Tensor], Tensor]


def _model(train: Answers) -> LatentGP:
    """Our default model for the kind of answers, with learned hyperparameters."""
    model: LatentGP
    if train.are_duels:
        model = PreferenceGP(train.X, train.Y)
    elif train.context is None:
        model = BinaryGP(train.X, train.Y)
    else:
        dim = train.X.shape[-1]
        bounds = torch.stack([torch.zeros(dim), torch.ones(dim)]).to(train.X)
        space = ContextSpace(bounds, [train.context], [0.5])
        model = psychometric_gp(train.X, train.Y, space, train.guess_rate)
    mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
    fit_gpytorch_mll(mll, optimizer_kwargs={"options": FIT_OPTIONS})
    return model.eval()


def _rows(trials: Tensor) -> Tensor:
    """``r x t x ...`` trials as ``t x r x q x d`` candidates."""
    return (
        trials.movedim(1, 0) if trials.ndim == 4 else trials.movedim(1, 0)[..., None, :]
    )


@torch.no_grad()
def predict(model: LatentGP, trials: Tensor) -> Tensor:
    r"""The probabilities of passes or of first sides.

    Args:
        model: A model of ours.
        trials: What to predict, ``r x t x ...``.

    Returns:
        An ``r x t`` tensor.
    """
    mean, variance = model.moments(_rows(trials))
    return model.likelihood.expected_probability(mean, variance).mT


def average(model: LatentGP, trials: Tensor) -> Tensor:
    r"""The probabilities, averaged over draws of the hyperparameters.

    Args:
        model: A model of ours.
        trials: What to predict, ``r x t x ...``.

    Returns:
        An ``r x t`` tensor.
    """
    averaged = AveragedGP(model, NUM_SETS)
    with torch.no_grad():
        mean, variance = averaged.draws.moments(_rows(trials).unsqueeze(1))
        p = averaged.draws.likelihood.expected_probability(mean, variance)
    return p.mean(dim=1).mT


def ours(train: Answers, trials: Tensor) -> Tensor:
    r"""Our default model, at its most probable hyperparameters."""
    return predict(_model(train), trials)


def ours_averaged(train: Answers, trials: Tensor) -> Tensor:
    r"""Our default model, averaged over draws of the hyperparameters."""
    return average(_model(train), trials)


def pairwise_gp(train: Answers, trials: Tensor) -> Tensor:
    r"""BoTorch's model of duels, with its own priors."""
    found = []
    for X, Y, T in zip(train.X, train.Y, trials, strict=True):
        pairs = torch.arange(2 * len(X)).view(-1, 2)
        comparisons = torch.where(Y > 0, pairs, pairs.flip(-1))
        model = PairwiseGP(X.flatten(0, 1), comparisons)
        mll = PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model)
        fit_gpytorch_mll(mll)
        with torch.no_grad():
            parts: list[Any] = [model.posterior(part) for part in T.split(AT_ONCE)]
        mean = torch.cat([p.mean[:, 0, 0] - p.mean[:, 1, 0] for p in parts])
        covariance = torch.cat([p.distribution.covariance_matrix for p in parts])
        variance = covariance[:, 0, 0] + covariance[:, 1, 1] - 2 * covariance[:, 0, 1]
        found.append(torch.special.ndtr(mean / (2 + variance).sqrt()))
    return torch.stack(found)


def _by_rows(
    make: Callable[[int], GaussianProcessClassifier | LogisticRegression],
) -> Predict:
    """A classifier of scikit-learn; of duels, it sees differences in both orders."""

    def predict(train: Answers, trials: Tensor) -> Tensor:
        found = []
        for X, Y, T in zip(train.X, train.Y[..., 0], trials, strict=True):
            seen = X.numpy()
            labels = Y.numpy()
            asked = T.numpy()
            if train.are_duels:
                difference = seen[:, 0] - seen[:, 1]
                seen = np.concatenate([difference, -difference])
                labels = np.concatenate([labels, 1 - labels])
                asked = asked[:, 0] - asked[:, 1]
            if len(set(labels)) < 2:  # which no classifier accepts
                found.append(torch.full((len(T),), float(labels.mean())).to(T))
                continue
            fitted = make(seen.shape[-1]).fit(seen, labels)
            p = torch.from_numpy(fitted.predict_proba(asked)[:, 1])
            if train.are_duels:
                q = torch.from_numpy(fitted.predict_proba(-asked)[:, 1])
                p = (p + 1 - q) / 2
            found.append(p)
        return torch.stack(found)

    return predict


def _sklearn_gp(dim: int) -> GaussianProcessClassifier:
    kernel = ConstantKernel(1.0, (1e-2, 1e3)) * RBF(np.ones(dim), (1e-2, 1e2))  # pyright: ignore
    return GaussianProcessClassifier(kernel, random_state=0)


_LINEAR = _by_rows(lambda dim: LogisticRegression(max_iter=1000))
_LINEAR_DUELS = _by_rows(lambda dim: LogisticRegression(fit_intercept=False))
#: Models of duels by their names.
DUEL_MODELS: Mapping[str, Predict] = {
    "ours": ours,
    "ours, averaged": ours_averaged,
    "PairwiseGP": pairwise_gp,
    "Bradley-Terry": _LINEAR_DUELS,
    "scikit-learn GP": _by_rows(_sklearn_gp),
}
#: Models of pass/fail answers by their names.
PASS_FAIL_MODELS: Mapping[str, Predict] = {
    "ours": ours,
    "ours, averaged": ours_averaged,
    "scikit-learn GP": _by_rows(_sklearn_gp),
    "logistic regression": _LINEAR,
}
