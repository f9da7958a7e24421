"""The public names: one sorted list, the same for people, type checkers and the documentation."""

import ast
import importlib
from pathlib import Path

import pytest

import dpgap

ROOT = Path(__file__).parents[1]


def _names_for_type_checkers() -> dict[str, str]:
    """Name -> module, of the ``TYPE_CHECKING`` block."""
    tree = ast.parse((ROOT / "src/dpgap/__init__.py").read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


def test_all_is_sorted():
    assert dpgap.__all__ == sorted(dpgap.__all__)


def test_type_checkers_see_the_names_that_are_loaded():
    assert _names_for_type_checkers() == dpgap._MODULE_OF


def test_all_lists_exactly_the_exported_names():
    assert set(dpgap.__all__) == {*dpgap._MODULE_OF, "__version__"}
    assert set(dpgap.__all__) <= set(dir(dpgap))


@pytest.mark.parametrize("name", dpgap.__all__)
def test_each_name_resolves_to_what_its_module_defines(name: str):
    module = importlib.import_module(dpgap._MODULE_OF.get(name, "dpgap"))
    assert getattr(dpgap, name) is getattr(module, name)


def test_the_api_page_shows_every_module_that_exports_a_name():
    page = (ROOT / "docs/api.md").read_text("utf-8")
    assert [module for module in set(dpgap._MODULE_OF.values()) if f"::: {module}\n" not in page] == []


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="upper_limit"):
        getattr(dpgap, "upper_limit")  # noqa: B009  a name that type checkers would refuse
