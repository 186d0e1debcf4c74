"""Programs that were written for LlamaIndex Workflows run here with only their import lines changed."""

import ast

import pytest

from tests.port.loading import HERE, SIDES, load, outcome_of, programs, source_of

PROGRAMS = programs("programs")


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("root", SIDES)
def test_a_program_gives_the_right_outcome_on_both(name: str, root: str):
    module = load("programs", name, root)
    assert outcome_of(module) == module.RIGHT


@pytest.mark.parametrize("name", PROGRAMS)
def test_only_the_import_lines_change(name: str):
    theirs, ours = (source_of("programs", name, root).splitlines() for root in SIDES)
    changed = [pair for pair in zip(theirs, ours, strict=True) if pair[0] != pair[1]]
    assert changed
    for before, after in changed:
        assert before.startswith(("from workflows", "import workflows"))
        assert after == before.replace("workflows", "flownb", 1)
    imported = {
        (node.module or "").split(".")[0] if isinstance(node, ast.ImportFrom) else node.names[0].name.split(".")[0]
        for node in ast.walk(ast.parse((HERE / "programs" / f"{name}.py").read_text("utf-8")))
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    assert imported - {"workflows"} <= {"asyncio", "json", "pydantic", "threading", "time", "typing"}
