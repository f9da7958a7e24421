"""What the build of the site adds to MkDocs: formulas that need no network, and doctests that look like code.

Formulas are written `$x$` or `$$x$$`; pymdownx.arithmatex marks them, and they become MathML here.
"""

import html
import re

import griffe
from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

MARKED = re.compile(r'<(span|div) class="arithmatex">(?:\\\(|\\\[)(.*?)(?:\\\)|\\\])</\1>', re.DOTALL)
# The converter knows no `aligned`, and its `align*` is the same thing.
SYNONYMS = {"{aligned}": "{align*}"}
# Fonts draw a prime raised already; as an exponent it would be raised twice and too small to see.
PRIME = re.compile(r"<msup>(<mi>[^<]*</mi>)<mi>&#x02032;</mi></msup>")
LEFT_AS_IT_WAS = re.compile(r"\\\w*|>&<")
FETCHED = re.compile(r'<(?:(?:script|img|iframe)[^>]*\ssrc|link rel="stylesheet" href)="(?:https?:)?//[^"]*"')


def on_page_content(content: str, /, *, page: object, **_: object) -> str:
    """Replace each marked formula of a page; a command that cannot be converted fails the build."""
    return MARKED.sub(lambda found: _mathml(found[2], found[1] == "div", page), content)


def on_post_page(output: str, /, *, page: object, **_: object) -> str:
    """Refuse a page that would make a browser fetch something from another site."""
    if fetched := FETCHED.search(output):
        raise PluginError(f"{page}: a browser would fetch {fetched[0]}. Keep the file in docs/ instead.")
    return output


def _mathml(marked: str, is_block: bool, page: object) -> str:
    formula = html.unescape(marked).strip()
    source = formula
    for name, known in SYNONYMS.items():
        source = source.replace(name, known)
    converted = convert(source, display="block" if is_block else "inline")
    if unknown := LEFT_AS_IT_WAS.search(converted):
        raise PluginError(
            f"{page}: {unknown[0]!r} cannot be drawn, in the formula {formula}. Write it another way."
        )
    return PRIME.sub(r"<mrow>\1<mo>&#x02032;</mo></mrow>", converted)


class FenceDoctests(griffe.Extension):
    """Fences the doctests of a docstring, which Markdown would take for quotations."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring:
            doctests = r"^>>> .*(?:\n(?!\s*$).*)*"
            obj.docstring.value = re.sub(
                doctests, r"```pycon\n\g<0>\n```", obj.docstring.value, flags=re.MULTILINE
            )
