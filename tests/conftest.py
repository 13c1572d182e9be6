import torch
from hypothesis import HealthCheck, settings

# The time of one example says nothing on a shared machine.
settings.register_profile(
    "default",
    deadline=None,
    max_examples=40,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("default")
torch.set_num_threads(1)
