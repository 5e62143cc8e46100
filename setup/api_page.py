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
NAMED = {
    "host_stack.kv.message": ("Array", "KeyArray", "LenArray"),
    "host_stack.placement": ("Keys",),
    "host_stack.fixedpoint": ("FloatArray", "IntArray"),
    "host_stack.kv.requests": ("Callback",),
    "host_stack.kv.app": ("SimpleHandle",),
    "host_stack.kv.server": ("RequestHandle",),
    "host_stack.kv.curve": ("JobKey",),
    "host_stack.kv.wire": ("NodeInfo",),
    "host_stack.layout": ("Layout",),
    "host_stack.job": ("DEFAULT_TIMEOUTS_S",),
    "host_stack.sharded": ("JobWorker",),
    "host_stack.stopwatch": ("RoundTimes",),
    "host_stack.worker": ("OnPushed", "Worker"),
}
"""Types of other modules that signatures of the public ones name."""
INTERNAL = ("App", "Message", "Meta", "Transport")
"""Named by signatures too, and not promised."""

HEAD = """# Python API

Made by `make api` from the docstrings; do not edit. [versioning.md](versioning.md) says what is \
promised of it. Arrays are numpy's; shapes are in brackets, seconds end in `_s`, bytes in \
`_bytes`. All errors are `LibraError`s; those of bad input are `BadInput` too.
"""

TYPES = f"""## Types that are named above

Of other modules, which are not public otherwise. \
{", ".join(f"`{name}`" for name in INTERNAL)} are what the parts of Libra talk with to each \
other, and are not promised.
"""

Definition = ast.ClassDef | ast.FunctionDef
Assigned = ast.Assign | ast.AnnAssign
Told = tuple[Definition | Assigned, str]
"""What is defined, and the text that tells of it."""


def tree_of(module: str) -> ast.Module:
    """The syntax tree of a module or package."""
    path = ROOT / module.replace(".", "/")
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(source.read_text())


def definitions(module: str) -> Iterator[Told]:
    """The public classes and functions of a module, or all that a package lists in `__all__`."""
    tree = tree_of(module)
    listed = _all(tree)
    if listed is None:
        told = _told(tree)
        yield from (told[name] for name in told if _is_public(told[name][0]))
        return
    origin = {
        alias.asname or alias.name: (str(node.module), alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for name in listed:
        source, original = origin[name]
        yield _told(tree_of(source))[original]


def named() -> Iterator[Told]:
    """The types that signatures name, of modules that are not public."""
    for module, names in NAMED.items():
        told = _told(tree_of(module))
        yield from (told[name] for name in names)


def _told(tree: ast.Module) -> dict[str, Told]:
    """What a module defines or assigns at its top, by name, with what is said of it."""
    return {
        _name(node): (node, _text_behind(behind) if isinstance(node, Assigned) else _doc(node))
        for node, behind in pairwise([*tree.body, ast.Pass()])
        if isinstance(node, Definition | Assigned)
    }


def _is_public(node: Definition | Assigned) -> bool:
    return isinstance(node, Definition) and not node.name.startswith("_")


def _text_behind(node: ast.stmt) -> str:
    """The text that stands alone behind an assignment, or nothing."""
    text = getattr(getattr(node, "value", None), "value", None)
    is_text = isinstance(node, ast.Expr) and isinstance(text, str)
    return inspect.cleandoc(str(text)) if is_text else ""


def _doc(node: Definition) -> str:
    return inspect.cleandoc(ast.get_docstring(node) or "")


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
        text = _text_behind(behind)
        if text and not name.startswith("_"):
            yield f"- `{name}`: {' '.join(text.split())}"


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


def documented(node: Definition | Assigned, text: str) -> Iterator[str]:
    """The lines of a class, function or constant, of which `text` is said."""
    if isinstance(node, Assigned):
        yield from (f"### `{ast.unparse(node)}`", "")
        yield from _block(text)
        return
    if isinstance(node, ast.FunctionDef):
        yield from (f"### `{signature(node)}`", "")
        yield from _block(text)
        return
    bases = ", ".join(map(ast.unparse, node.bases))
    yield from (f"### class `{node.name}`" + (f" ({bases})" if bases else ""), "")
    yield from _block(text)
    for field in node.body:
        if (isinstance(field, ast.AnnAssign) and is_shown(field)) or (
            isinstance(field, ast.Assign) and bases == "IntEnum"
        ):
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
        yield from _block(_doc(member))


def is_shown(field: ast.AnnAssign) -> bool:
    """Whether a field is for users: neither its name nor its `repr` hides it."""
    hidden = field.value is not None and "repr=False" in ast.unparse(field.value)
    return not hidden and not ast.unparse(field.target).startswith("_")


def _block(text: str) -> Iterator[str]:
    if text:
        yield from ("```text", text, "```", "")


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    for module in PUBLIC:
        lines += [f"## {module}", ""]
        text = ast.get_docstring(tree_of(module))
        lines += _block(inspect.cleandoc(text or ""))
        for told in definitions(module):
            lines += documented(*told)
    lines += [TYPES]
    for told in named():
        lines += documented(*told)
    text = "\n".join(lines)
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(f"{PAGE.relative_to(ROOT)} written\n")
