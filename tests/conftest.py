"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# How long an example or its data take says how busy the machine is, not whether the code is right: under a
# load of ten, both limits failed tests that pass. Everything else that hypothesis looks after stays on.
settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy machine")
