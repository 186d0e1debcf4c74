"""The tests would notice: each fault of `tests/core/mutants.py` is put into the reducer, and its story fails."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType

import pytest

import flownb

HERE = Path(__file__).parent
CORE = Path(flownb.__file__).parent / "core"
#: Modules that are imported anew around a changed core; all others keep the one that they have.
ROOMS = ("flownb.core", "flownb.testing")


def load(name: str) -> object:
    """A module of this folder, made anew."""
    spec = importlib.util.spec_from_file_location(f"tried_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MUTANTS = load("mutants").MUTANTS


class Changed(SourceFileLoader, MetaPathFinder):
    """Finds one module of the core with another text."""

    def __init__(self, module: str, text: str) -> None:
        super().__init__(f"flownb.core.{module}", str(CORE / f"{module}.py"))
        self.text = text

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if fullname == self.name else None

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.text, self.path, "exec", dont_inherit=True)


@contextmanager
def core_with(module: str, text: str) -> Iterator[None]:
    """Imports of the core, and of what tests it, find one module changed; afterwards all is as it was."""
    ours = {name: found for name, found in sys.modules.items() if name.startswith(ROOMS)}
    attributes = {room: getattr(flownb, room.rpartition(".")[2]) for room in ROOMS if room in sys.modules}
    finder = Changed(module, text)
    for name in ours:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.startswith(ROOMS)]:
            del sys.modules[name]
        sys.modules.update(ours)
        for room, found in attributes.items():
            setattr(flownb, room.rpartition(".")[2], found)


def text_of(module: str) -> str:
    return (CORE / f"{module}.py").read_text(encoding="utf-8")


def story_of(name: str) -> Callable[[], None]:
    return getattr(load("test_stories"), name)


def test_the_stories_hold_with_the_core_as_it_is():
    """Imported in the same way, nothing fails: what fails below fails for its fault."""
    with core_with("draft", text_of("draft")):
        assert isinstance(importlib.import_module("flownb.core.draft").__loader__, Changed)
        for name in sorted({mutant.story for mutant in MUTANTS}):
            story_of(name)()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.file}: {mutant.breaks}")
def test_a_fault_of_the_reducer_is_noticed(mutant):
    """A story fails with it."""
    text = text_of(mutant.file)
    assert text.count(mutant.old) == 1, f"{mutant.old!r} stands {text.count(mutant.old)} times in {mutant.file}.py"
    with core_with(mutant.file, text.replace(mutant.old, mutant.new)):
        story = story_of(mutant.story)
        with pytest.raises((Exception, pytest.fail.Exception)):  # whatever the fault leads to
            story()


def test_there_are_many_faults():
    """No two are the same."""
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS) >= 25
