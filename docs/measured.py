"""Figures of speed in the pages, from the files that `benchmarks/` wrote: none is typed by hand.

`<!-- fleet-table cpu -->` alone on a line becomes the table of `benchmarks/results/fleet_cpu.json`, and
`<!-- fleet-chart cpu -->` a chart of its fleets' cost against models. `<!-- kernels-table bf16 -->` becomes
that precision's part of `benchmarks/results/kernels_cuda.json`, and `<!-- audits-table mnist -->` the audits
that `results/mnist.sqlite` holds. A file that is missing fails the build.
"""

import html
import json
import math
import re
import sqlite3
import statistics
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

RESULTS = Path(__file__).parents[1] / "benchmarks/results"
AUDITS = RESULTS.parents[1] / "results"
MARKER = re.compile(r"^<!-- (fleet-table|fleet-chart|kernels-table|audits-table) (\w+) -->$", re.MULTILINE)
FLEET = "dpgap fleet"
LEFT, TOP, WIDE, HIGH = 60, 20, 480, 220
"""Where the chart's field begins, and its size."""
HEADS = (
    "workload",
    "records a step",
    "way",
    "precision",
    "models",
    "ms a model-step",
    "fastest to slowest",
    "times the best fleet",
)
Row = dict[str, Any]


def on_page_markdown(markdown: str, /, *, page: object, **_: object) -> str:
    """Replace each marker of a page."""

    def replaced(found: re.Match[str]) -> str:
        match found[1]:
            case "fleet-table":
                return table(_read(f"fleet_{found[2]}", page))
            case "fleet-chart":
                return chart(_read(f"fleet_{found[2]}", page)["rows"])
            case "kernels-table":
                return kernels(_read("kernels_cuda", page), found[2])
            case _:
                return audits(AUDITS / f"{found[2]}.sqlite", page)

    return MARKER.sub(replaced, markdown)


def table(content: dict[str, Any]) -> str:
    """Every way in the order of the file, beside the workload's best fleet; and the machine."""
    rows = content["rows"]
    lines = [f"| {' | '.join(HEADS)} |", "| --- " * len(HEADS) + "|"]
    for row in rows:
        of_fleet = [
            other["ms_per_model_step"] for other in _fleets(rows) if other["workload"] == row["workload"]
        ]
        ends = [row["fastest"], row["slowest"]]
        cells = [
            row["workload"],
            f"{row['batch']:,}",
            row["name"],
            row["precision"],
            f"{row['models']:,}",
            _figure(row["ms_per_model_step"]),
            "" if None in ends else " to ".join(map(_figure, ends)),
            f"{row['ms_per_model_step'] / min(of_fleet):.1f}" if of_fleet else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    told = [f"{name} {content[name]}" for name in ("python", "torch", "repetitions") if name in content]
    note = f" Note: {content['note']}." if "note" in content else ""
    return "\n".join([*lines, "", f"Measured on {content['machine']}: {', '.join(told)}.{note}"])


def chart(rows: list[Row]) -> str:
    """Cost against models, both axes logarithmic, a line for each workload and precision of the fleet."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for row in _fleets(rows):
        point = row["models"], row["ms_per_model_step"]
        lines.setdefault(f"{row['workload']}, {row['precision']}", []).append(point)
    lines = {name: sorted(points) for name, points in lines.items() if len(points) > 2}
    if not lines:
        raise PluginError("There is no fleet with three numbers of models to draw. Run its benchmark again.")
    most = max(models for points in lines.values() for models, _ in points)
    costs = [cost for points in lines.values() for _, cost in points]
    low, high = 10 ** math.floor(math.log10(min(costs))), 10 ** math.ceil(math.log10(max(costs) * 1.01))

    def place(models: int, cost: float) -> tuple[float, float]:
        right = math.log(models) / math.log(most)
        up = math.log(cost / low) / math.log(high / low)
        return LEFT + WIDE * right, TOP + HIGH * (1 - up)

    drawn = [f'<rect x="{LEFT}" y="{TOP}" width="{WIDE}" height="{HIGH}" fill="none" stroke="currentColor"/>']
    for models in sorted({models for points in lines.values() for models, _ in points}):
        drawn.append(_text(place(models, low)[0], TOP + HIGH + 16, f"{models:,}"))
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        drawn.append(_text(LEFT - 6, place(1, 10.0**power)[1] + 4, f"{10.0**power:g}", "end"))
    for name, points in lines.items():
        places = [place(*point) for point in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        drawn.append(f'<polyline points="{path}" fill="none" stroke="currentColor" stroke-width="2"/>')
        drawn += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="currentColor"/>' for x, y in places]
        drawn.append(_text(places[-1][0] - 8, places[-1][1] - 8, name, "end"))
    drawn.append(_text(LEFT + WIDE / 2, TOP + HIGH + 36, "models trained together"))
    size = f"0 0 {LEFT + WIDE + 30} {TOP + HIGH + 44}"
    label = "Milliseconds a model-step against models trained together"
    caption = f"<figcaption>{label}: {'; '.join(map(html.escape, lines))}.</figcaption>"
    svg = f'<svg viewBox="{size}" role="img" aria-label="{label}">{"".join(drawn)}</svg>'
    return f"<figure>{svg}{caption}</figure>"


def kernels(content: dict[str, Any], precision: str) -> str:
    """Each kernel's time beside the least that bandwidth and matrix rate allow, and the machine's figures."""
    heads = ("workload", "kernel", "calls", "us a model-step", "MB", "GFLOP", "us at best")
    lines = [f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
    for row in content["rows"]:
        if row["precision"] == precision:
            cells = [row["workload"], f"`{row['kernel']}`", str(row["calls"])]
            cells += [
                _figure(row[name] * scale) if row[name] else "0"
                for name, scale in (("seconds", 1e6), ("bytes", 1e-6), ("flops", 1e-9), ("bound", 1e6))
            ]
            lines.append(f"| {' | '.join(cells)} |")
    told = (
        f"Measured on {content['machine']}: torch {content['torch']}, copies at "
        f"{_figure(content['bandwidth'] / 1e12)} TB/s, products of large {precision} matrices at "
        f"{_figure(content['rates'][precision] / 1e12)} TFLOP/s."
    )
    return "\n".join([*lines, "", told])


def audits(path: Path, page: object) -> str:
    """What each audit of a store came to: models, seconds, accuracy, and eps_lb in two readings."""
    if not path.exists():
        raise PluginError(f"{page}: {path} is missing.")
    heads = ("audit", "precision", "filter", "models", "seconds a model", "test accuracy", "certified eps_lb")
    heads += ("the paper's eps_lb",)
    lines = [f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
    store = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    for key, description in store.execute("SELECT id, description FROM experiments"):
        told = json.loads(description)["experiment"]
        rows = list(store.execute("SELECT seconds, test_accuracy FROM models WHERE experiment = ?", [key]))
        looks = store.execute("SELECT bounds FROM looks WHERE experiment = ? ORDER BY id", [key]).fetchall()
        if not rows:
            continue
        bounds = json.loads(looks[-1][0]) if looks else []
        values = {(bound["estimator"], bound["rule"]): f"{bound['value']:.2f}" for bound in bounds}
        accuracies = [accuracy for _, accuracy in rows]
        cells = [
            f"{told['dataset']['name']}, {told['canary']['kind']} canary",
            told["training"].get("precision", "fp32"),
            "yes" if told.get("filter") else "no",
            str(len(rows)),
            _figure(statistics.mean(seconds for seconds, _ in rows)),
            f"{statistics.mean(accuracies):.2%} (sd {statistics.stdev(accuracies):.2%})",
            values.get(("clopper-pearson", "band"), "not asked"),
            values.get(("gaussian", "paper"), "not asked"),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    store.close()
    return "\n".join(lines)


def _read(name: str, page: object) -> dict[str, Any]:
    path = RESULTS / f"{name}.json"
    if not path.exists():
        raise PluginError(f"{page}: {path} is missing. The script of its name in benchmarks/ writes it.")
    return json.loads(path.read_text("utf-8"))


def _fleets(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["name"] == FLEET]


def _figure(value: float) -> str:
    """Three digits that count, as ordinary numbers."""
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"


def _text(x: float, y: float, words: str, anchor: str = "middle") -> str:
    style = f'font-size="12" fill="currentColor" text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{html.escape(words)}</text>'
