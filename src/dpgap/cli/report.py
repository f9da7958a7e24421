"""``dpgap report`` and ``dpgap compare``: audits as a page to hand over."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from dpgap.cli._print import print_json, print_table, shown
from dpgap.errors import InvalidInput

if TYPE_CHECKING:
    from dpgap.report.side_by_side import Row

Run = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
Runs = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN RUN ...")]
_STORE = Path("dpgap.sqlite")


def report(
    run: Run,
    *,
    store: Path = _STORE,
    out: Path | None = None,
    export: Literal["png", "svg", "pdf"] | None = None,
) -> None:
    """Write what an audit found to one HTML file, which needs no network.

    The file holds private state: it is for the auditor, not for publication with the model.

    Args:
        run: The run's key, or how it begins; dpgap runs lists them.
        store: The store's file.
        out: The file to write; else dpgap-KEY.html here.
        export: Write each chart as well, to a file of this kind beside the page.
    """
    from dpgap.report.facts import read_facts
    from dpgap.report.page import chart_files, page, write
    from dpgap.report.words import verdict

    (facts,) = read_facts(store, [run])
    target = out or Path(f"dpgap-{facts.key[:12]}.html")
    write(target, page([facts]), beside=[store])
    written = [target]
    for name, content in chart_files(facts, export).items() if export else ():
        written.append(target.with_name(f"{target.stem}-{name}.{export}"))
        write(written[-1], content, beside=[store])
    print(verdict(facts))
    print(f"Wrote {', '.join(map(str, written))}, with private state: for the auditor.")


def compare(runs: Runs, *, store: Path = _STORE, out: Path | None = None, json: bool = False) -> None:
    """Put audits side by side: a table here, and on one HTML page with --out.

    Args:
        runs: Their keys, or how they begin.
        store: The store's file.
        out: The page to write, with everything that dpgap report shows of each.
        json: Print JSON.
    """
    from dpgap.report.facts import read_facts
    from dpgap.report.page import page, write
    from dpgap.report.side_by_side import side_by_side

    if len(runs) < 2:
        raise InvalidInput(f"RUN must be given twice or more, got {len(runs)}. dpgap runs lists the keys.")
    compared = read_facts(store, runs)
    rows = side_by_side(compared)
    if out:
        write(out, page(compared), beside=[store])
    if json:
        print_json({"runs": rows, "report": out and str(out)})
        return
    print_rows(rows)
    if out:
        print(f"Wrote {out}, with private state: for the auditor.")


def print_rows(rows: "list[Row]") -> None:
    """Audits side by side, a row each."""
    from dpgap.report.words import at_least, at_most

    print_table(
        "Audits side by side",
        ("audit", "key", "eps_ub", "eps_lb", "paper's eps_lb", "test accuracy", "models"),
        [
            (
                row.title,
                row.key[:8],
                at_most(row.eps_ub),
                at_least(row.eps_lb),
                shown(row.eps_lb_paper),
                "-" if row.accuracy is None else f"{row.accuracy:.1%}",
                f"{row.models}{', incomplete' if row.status == 'incomplete' else ''}",
            )
            for row in rows
        ],
    )
    print("eps_lb is certified by the rule named before the audit; the paper's is heuristic.")
