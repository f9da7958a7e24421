"""Figures of speed in the pages, from the files that `benchmarks/` wrote: none is typed by hand.

`<!-- fleet-table cpu -->` alone on a line becomes the table of `benchmarks/results/fleet_cpu.json`, and
`<!-- fleet-chart cpu -->` a chart of its fleets' cost against models. A file that is missing fails the build.
"""

import html
import json
import math
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

RESULTS = Path(__file__).parents[1] / "benchmarks/results"
MARKER = re.compile(r"^<!-- fleet-(table|chart) (\w+) -->$", re.MULTILINE)
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
        content = _read(found[2], page)
        return chart(content["rows"]) if found[1] == "chart" else table(content)

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


def _read(name: str, page: object) -> dict[str, Any]:
    path = RESULTS / f"fleet_{name}.json"
    if not path.exists():
        raise PluginError(f"{page}: {path} is missing. Write: python benchmarks/fleet.py --device {name}")
    return json.loads(path.read_text("utf-8"))


def _fleets(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["name"] == FLEET]


def _figure(value: float) -> str:
    """Three digits that count, as ordinary numbers."""
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"


def _text(x: float, y: float, words: str, anchor: str = "middle") -> str:
    style = f'font-size="12" fill="currentColor" text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{html.escape(words)}</text>'
