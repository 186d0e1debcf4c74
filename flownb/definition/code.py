"""What the code of a step tells without being run: its source, and what it does with its context."""

from __future__ import annotations

import ast
import dis
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from types import CodeType
from typing import Any

from flownb.resource import closure_of


def source_hash(fn: Callable[..., Any]) -> str:
    """Hash of a step's dedented source; without source of its code's bytes and constants (R1.43)."""
    try:
        text = textwrap.dedent(inspect.getsource(fn))
    except (OSError, TypeError):
        code = getattr(fn, "__code__", None)
        text = _code_text(code) if isinstance(code, CodeType) else repr(fn)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _code_text(code: CodeType) -> str:
    inner = [_code_text(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {inner}"


def codes_of(fn: Callable[..., Any]) -> Iterator[CodeType]:
    """The code of a function, and of the functions inside it."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    todo = [code] if isinstance(code, CodeType) else []
    while todo:
        code = todo.pop()
        yield code
        todo += [c for c in code.co_consts if isinstance(c, CodeType)]


def mentions(fn: Callable[..., Any], name: str) -> bool:
    """Whether a function's own code uses an attribute or a global of that name."""
    return any(name in code.co_names for code in codes_of(fn))


def collected_by(fn: Callable[..., Any], parameter: str, names: Mapping[str, Any]) -> list[Any]:
    """What `ctx.collect_events(ev, [A, B])` expects in a function's own code, `ev` being that parameter.

    Args:
        fn: The function.
        parameter: Name of its event parameter.
        names: Names around it, beside its globals and its closure.
    """
    function = inspect.unwrap(fn)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return []
    spaces = {**getattr(function, "__globals__", {}), **closure_of(function), **names}
    found: list[Any] = []
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "collect_events"):
            continue
        given = dict(zip(("ev", "expected"), call.args, strict=False))
        given.update({keyword.arg: keyword.value for keyword in call.keywords if keyword.arg})
        event, expected = given.get("ev"), given.get("expected")
        if isinstance(event, ast.Name) and event.id == parameter and expected is not None:
            found += [_named(item, spaces) for item in _items(expected)]
    return found


def _items(expected: ast.expr) -> list[ast.expr]:
    """The items of a list that is written out, also of `[A] * 3 + [B]`."""
    if isinstance(expected, (ast.List, ast.Tuple)):
        return expected.elts
    if isinstance(expected, ast.BinOp):
        return [*_items(expected.left), *_items(expected.right)]
    return []


def _named(item: ast.expr, spaces: Mapping[str, Any]) -> Any:
    """What `Row` or `module.Row` means, None for what is not known before it runs."""
    if isinstance(item, ast.Name):
        return spaces.get(item.id)
    if isinstance(item, ast.Attribute):
        return getattr(_named(item.value, spaces), item.attr, None)
    return None


def attributes_of(fn: Callable[..., Any], parameter: str) -> set[str]:
    """The attributes that a function's own code reads off one of its parameters: `ctx.state` gives "state"."""
    found: set[str] = set()
    for code in codes_of(fn):
        loaded = False
        for step in dis.get_instructions(code):
            if loaded and step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                found.add(str(step.argval))
            # Newer interpreters load two names by one instruction: then the last one is on top.
            names: tuple[Any, ...] = step.argval if isinstance(step.argval, tuple) else (step.argval,)
            loaded = step.opname.startswith(("LOAD_FAST", "LOAD_DEREF")) and names[-1:] == (parameter,)
    return found
