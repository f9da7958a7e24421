"""The sizes, the directions and the map that keep the code readable."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CODE = ("src", "tests", "examples", "benchmarks", "docs")
ONE_FILE_PACKAGES = ("dp_accounting", "opacus", "ray", "altair", "vl_convert", "datasets")
MODULE_OF_PACKAGE = {"scikit-learn": "sklearn", "vl-convert-python": "vl_convert"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def _files(*folders: str) -> list[Path]:
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


def _functions() -> Iterator[tuple[str, Function]]:
    for file in _files(*CODE):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, Function):
                yield f"{file.relative_to(ROOT)}:{node.lineno} {node.name}", node


def _parameters(function: Function) -> int:
    spec = function.args
    named = [argument.arg for argument in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
    return len([name for name in named if name not in ("self", "cls")])


def _is_kernel(function: Function) -> bool:
    """Whether Triton compiles it: a kernel's shapes are arguments one by one."""
    return any("triton.jit" in ast.unparse(decorator) for decorator in function.decorator_list)


def _imported(file: Path) -> set[str]:
    """Top-level packages that ``file`` imports anywhere, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


def _modules(requirements: list[str]) -> set[str]:
    """The module that each requirement installs, without dpgap's own extras."""
    names = {re.split(r"[\[<>=]", requirement)[0] for requirement in requirements} - {"dpgap"}
    return {MODULE_OF_PACKAGE.get(name, name.replace("-", "_")) for name in names}


def test_no_function_is_longer_than_60_lines():
    sizes = {name: (node.end_lineno or 0) - node.lineno + 1 for name, node in _functions()}
    assert {name: size for name, size in sizes.items() if size > 60} == {}


def test_no_file_is_longer_than_400_lines():
    sizes = {str(file.relative_to(ROOT)): len(file.read_text("utf-8").splitlines()) for file in _files(*CODE)}
    assert {name: size for name, size in sizes.items() if size > 400} == {}


def test_no_function_takes_more_than_10_parameters():
    counts = {name: _parameters(node) for name, node in _functions() if not _is_kernel(node)}
    assert {name: count for name, count in counts.items() if count > 10} == {}


def test_each_replaceable_package_is_imported_by_one_file():
    users = {
        package: [file.name for file in _files("src") if package in _imported(file)]
        for package in ONE_FILE_PACKAGES
    }
    assert {package: files for package, files in users.items() if len(files) > 1} == {}
    assert users["dp_accounting"] == ["accounting.py"]


def test_the_base_install_is_what_the_code_imports():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    imported = set[str]().union(*map(_imported, _files("src"))) - sys.stdlib_module_names - {"dpgap"}
    base = _modules(project["dependencies"])
    optional = project["optional-dependencies"]
    extras = set[str]().union(*(_modules(optional[extra]) for extra in optional if extra != "dev"))
    assert base <= imported <= base | extras


def test_the_readme_tree_is_the_tree_of_folders():
    assert _folders_of_the_readme() == _folders_on_disk()


def test_every_folder_of_the_readme_tree_has_a_comment():
    bare = [line for line in _readme_tree() if not re.search(r"/ {2,}\S", line)]
    assert bare == []


def _readme_tree() -> list[str]:
    block = re.search(r"```text\n(src/.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert block, "README.md has no tree: a ```text block that starts with src/"
    return [line for line in block[1].splitlines() if line.split()[0].endswith("/")]


def _folders_of_the_readme() -> set[str]:
    """Paths from the indented names: two spaces a level."""
    folders: list[str] = []
    above: list[str] = []
    for line in _readme_tree():
        depth = (len(line) - len(line.lstrip())) // 2
        above = [*above[:depth], line.split()[0].rstrip("/")]
        folders.append("/".join(above))
    assert len(folders) == len(set(folders))
    return set(folders)


def _folders_on_disk() -> set[str]:
    """Every folder with a file in it, but for hidden ones (``.ci`` counts) and what tools write."""
    written = {"__pycache__", "site", "build", "dist"}
    folders: set[str] = set()
    for file in ROOT.rglob("*"):
        parts = file.relative_to(ROOT).parts[:-1]
        hidden = any((part.startswith(".") and part != ".ci") or part in written for part in parts)
        if file.is_file() and parts and not hidden and not parts[0].endswith(".egg-info"):
            folders |= {"/".join(parts[: depth + 1]) for depth in range(len(parts))}
    return folders
