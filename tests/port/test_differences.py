"""What differs on purpose from LlamaIndex Workflows: one program each, with both outcomes and the rule that decides."""

import re

import pytest

from tests.port.loading import HERE, SIDES, load, outcome_of, programs

DIFFERENCES = programs("differences")
TABLE = (HERE / "DIFFERENCES.md").read_text("utf-8")


@pytest.mark.parametrize("name", DIFFERENCES)
@pytest.mark.parametrize("root", SIDES)
def test_a_difference_is_what_the_table_says(name: str, root: str):
    module = load("differences", name, root)
    assert module.THEIRS != module.OURS
    assert outcome_of(module) == (module.THEIRS if root == "workflows" else module.OURS)


def test_the_table_has_each_difference_with_its_rules():
    """DIFFERENCES.md names every program once, with the rules that its first line names."""
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", TABLE, re.MULTILINE)
    assert [name for name, _ in rows] == DIFFERENCES
    for name, rules in rows:
        assert (load("differences", name, "workflows").__doc__ or "").startswith(f"{rules}: ")


def test_each_of_the_seventy_behaviours_has_a_test_or_a_rule_that_overrides_it():
    tested = {
        int(number)
        for path in HERE.glob("test_behaviours_*.py")
        for number in re.findall(r"^(?:async )?def test_b(\d\d)_", path.read_text("utf-8"), re.MULTILINE)
    }
    overridden = {int(number) for number in re.findall(r"^\| b(\d\d) – \| (?:R\d|API)", TABLE, re.MULTILINE)}
    assert tested.isdisjoint(overridden)
    assert tested | overridden == set(range(1, 71))
