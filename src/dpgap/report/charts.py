"""The charts: one definition each, for the page and for files.

Colours are written as hex, for files; on the page they become CSS variables, which follow light and dark.
"""

from typing import Any, Literal

import altair as alt
import vl_convert

from dpgap.report.curves import Curve, Histogram, Removed, rounded

Format = Literal["png", "svg", "pdf"]
Chart = alt.LayerChart | alt.FacetChart
WIDE, HIGH = 480, 300
"""Of a chart's plot, in its own units: the slider moves its marker by these."""
INK, FAINT, INSIDE, OUTSIDE, CLAIM, CERTIFIED = (
    "#1c2024",
    "#c4cad0",
    "#c2410c",
    "#1d6fb8",
    "#6b7280",
    "#15803d",
)
VARIABLES = {
    INK: "var(--ink)",
    FAINT: "var(--faint)",
    INSIDE: "var(--inside)",
    OUTSIDE: "var(--outside)",
    CLAIM: "var(--claim)",
    CERTIFIED: "var(--certified)",
}
_LINES: dict[str, tuple[str, list[int]]] = {
    "the attack, as seen": (INSIDE, [1, 0]),
    "certified limit of the attack": (CERTIFIED, [1, 0]),
    "allowed by eps_ub and delta": (CLAIM, [6, 4]),
    "allowed by the mechanism itself": (OUTSIDE, [2, 2]),
}


def tradeoff_chart(curves: list[Curve], marked: tuple[float, float] | None = None) -> Chart:
    """Trade-off curves; ``marked`` is a pair of rates whose marker the page moves."""
    rows = [
        {"curve": curve.name, "order": order, "fpr": fpr, "fnr": fnr}
        for curve in curves
        for order, (fpr, fnr) in enumerate(zip(rounded(curve.fpr), rounded(curve.fnr), strict=True))
    ]
    names = [curve.name for curve in curves]
    field = alt.Scale(domain=[0, 1])
    x = alt.X("fpr:Q", title="false-positive rate", scale=field)
    y = alt.Y("fnr:Q", title="false-negative rate", scale=field)
    lines = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=2)
        .encode(
            x=x,
            y=y,
            order="order:Q",
            color=alt.Color("curve:N", title=None, scale=_scale(names, 0)),
            strokeDash=alt.StrokeDash("curve:N", title=None, scale=_scale(names, 1)),
        )
    )
    if marked is None:
        return _configured(alt.layer(lines))
    fpr, fnr = rounded(marked)
    marker = (
        alt.Chart(alt.Data(values=[{"fpr": fpr, "fnr": fnr}]), name="marker")
        .mark_point(filled=True, size=90, color=INSIDE, opacity=1)
        .encode(x=x, y=y)
    )
    return _configured(alt.layer(lines, marker))


def histogram_chart(histogram: Histogram, cut: float | None = None) -> Chart:
    """Scores of both worlds; ``cut`` is a score whose line the page moves."""
    edges = rounded(histogram.edges, 12)
    rows = [
        {"world": world, "low": low, "high": high, "share": share}
        for world, shares in (("with the canary", histogram.inside), ("without it", histogram.outside))
        for low, high, share in zip(edges[:-1], edges[1:], rounded(shares), strict=True)
    ]
    x = alt.X("low:Q", title="score", scale=alt.Scale(domain=[edges[0], edges[-1]], nice=False))
    worlds = alt.Scale(domain=["with the canary", "without it"], range=[INSIDE, OUTSIDE])
    bars = (
        alt.Chart(alt.Data(values=rows))
        .mark_bar(opacity=0.55)
        .encode(
            x=x,
            x2="high:Q",
            y2=alt.Y2Datum(0),
            y=alt.Y("share:Q", title="share of the scores", stack=None, axis=alt.Axis(format="%")),
            color=alt.Color("world:N", title=None, scale=worlds),
        )
    )
    if cut is None:
        return _configured(alt.layer(bars))
    at = float(min(max(cut, histogram.edges[0]), histogram.edges[-1]))
    line = (
        alt.Chart(alt.Data(values=[{"low": at}]), name="cut").mark_rule(color=INK, strokeWidth=2).encode(x=x)
    )
    return _configured(alt.layer(bars, line))


def removed_chart(removed: Removed) -> Chart:
    """The share of each class that had left, over epochs."""
    rows = [
        {"class": name, "epoch": epoch, "share": share}
        for column, name in enumerate(removed.names)
        for epoch, share in zip(rounded(removed.epochs), rounded(removed.shares[:, column]), strict=True)
    ]
    lines = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(
            x=alt.X("epoch:Q", title="epoch"),
            y=alt.Y("share:Q", title="share that has left", axis=alt.Axis(format="%")),
            color=alt.Color(
                "class:N",
                title=None,
                sort=list(removed.names),
                scale=alt.Scale(scheme="tableau20"),
                legend=alt.Legend(orient="right"),
            ),
        )
    )
    return _configured(alt.layer(lines))


def on_page(chart: Chart, described: str) -> str:
    """The chart as SVG to put into a page; ``described`` is what it is called to who cannot see it."""
    drawn = vl_convert.vegalite_to_svg(chart.to_json())
    for colour, variable in VARIABLES.items():
        drawn = drawn.replace(f'"{colour}"', f'"{variable}"')
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{described}" ', 1)


def as_file(chart: Chart, kind: Format) -> bytes:
    """The chart as the content of a file, on white."""
    specification = chart.properties(background="white").to_json()
    if kind == "svg":
        return vl_convert.vegalite_to_svg(specification).encode()
    if kind == "pdf":
        return vl_convert.vegalite_to_pdf(specification)
    return vl_convert.vegalite_to_png(specification, scale=2)


def _scale(names: list[str], part: int) -> alt.Scale:
    return alt.Scale(domain=names, range=[_LINES[name][part] for name in names])


def _configured(chart: Chart) -> Chart:
    text: dict[str, Any] = {"labelColor": INK, "titleColor": INK, "labelFontSize": 14, "titleFontSize": 14}
    return (
        chart.properties(width=WIDE, height=HIGH, background="transparent")
        .configure(font="sans-serif")
        .configure_axis(**text, titleFontWeight="normal", gridColor=FAINT, domainColor=INK, tickColor=INK)
        .configure_legend(
            labelColor=INK, labelFontSize=14, labelLimit=400, orient="bottom", columns=1, symbolStrokeWidth=2
        )
        .configure_view(stroke=FAINT)
    )
