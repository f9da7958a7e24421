"""What every test shares: hypothesis searches the same examples on every run."""

from hypothesis import settings
from jaxtyping import install_import_hook

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
