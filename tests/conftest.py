"""What every test shares: hypothesis searches the same examples on every run."""

import os
from contextlib import suppress
from importlib import import_module

from hypothesis import settings
from jaxtyping import install_import_hook

# Two workers of pytest on two cores: more threads than that only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Triton decides at import whether its kernels are compiled for a GPU or interpreted on the CPU; and it reads
# their source, so that they must be imported before the hook below wraps whatever is imported after it.
os.environ.setdefault("TRITON_INTERPRET", "1")
with suppress(ImportError):
    import_module("dpgap.training.fleet.kernels.draws")
    import_module("dpgap.training.fleet.kernels.forward")
    import_module("dpgap.training.fleet.kernels.rows")

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# Shapes are types, and only the tests check them: the packages whose arrays have more than one axis.
install_import_hook(
    [
        "dpgap.privacy.every_record",
        "dpgap.attacks",
        "dpgap.audits",
        "dpgap.canaries",
        "dpgap.data",
        "dpgap.models",
        "dpgap.signatures",
        "dpgap.training",
    ],
    "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))",
)
