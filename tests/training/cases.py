"""Random neighbours: ties, scores that are not finite, rows never drawn, a class that only one has."""

import math

from hypothesis import strategies as st

from tests.training.contract import CLASSES, Case, Row

# Few values, so that distinct records often have equal scores (Lemma 5 of the paper).
SCORES = st.sampled_from([0.0, -0.0, 1.0, 1.0, 2.0, -1.0, 3e38, 1e-45, math.inf, -math.inf, math.nan])
COORDINATES = st.sampled_from([0.0, 1.0, -1.0, 0.3, -0.3, 5.0, -5.0, 1e30, -1e30, 1e-40, math.nan, math.inf])
# The last class is nobody's but, perhaps, the extra row's.
LABELS = st.integers(0, CLASSES - 1)


@st.composite
def rows(draw: st.DrawFn, labels: st.SearchStrategy[int], scores: st.SearchStrategy[float]) -> Row:
    """One record with a table of up to three scores."""
    table = tuple(draw(st.lists(scores, min_size=1, max_size=3)))
    return Row(draw(labels), table, (draw(COORDINATES), draw(COORDINATES)))


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    most: int = 7,
    scores: st.SearchStrategy[float] = SCORES,
    labels: st.SearchStrategy[int] = LABELS,
) -> Case:
    """Neighbours with coupled coins; ``labels`` are the extra row's, and its place is any."""
    common = tuple(draw(st.lists(rows(st.integers(0, CLASSES - 2), scores), max_size=most)))
    steps = draw(st.integers(1, 5))
    coins = st.lists(st.booleans(), min_size=len(common), max_size=len(common)).map(tuple)
    every = draw(st.integers(1, 3))
    return Case(
        rows=common,
        extra=draw(rows(labels, scores)),
        place=draw(st.integers(0, len(common))),
        coins=tuple(draw(coins) for _ in range(steps)),
        extra_coins=tuple(draw(st.booleans()) for _ in range(steps)),
        k=draw(st.integers(1, 3)),
        scope=draw(st.sampled_from(["class", "global"])),
        every=every,
        offset=draw(st.integers(0, every - 1)),
        stale=draw(st.sampled_from(["keep", "reset"])),
        clip_norm=draw(st.sampled_from([0.1, 1.0, 1e6])),
    )
