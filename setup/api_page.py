#!/usr/bin/env python3
"""Write docs/api.md from the docstrings of the public API: `make api`.

Sources are read and not imported, so that the page is the same with and without PyTorch.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "api.md"
PUBLIC = (
    "host_stack.kv",
    "host_stack.hot_kv",
    "host_stack.connect",
    "host_stack.job",
    "host_stack.shards",
    "host_stack.torch",
    "host_stack.errors",
)
"""What versioning.md promises to keep."""

HEAD = """# Python API

Made by `make api` from the docstrings; do not edit. [versioning.md](versioning.md) says what is \
promised of it. Arrays are numpy's; shapes are in brackets, seconds end in `_s`, bytes in \
`_bytes`. All errors are `LibraError`s; those of bad input are `BadInput` too.
"""

Definition = ast.ClassDef | ast.FunctionDef
Assigned = ast.Assign | ast.AnnAssign


def tree_of(module: str) -> ast.Module:
    """The syntax tree of a module or package."""
    path = ROOT / module.replace(".", "/")
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(source.read_text())


def definitions(module: str) -> Iterator[Definition | Assigned]:
    """The public classes and functions of a module, or all that a package lists in `__all__`."""
    tree = tree_of(module)
    own = {node.name: node for node in tree.body if isinstance(node, Definition)}
    listed = _all(tree)
    if listed is None:
        yield from (node for name, node in own.items() if not name.startswith("_"))
        return
    origin = {
        alias.asname or alias.name: (str(node.module), alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for name in listed:
        source, original = origin[name]
        for node in tree_of(source).body:
            if isinstance(node, Definition | Assigned) and _name(node) == original:
                yield node


def _name(node: Definition | Assigned) -> str:
    return _target(node) if isinstance(node, Assigned) else node.name


def _target(node: Assigned) -> str:
    """What is assigned to, as in the source."""
    return ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)


def _attributes(init: ast.FunctionDef) -> Iterator[str]:
    """The attributes that a constructor sets, as far as a text behind them tells what they are."""
    for node, behind in pairwise(init.body):
        if not isinstance(node, Assigned) or not _target(node).startswith("self."):
            continue
        name = _target(node).removeprefix("self.")
        text = getattr(getattr(behind, "value", None), "value", None)
        is_text = isinstance(behind, ast.Expr) and isinstance(text, str)
        if is_text and not name.startswith("_"):
            yield f"- `{name}`: {' '.join(inspect.cleandoc(str(text)).split())}"


def _all(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return None


def signature(node: ast.FunctionDef, *, method: bool = False) -> str:
    """A function's name, arguments and result, as in the source."""
    arguments = ast.unparse(node.args)
    if method:
        arguments = arguments.removeprefix("self").removeprefix("cls").removeprefix(", ")
    returns = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    return f"{node.name}({arguments}){returns}"


def documented(node: Definition | Assigned) -> Iterator[str]:
    """The lines of a class, function or constant."""
    if isinstance(node, Assigned):
        yield from (f"### `{ast.unparse(node)}`", "")
        return
    if isinstance(node, ast.FunctionDef):
        yield from (f"### `{signature(node)}`", "")
        yield from _text(node)
        return
    bases = ", ".join(map(ast.unparse, node.bases))
    yield from (f"### class `{node.name}`" + (f" ({bases})" if bases else ""), "")
    yield from _text(node)
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and not ast.unparse(field.target).startswith("_"):
            yield f"- `{ast.unparse(field)}`"
        elif isinstance(field, ast.FunctionDef) and field.name == "__init__":
            yield from _attributes(field)
    yield ""
    for member in node.body:
        if not isinstance(member, ast.FunctionDef):
            continue
        decorators = [ast.unparse(decorator) for decorator in member.decorator_list]
        if member.name == "__init__":
            arguments = signature(member, method=True).removeprefix("__init__")
            yield from (f"#### `{node.name}{arguments.removesuffix(' -> None')}`", "")
        elif member.name.startswith("_"):
            continue
        elif "property" in decorators:
            returns = "" if member.returns is None else f": {ast.unparse(member.returns)}"
            yield from (f"#### `{member.name}`{returns and f' `{returns[2:]}`'}", "")
        else:
            yield from (f"#### `{signature(member, method=True)}`", "")
        yield from _text(member)


def _text(node: Definition) -> Iterator[str]:
    text = ast.get_docstring(node)
    if text:
        yield from ("```text", inspect.cleandoc(text), "```", "")


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    for module in PUBLIC:
        lines += [f"## {module}", ""]
        text = ast.get_docstring(tree_of(module))
        if text:
            lines += ["```text", text, "```", ""]
        for node in definitions(module):
            lines += documented(node)
    text = "\n".join(lines)
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(f"{PAGE.relative_to(ROOT)} written\n")
