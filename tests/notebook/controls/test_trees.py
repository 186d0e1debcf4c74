"""Groups, rows and tabs as widgets: what is typed in them, what is marked, what comes and goes."""

from typing import Annotated, Any, Literal

import pytest
from ipywidgets.widgets.widget import _instances as live
from pydantic import BaseModel, Field, SecretStr, model_validator

from flownb.notebook.controls.budget import BUDGET
from flownb.notebook.controls.trees import MOST_ROWS
from tests.notebook.controls.formed import formed, model_of


class Point(BaseModel):
    name: str
    score: float = Field(0.5, ge=0, le=1)

    @model_validator(mode="after")
    def is_somewhere(self) -> "Point":
        if self.name == "nowhere":
            raise ValueError("This is nowhere.")
        return self


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


def test_a_group_is_filled_and_marked_inside() -> None:
    """Errors at the inner field; the model's own at the group's name."""
    with formed(model_of(centre=Point)) as on:
        on.form.submit()
        assert on.errors(on.field("centre").box) == ["Please fill this in."]
        on.control("Name").value = "nowhere"
        on.form.submit()
        assert on.errors(on.field("centre")._words) == ["This is nowhere."]
        on.control("Name").value = "hut"
        on.control("Score").value = 0.25
        on.form.submit()
        assert on.sent[0].centre == Point(name="hut", score=0.25)
        assert on.errors() == []


def test_a_group_that_is_not_set_costs_nothing_and_is_none() -> None:
    """Its fields are made when it is set, and kept when it is not set again."""
    with formed(model_of(centre=Point | None)) as on:
        before = len(live)
        assert on.form.values == {"centre": None}
        on.toggle("centre").value = True
        assert len(live) - before >= 4
        on.control("Name").value = "hut"
        assert on.form.values == {"centre": {"name": "hut", "score": "0.5"}}
        on.toggle("centre").value = False
        assert on.form.values == {"centre": None}
        on.toggle("centre").value = True
        assert on.control("Name").value == "hut"
        on.form.submit()
        assert on.sent[0].centre == Point(name="hut")


def test_rows_come_and_go() -> None:
    """One stands ready where one is needed; a row that goes takes its widgets along, and errors stand at their row."""
    with formed(model_of(points=Annotated[list[Point], Field(min_length=1, max_length=3)])) as on:
        assert on.form.values == {"points": [{"name": "", "score": "0.5"}]}
        add = on.button("fl-add")
        add.click()
        size = len(live)
        add.click()
        assert add.disabled
        add.click()
        for nth, name in enumerate(("a", "nowhere", "c")):
            on.control("Name", nth).value = name
        on.control("Score", 2).value = 7
        on.form.submit()
        rows = [w for w in on.all() if "fl-row" in w._dom_classes]
        assert [len(on.errors(row)) for row in rows] == [0, 1, 1]
        assert "This is nowhere." in on.errors(rows[1])[0]
        assert "fl-bad" in rows[1]._dom_classes
        on.control("Score", 2).value = 1
        on.button("fl-remove", 1).click()
        assert len(live) == size
        assert not add.disabled
        assert [w.tooltip for w in on.all() if "fl-remove" in w._dom_classes] == ["Remove row 1", "Remove row 2"]
        on.form.submit()
        assert on.sent[0].points == [Point(name="a"), Point(name="c", score=1)]
        assert on.errors() == []


def test_rows_have_an_end() -> None:
    """However often somebody clicks."""
    with formed(model_of(points=list[Point])) as on:
        for _ in range(MOST_ROWS + 5):
            on.button("fl-add").click()
        assert len(on.form.values["points"]) == MOST_ROWS


def test_tabs_ask_for_the_fields_of_one_model() -> None:
    """What is typed in another tab stays there and is not sent; the tab says the discriminator."""
    with formed(model_of(pet=Pet)) as on:
        tabs = on.button("fl-tabs")
        assert [label for label, _ in tabs.options] == ["cat", "dog"]
        on.control("Lives").value = 3
        tabs.value = 1
        on.form.submit()
        assert on.errors(on.field("pet").box) == ["Please fill this in."]
        on.control("Name").value = "Rex"
        tabs.value = 0
        assert on.control("Lives").value == 3
        tabs.value = 1
        on.form.submit()
        assert on.sent[0].pet == Dog(kind="dog", name="Rex")


def test_rows_of_tabs_and_tabs_of_plain_models() -> None:
    """Trees stand in one another."""
    with formed(model_of(pets=list[Pet], either=Cat | Point)) as on:
        on.button("fl-add").click()
        on.button("fl-tabs", 0).value = 1
        on.control("Name", 0).value = "Rex"
        on.button("fl-tabs", 1).value = 1
        on.control("Name", 1).value = "hut"
        on.form.submit()
        (answer,) = on.sent
        assert (answer.pets, answer.either) == ([Dog(kind="dog", name="Rex")], Point(name="hut"))


def test_a_draft_fills_trees_as_they_were() -> None:
    """Typed before, an answer, or a dump of one: rows, the open tab, what is set."""
    model: Any = model_of(points=list[Point], pet=Pet, centre=Point | None)
    answer = model(points=[Point(name="a"), Point(name="b")], pet=Dog(kind="dog", name="Rex"), centre=Point(name="c"))
    with formed(model, draft=answer) as on:
        typed = on.form.values
        assert [row["name"] for row in typed["points"]] == ["a", "b"]
        on.form.submit()
        assert on.sent == [answer]
    for draft in (typed, answer.model_dump(mode="json")):
        with formed(model, draft=draft) as on:
            assert on.form.values == typed


def test_secrets_in_a_list_are_masked_each() -> None:
    """Chips would show them."""
    with formed(model_of(keys=list[SecretStr])) as on:
        on.button("fl-add").click()
        key = on.control("Keys")
        key.value = "hunter2"
        assert "hunter2" not in repr([w.get_state() for w in on.all()])
        assert on.form.values == {}
        on.form.submit()
        assert on.sent[0].keys[0].get_secret_value() == "hunter2"
        on.form.answered("answered")
        assert (key.value, key.disabled) == ("", True)


def test_after_the_answer_nothing_can_be_changed() -> None:
    """Controls in trees, their toggles, tabs and buttons."""
    with formed(model_of(points=list[Point], pet=Pet, centre=Point | None), draft={"points": [{"name": "a"}]}) as on:
        there, add, remove = list(on.all()), on.button("fl-add"), on.button("fl-remove")
        on.form.answered("answered by ann")
        assert [w for w in there if w.has_trait("disabled") and not w.disabled and w.comm is not None] == []
        assert [w for w in on.all() if w.has_trait("disabled")] == []
        add.click()
        remove.click()
        assert [row["name"] for row in on.form.values["points"]] == ["a"]


@pytest.mark.parametrize("rows", [0, 5, 40, 400])
def test_trees_keep_the_budget_and_become_json_where_they_would_not(rows: int) -> None:
    """The largest first; what is in them is not lost."""
    model: Any = model_of(name=str, points=list[Point], centre=Point)
    answer = model(name="x", points=[Point(name=f"p{n}") for n in range(rows)], centre=Point(name="c"))
    before = len(live)
    with formed(model, draft=answer, on_later=lambda: None) as on:
        assert len(live) - before <= BUDGET
        assert (on.field("points").spec.kind == "json") == (rows > 20)
        assert on.field("centre").spec.kind == "group"
        on.form.submit()
        assert on.sent == [answer]
