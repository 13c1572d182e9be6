r"""Every module has a test file of its name, or is named here with the one it has.

A module ``a/b.py`` is tested by ``tests/a/test_b.py``. A small package may be tested
as a whole: ``a/b/c.py`` by ``tests/a/test_b.py`` or ``tests/a/b/test_b.py``. What is
left are the interiors below: no one calls them but the module whose tests are named.
"""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "botorch_binary_context"
TESTS = ROOT / "tests"
#: Modules that are tested through others, by the file that tests them.
INTERIORS = {
    "acquisition/test_input_constructors.py": ("acquisition/best_option.py",),
    "acquisition/test_many_outcomes.py": ("acquisition/joint_information.py",),
    "acquisition/test_one_shot.py": ("acquisition/joint_search.py",),
    "acquisition/test_moment_matched.py": ("acquisition/outcomes.py",),
    "ax/test_duels.py": ("ax/models.py", "ax/recommendation.py"),
    "ax/test_refusals.py": ("ax/trials.py",),
    "ax/test_storage.py": ("ax/goals.py",),
    "ax/test_strategy.py": ("ax/acquisition.py", "ax/columns.py"),
    "experiment/test_answers.py": (
        "experiment/feedback.py",
        "experiment/feedback_base.py",
    ),
    "experiment/test_damage.py": ("experiment/checksums.py",),
    "experiment/test_experiment.py": (
        "experiment/conditions.py",
        "experiment/exports.py",
        "experiment/opening.py",
        "experiment/state.py",
    ),
    "experiment/test_hostile_settings.py": (
        "experiment/details.py",
        "experiment/toml_tables.py",
    ),
    "experiment/test_journal.py": (
        "experiment/connection.py",
        "experiment/events.py",
        "experiment/rows.py",
        "experiment/trial_index.py",
        "experiment/trial_log.py",
    ),
    "experiment/test_journal_files.py": ("experiment/files.py",),
    "experiment/test_migration.py": ("experiment/schema.py",),
    "experiment/test_prior.py": ("experiment/coordinates.py",),
    "experiment/test_recommendation.py": (
        "experiment/estimates.py",
        "experiment/region.py",
    ),
    "experiment/test_session.py": ("experiment/chooser.py", "experiment/notes.py"),
    "experiment/test_sharing.py": ("experiment/computing.py",),
    "experiment/test_settings.py": ("experiment/settings_checks.py",),
    "experiment/test_stopping.py": ("experiment/summary.py",),
    "experiment/test_variables.py": ("experiment/ranges.py",),
    "goals/test_acquisition.py": (
        "acquisition/goal_bounds.py",
        "acquisition/sampled_knowledge_gradient.py",
    ),
    "goals/test_maps.py": ("acquisition/level_set.py",),
    "inference/test_exact.py": ("diagnostics.py",),
    "inference/test_expectation_propagation.py": ("inference/site_search.py",),
    "inference/test_laplace.py": ("inference/mode_search.py",),
    "likelihoods/test_answers.py": (
        "likelihoods/intervals.py",
        "likelihoods/ordinal.py",
    ),
    "likelihoods/test_learned_rates.py": ("likelihoods/priors.py",),
    "models/test_best_of_gp.py": ("likelihoods/best_of.py",),
    "models/test_extension.py": ("models/conditioning.py",),
    "models/test_hyperparameters.py": ("models/averaged_gp.py",),
    "models/test_inducing_gp.py": ("inference/inducing.py",),
    "models/test_latent_gp.py": ("models/trial_model.py",),
    "models/test_mixed_gp.py": ("models/observations.py",),
    "models/test_psychometric.py": (
        "models/coordinates.py",
        "models/pooled.py",
        "models/power_vectors.py",
    ),
    "models/test_small_objective.py": ("models/small_kernel.py",),
    "numerics/test_covariance.py": ("numerics/distances.py",),
    "plotting/test_every_plot.py": (
        "plotting/approximation.py",
        "plotting/predictions.py",
        "plotting/slices.py",
        "plotting/style.py",
    ),
    "problems/test_registry.py": ("problems/objective.py",),
    "rules/test_batches.py": ("pending.py", "rules/suggestion.py", "trials.py"),
    "rules/test_constraints.py": ("constraints.py", "rules/stopping.py"),
    "rules/test_table.py": (
        "rules/base.py",
        "rules/contexts.py",
        "rules/joint.py",
        "rules/parameters.py",
    ),
    "sampling/test_features.py": (
        "sampling/basis.py",
        "sampling/periodic.py",
        "sampling/random_products.py",
    ),
    "sampling/test_paths.py": ("models/matheron_paths.py",),
    "test_docs.py": ("exports.py", "lazy.py"),
    "test_hostile_calls.py": (
        "checks.py",
        "errors.py",
        "models/inference_mode.py",
    ),
    "web/test_api.py": (
        "web/ahead.py",
        "web/app.py",
        "web/desk.py",
        "web/ending.py",
        "web/exports.py",
        "web/guard.py",
        "web/lab.py",
        "web/refusals.py",
        "web/reporter.py",
        "web/server.py",
    ),
    "web/test_hostile_requests.py": ("web/body.py",),
}
#: The most modules of a package that is tested as a whole.
SMALL = 14
THROUGH = {module: test for test, modules in INTERIORS.items() for module in modules}


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


MODULES = sorted(
    path for path in PACKAGE.rglob("*.py") if not path.name.startswith("__")
)


def mirrors_of(module: Path) -> list[Path]:
    """The files that may test a module by their name."""
    folder = TESTS / module.relative_to(PACKAGE).parent
    own = folder / f"test_{module.name}"
    if len(list(module.parent.glob("*.py"))) > SMALL:
        return [own]
    package = f"test_{module.parent.name}.py"
    return [own, folder / package, folder.parent / package]


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_module_has_a_test_file(module: Path) -> None:
    mirrored = any(path.is_file() for path in mirrors_of(module))
    listed = THROUGH.get(name_of(module))
    assert mirrored or (listed and (TESTS / listed).is_file())


def test_interiors_exist_and_have_no_file_of_their_own() -> None:
    for name in THROUGH:
        assert (PACKAGE / name).is_file(), name
        assert not mirrors_of(PACKAGE / name)[0].is_file(), f"{name} has a mirror"
