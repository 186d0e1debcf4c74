"""The script and style sheet that every widget sends to the page."""

import re
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from flownb.notebook import assets

STATIC = Path(assets.__file__).parent / "static"


def test_the_pasted_script_has_no_import_and_one_default_export() -> None:
    """anywidget loads it from a blob, where relative imports fail."""
    script = assets.script()
    assert re.findall(r"^\s*export\b.*$", script, re.MULTILINE) == ["export default { render };"]
    assert not re.search(r"^\s*import\b", script, re.MULTILINE)
    review = assets.review_script()
    assert re.findall(r"^\s*(?:export|import)\b.*$", review, re.MULTILINE) == ["export default { render };"]


def test_every_module_is_pasted_after_those_it_uses() -> None:
    """A file that is forgotten or stands too early would be missing at run time only."""
    scripts = (assets.MODULES, assets.PAGE_MODULES, assets.REVIEW_MODULES, *assets.FORM_MODULES.values())
    assert {name for modules in scripts for name in modules} == {path.name for path in STATIC.glob("*.mjs")}
    for modules in scripts:
        assert len(set(modules)) == len(modules)
        for place, name in enumerate(modules):
            used = re.findall(r'^import [^;]*from "\./([\w.]+)";', (STATIC / name).read_text(), re.MULTILINE)
            assert set(used) <= set(modules[:place]), name


def test_the_page_s_script_has_neither_import_nor_export() -> None:
    """It begins by itself, and everything that it needs is in it."""
    assert not re.search(r"^\s*(import|export)\b", assets.page_script(), re.MULTILINE)
    assert "openPage(document)" in assets.page_script()
    assert "</script" not in assets.page_script().lower() and "<!--" not in assets.page_script()
    assert "</style" not in assets.page_style().lower()


def test_widget_and_page_send_no_module_that_only_the_other_needs() -> None:
    """A widget sends its script with every instance."""
    assert [name for name in assets.MODULES if name.startswith("page_")] == []
    assert {"view.mjs", "feed.mjs", "messages.mjs", "page.mjs"} & {*assets.PAGE_MODULES} == set()
    assert {name for name in assets.MODULES if name.startswith("review")} == set()
    assert {"view.mjs", "graph.mjs", "feed.mjs"} & {*assets.REVIEW_MODULES} == set()


@pytest.mark.parametrize(
    "script",
    [
        assets.script,
        assets.page_script,
        assets.review_script,
        *(partial(assets.form_script, name) for name in assets.FORM_MODULES),
    ],
)
def test_the_pasted_script_is_valid_javascript(tmp_path: Path, script: Callable[[], str]) -> None:
    """Modules share one scope once they are pasted, so no two may use one name."""
    node = shutil.which("node")
    assert node, "Node is needed for the tests of the panel."
    (tmp_path / "pasted.mjs").write_text(script())
    ran = subprocess.run([node, "--check", str(tmp_path / "pasted.mjs")], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_pasting_leaves_out_comments_only(tmp_path: Path) -> None:
    """The pasted script exports the same view as the modules do."""
    node = shutil.which("node")
    assert node, "Node is needed for the tests of the panel."
    (tmp_path / "pasted.mjs").write_text(assets.script())
    code = (
        f"const a = (await import('{tmp_path}/pasted.mjs')).default;"
        f"const b = (await import('{STATIC}/view.mjs')).default;"
        "const bare = (f) => f.toString().replace(/\\/\\*\\*? @[^*]*\\*\\/ ?|^\\s*(\\/\\*\\*.*\\*\\/|\\/\\/.*)$/gm, '')"
        ".replace(/\\/\\*\\*[\\s\\S]*?\\*\\//g, '').replace(/\\s+/g, '');"
        "console.log(Object.keys(a).join(), bare(a.render) === bare(b.render))"
    )
    ran = subprocess.run([node, "--input-type=module", "-e", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["render", "true"]


@pytest.mark.parametrize("path", sorted(STATIC.glob("*.mjs")), ids=lambda p: p.name)
def test_no_module_writes_markup_or_reaches_the_network(path: Path) -> None:
    """User text goes through textContent; the panel works offline."""
    source = path.read_text()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(", "XMLHttpRequest"):
        assert word not in source
    assert set(re.findall(r"https?://[^\s\"']+", source)) <= {"http://www.w3.org/2000/svg"}
    assert source.startswith("// @ts-check\n")


@pytest.mark.parametrize("sheet", [assets.style, assets.page_style])
def test_the_style_sheet_reaches_the_network_for_nothing_and_styles_only_ours(sheet: Callable[[], str]) -> None:
    """Every rule is tied to the panel, its form box or the state of the kernel round them."""
    style = sheet()
    assert set(re.findall(r"url\((.{6})", style)) <= {'"data:'}  # pictures that are part of the sheet
    assert "@import" not in style
    assert style.count("{") == style.count("}")
    selectors = [s.strip() for s in re.findall(r"([^{}]+)\{", style)]
    ours = re.compile(r"\.flownb|@container|@media|@keyframes|^from$")
    assert [s for s in selectors if not ours.search(s)] == []


def test_the_states_of_script_style_and_python_are_the_same() -> None:
    """A tick carries the index of a state, a node its class."""
    from flownb.notebook.svg import STATES

    listed = re.search(r"const STATES = (\[[^\]]*\])", assets.script())
    assert listed is not None
    assert tuple(re.findall(r'"(\w+)"', listed[1])) == STATES
    for state in STATES:
        assert f"--fl-{state}-f:" in assets.style()
        assert f".s-{state}" in assets.style()
