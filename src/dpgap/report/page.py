"""One self-contained HTML page of one run or several, and its charts as files."""

import json
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from dpgap.errors import InvalidInput
from dpgap.report import charts, words
from dpgap.report.curves import Thresholds, curves_of, histogram_of, removed_of, rounded, thresholds_of
from dpgap.report.facts import Facts, facts_of
from dpgap.store.store import DEFAULT_STORE, Store

PRIVATE = (
    "This page is an auditor's document. It holds private state: what models betrayed of who was in them, "
    "and when records were removed. None of that is covered by eps_ub; do not publish it with the model."
)


def page(runs: list[Facts]) -> str:
    """The page: what each run shows, and a table that puts several side by side.

    **Guarantees**: nothing is fetched from anywhere, and whatever the store holds is shown as text.
    """
    assets = files("dpgap.report") / "assets"
    template = _environment().from_string((assets / "page.html").read_text("utf-8"))
    return template.render(
        title=runs[0].title if len(runs) == 1 else f"{len(runs)} audits side by side",
        runs=[_section(place, run) for place, run in enumerate(runs)],
        private=PRIVATE,
        style=(assets / "style.css").read_text("utf-8"),
        script=(assets / "slider.js").read_text("utf-8"),
    )


def write_report(runs: str | Sequence[str], out: str | Path, *, store: str | Path = DEFAULT_STORE) -> Path:
    """Write what audits found to one HTML file: ``runs`` are their keys, or how they begin.

    The file needs no network. It holds private state: it is the auditor's, and not for publication.

    **Edge cases**: an audit without an end, an unknown run and a place that cannot be written are refused.
    """
    wanted = [runs] if isinstance(runs, str) else runs
    with closing(Store(store, read_only=True)) as opened:
        facts = [facts_of(opened, opened.find(run)) for run in wanted]
    write(Path(out), page(facts))
    return Path(out)


def charts_of(facts: Facts) -> dict[str, Any]:
    """The charts of a run by name."""
    drawn: dict[str, Any] = {
        "tradeoff": charts.tradeoff_chart(curves_of(facts, thresholds_of(facts))),
        "scores": charts.histogram_chart(histogram_of(facts)),
    }
    removed = removed_of(facts)
    return drawn if removed is None else drawn | {"removed": charts.removed_chart(removed)}


def chart_files(facts: Facts, kind: charts.Format) -> dict[str, bytes]:
    """Each chart of a run as the content of a file, by name."""
    return {name: charts.as_file(chart, kind) for name, chart in charts_of(facts).items()}


def write(path: Path, content: str | bytes) -> None:
    """Write a file, or say why it cannot be."""
    try:
        if isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        else:
            path.write_bytes(content)
    except OSError as problem:
        raise InvalidInput(
            f"{path} could not be written: {problem.strerror}. Choose another place."
        ) from problem


_DESCRIBED = {
    "tradeoff": "Trade-off between false-positive and false-negative rates",
    "scores": "Histogram of the scores of both worlds",
    "removed": "Share of each class that the filter had removed, over epochs",
}


def _section(place: int, facts: Facts) -> dict[str, Any]:
    drawn = {name: charts.on_page(chart, _DESCRIBED[name]) for name, chart in charts_of(facts).items()}
    return {
        "id": f"run{place}",
        "facts": facts,
        "verdict": words.verdict(facts),
        "charts": drawn,
        "slider": _slider(facts, thresholds_of(facts)),
        "specification": json.dumps(facts.specification, indent=2, sort_keys=True),
        "provenance": json.dumps(facts.provenance, indent=2, sort_keys=True),
    }


def _slider(facts: Facts, thresholds: Thresholds) -> dict[str, Any]:
    """What the script reads: columns by threshold, where it starts, and how charts are scaled."""
    edges = histogram_of(facts).edges
    at = thresholds.at.tolist()
    chosen = facts.headline.threshold
    columns = {"fpr": thresholds.fpr, "fnr": thresholds.fnr}
    kinds = {"band": thresholds.band, "pointwise": thresholds.pointwise}
    for kind, limits in kinds.items():
        if limits is not None:
            columns |= {f"{kind}_{name}": values for name, values in vars(limits).items()}
    return {
        "at": rounded(at, 6),
        "start": at.index(chosen) if chosen in at else len(at) // 2,
        "scores": [float(edges[0]), float(edges[-1])],
        "wide": charts.WIDE,
        "high": charts.HIGH,
        "columns": {name: rounded(values) for name, values in columns.items()},
    }


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.globals |= {
        "number": words.number,
        "spread": words.spread,
        "interval": words.interval,
        "left": words.left,
        "looked": words.looked,
        "status": words.status,
        "saw": words.SAW,
    }
    return environment
