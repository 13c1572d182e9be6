r"""Names of the modules that hold what tests share, for tests not yet changed."""

from __future__ import annotations

from botorch.utils.testing import BotorchTestCase

from tests.derivatives import finite_difference as finite_difference
from tests.derivatives import jacobian as jacobian
from tests.devices import RequireDevice as RequireDevice
from tests.golden_numbers import BINARY_FILES as BINARY_FILES
from tests.golden_numbers import DATA as DATA
from tests.golden_numbers import ConditionalKernel as ConditionalKernel
from tests.golden_numbers import golden_duels as golden_duels
from tests.golden_numbers import golden_kernel as golden_kernel
from tests.golden_numbers import golden_preference_kernel as golden_preference_kernel
from tests.golden_numbers import load_golden as load_golden
from tests.golden_numbers import stock_kernel as stock_kernel
from tests.latent_posteriors import assert_same_posterior as assert_same_posterior
from tests.latent_posteriors import label_posterior as label_posterior
from tests.latent_posteriors import latent as latent
from tests.latent_posteriors import latent_covariance as latent_covariance
from tests.quadrature import normal_expectation as normal_expectation
from tests.sampling_errors import LARGEST_Z as LARGEST_Z
from tests.sampling_errors import largest_z as largest_z
from tests.small_models import MODEL_CLASSES as MODEL_CLASSES
from tests.small_models import UNIT as UNIT
from tests.small_models import AnyModel as AnyModel
from tests.small_models import ModelClass as ModelClass
from tests.small_models import element as element
from tests.small_models import join_rows as join_rows
from tests.small_models import random_model as random_model
from tests.small_models import random_trials as random_trials
from tests.small_models import simple_kernel as simple_kernel
from tests.stationary_kernels import matrix_of as matrix_of
from tests.stationary_kernels import stationary_kernel as stationary_kernel
from tests.tensors import double as double
from tests.tensors import uniform as uniform


class StrictTestCase(BotorchTestCase):
    """A BoTorch test case that leaves warnings what they are in this run: errors."""

    def setUp(self, suppress_input_warnings: bool = False) -> None:
        """Keep the filters of the test run, which BoTorch's own ``setUp`` resets."""
