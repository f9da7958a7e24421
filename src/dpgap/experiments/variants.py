"""Every built-in variant of the extension points, loaded, so that files can name it."""

from dpgap.attacks import lira, loss
from dpgap.audits import every_record, group, one_run, shadow_pairs
from dpgap.canaries import blank, interpolated, mislabelled, random_binary
from dpgap.signatures import gradient, history, output

MODULES = (
    lira,
    loss,
    every_record,
    group,
    one_run,
    shadow_pairs,
    blank,
    interpolated,
    mislabelled,
    random_binary,
    gradient,
    history,
    output,
)
