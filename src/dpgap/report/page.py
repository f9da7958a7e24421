"""One self-contained HTML page of one run or several, and its charts as files."""

import html
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from dpgap.errors import InvalidInput
from dpgap.report import charts, words
from dpgap.report.curves import Shown, rounded, shown_of
from dpgap.report.facts import Facts, read_facts
from dpgap.report.side_by_side import check_side_by_side
from dpgap.store.store import DEFAULT_STORE

PRIVATE = (
    "This page is an auditor's document. It holds private state: what models betrayed of who was in them, "
    "and when records were removed. None of that is covered by eps_ub; do not publish it with the model."
)


def page(runs: list[Facts]) -> str:
    """The page: what each run shows, and a table that puts several side by side.

    **Guarantees**: nothing is fetched from anywhere, and whatever the store holds is shown as text. Runs that
    must not stand side by side are refused.
    """
    check_side_by_side(runs)
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
    facts = read_facts(Path(store), [runs] if isinstance(runs, str) else runs)
    write(Path(out), page(facts), beside=[Path(store)])
    return Path(out)


def charts_of(shown: Shown, *, marked: bool = False) -> dict[str, charts.Chart]:
    """The charts of a run by name; ``marked`` at the headline's threshold."""
    thresholds, start = shown.thresholds, shown.thresholds.start
    place = (float(thresholds.fpr[start]), float(thresholds.fnr[start])) if marked else None
    cut = float(thresholds.at[start]) if marked else None
    drawn = {
        "tradeoff": charts.tradeoff_chart(shown.curves, place),
        "scores": charts.histogram_chart(shown.histogram, cut),
    }
    return drawn | {"removed": charts.removed_chart(shown.removed)} if shown.removed else drawn


def chart_files(facts: Facts, kind: charts.Format) -> dict[str, bytes]:
    """Each chart of a run as the content of a file, by name."""
    return {name: charts.as_file(chart, kind) for name, chart in charts_of(shown_of(facts)).items()}


def write(path: Path, content: str | bytes, *, beside: Sequence[Path] = ()) -> None:
    """Write a file as a whole or not at all, in the place of none of the files ``beside`` it."""
    check_place(path, beside)
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(data)
        partial.replace(path)
    except OSError as problem:
        partial.unlink(missing_ok=True)
        raise InvalidInput(
            f"{path} could not be written: {problem.strerror}. Choose another place."
        ) from problem


def check_place(path: Path, beside: Sequence[Path]) -> None:
    """Refuse to write over one of the files ``beside``, or into a folder that is not there."""
    for other in beside:
        if path.absolute() == other.absolute() or (path.exists() and other.exists() and path.samefile(other)):
            raise InvalidInput(f"{path} is what is read, and would be lost. Name another file to write.")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InvalidInput(f"{path} cannot be a file: its folder is missing, or it is one. Make it first.")


_DESCRIBED = {
    "tradeoff": "Trade-off between false-positive and false-negative rates",
    "scores": "Histogram of the scores of both worlds",
    "removed": "Share of each class that the filter had removed, over epochs",
}


def _section(place: int, facts: Facts) -> dict[str, Any]:
    shown = shown_of(facts)
    drawn = {
        name: charts.on_page(chart, html.escape(f"{_DESCRIBED[name]}: {facts.title}"))
        for name, chart in charts_of(shown, marked=True).items()
    }
    return {
        "id": f"run{place}",
        "facts": facts,
        "verdict": words.verdict(facts),
        "charts": drawn,
        "thresholds": shown.thresholds,
        "infinite": shown.histogram.infinite,
        "slider": _slider(shown),
        "specification": json.dumps(facts.specification, indent=2, sort_keys=True),
        "provenance": json.dumps(facts.provenance, indent=2, sort_keys=True),
    }


def _slider(shown: Shown) -> dict[str, Any]:
    """What the script reads: at each threshold where the markers stand, and what each cell says."""
    thresholds, edges = shown.thresholds, shown.histogram.edges
    share = np.clip((thresholds.at - edges[0]) / (edges[-1] - edges[0]), 0.0, 1.0)
    cells = {
        "at": [f"{at:.5g}" for at in thresholds.at],
        "fpr": [words.rate(value) for value in thresholds.fpr],
        "fnr": [words.rate(value) for value in thresholds.fnr],
    }
    for kind, limits in (("band", thresholds.band), ("pointwise", thresholds.pointwise)):
        if limits is not None:
            cells[f"{kind}_fpr"] = [words.rate(value, limit=True) for value in limits.fpr]
            cells[f"{kind}_fnr"] = [words.rate(value, limit=True) for value in limits.fnr]
            cells[f"{kind}_epsilon"] = [words.at_least(value) for value in limits.epsilon]
    return {
        "right": rounded(thresholds.fpr * charts.WIDE),
        "down": rounded((1 - thresholds.fnr) * charts.HIGH),
        "cut": rounded(share * charts.WIDE),
        "cells": cells,
    }


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.globals |= {"words": words}
    return environment
