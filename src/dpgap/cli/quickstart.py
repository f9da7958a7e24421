"""``dpgap quickstart``: the gap measured, and closed, on data that comes with dpgap."""

import time
from pathlib import Path

from dpgap.cli._install import need_torch
from dpgap.cli._print import print_json

_NAMES = "without_filter", "with_filter"


def quickstart(
    *,
    store: Path = Path("dpgap-quickstart.sqlite"),
    out: Path = Path("dpgap-quickstart.html"),
    seed: int = 0,
    json: bool = False,
) -> None:
    """Audit one private training with the signature filter and without, on scikit-learn's digits.

    Trains 400 small models for each at eps 10, half of them with a canary of random bits that was chosen to
    be found: two minutes at most. Stopped, the same command goes on.

    Args:
        store: The file that keeps what is trained.
        out: The report to write.
        seed: Another seed trains other models.
        json: Print JSON.
    """
    need_torch("dpgap quickstart")
    from dpgap.cli.report import print_rows
    from dpgap.experiments.from_experiment import run_experiment
    from dpgap.experiments.quickstart import quickstart_experiments
    from dpgap.report.facts import read_facts
    from dpgap.report.page import check_place, page, write
    from dpgap.report.side_by_side import side_by_side

    check_place(out, [store])
    began = time.perf_counter()
    keys = [run_experiment(each, store=store).key for each in quickstart_experiments(seed)]
    facts = read_facts(store, keys)
    write(out, page(facts), beside=[store])
    rows, seconds = side_by_side(facts), time.perf_counter() - began
    if json:
        print_json({**dict(zip(_NAMES, rows, strict=True)), "seconds": seconds, "report": str(out)})
        return
    print_rows(rows)
    print(f"{seconds:.0f} s. The report is {out}: open it in a browser.")
