"""Loads a program twice: as it was written for LlamaIndex Workflows, and with its import lines changed."""

import asyncio
import importlib.util
import linecache
import re
import sys
import types
from pathlib import Path

HERE = Path(__file__).resolve().parent
#: The one thing that porting changes: `from workflows...` and `import workflows...` at the start of a line.
IMPORT = re.compile(r"^(from|import) workflows(?=[.\s])", re.MULTILINE)
SIDES = ("workflows", "flownb")


def programs(folder: str) -> list[str]:
    """The names of the programs in a folder beside this file."""
    return sorted(path.stem for path in (HERE / folder).glob("*.py"))


def source_of(folder: str, name: str, root: str) -> str:
    """A program's text for one of `SIDES`."""
    return IMPORT.sub(rf"\1 {root}", (HERE / folder / f"{name}.py").read_text("utf-8"))


def load(folder: str, name: str, root: str) -> types.ModuleType:
    """The program as a module of its own, fresh at each call.

    It stands in `sys.modules`, for both read classes by name when they build a value from a dict.
    """
    module_name = f"{folder}_{name}_on_{root}"
    text = source_of(folder, name, root)
    path = HERE / folder / f"{name}.py"
    file = str(path) if root == "workflows" else str(path.with_name(f"{name} on {root}.py"))
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    spec = importlib.util.spec_from_loader(module_name, loader=None, origin=file)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = file
    sys.modules[module_name] = module
    exec(compile(text, file, "exec", dont_inherit=True), vars(module))
    return module


def outcome_of(module: types.ModuleType) -> object:
    """What the program's `main` gives."""
    return asyncio.run(asyncio.wait_for(module.main(), 30))
