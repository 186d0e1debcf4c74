"""Forms of a page: every kind of field, what a browser sends back of it, and what is wrong at its place."""

import datetime
import io
import re
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
from PIL import Image
from pydantic import SecretStr

from flownb import Context, InputRequiredEvent, StopEvent, Store, Workflow, step
from flownb.serve import application
from tests.serve.asgi import Filled, Page, ask, path_to, post
from tests.serve.flows import (
    Address,
    AsksAll,
    AsksNested,
    Begin,
    Card,
    Cash,
    Everything,
    Item,
    Nested,
    Size,
    Verdict,
    asking,
    got,
)


class Visit:
    """Somebody looks at a question, types, and sends."""

    def __init__(self, store: Store, flow: Workflow[Any]) -> None:
        self.app = application(store)
        self.run = asking(flow, store)
        self.address = path_to(self.run.requests[0].token)
        self.page = ask(self.app, "GET", self.address)
        self.form = Filled(self.page)

    def put(self, name: str, *values: str) -> "Visit":
        self.form.put(name, *values)
        return self

    def press(self, button: str = "send") -> Page:
        """Send the form; the one of the answer is there then."""
        self.page = post(self.app, self.address, self.form.pressed(button))
        if "<form" in self.page.body:
            self.form = Filled(self.page)
        return self.page

    def answer(self) -> Any:
        """What the step gets of what is typed."""
        self.put("by", "Ann")
        assert self.press().status == 200, self.page.words
        assert self.run.result(20) == "done"
        return got.pop()

    def has_error(self, name: str, text: str) -> bool:
        """Whether an error stands above the control of that name, bound to it, and in the list on top."""
        tag = re.search(rf'<[^>]* name="{re.escape(name)}"[^>]*>', self.page.body)
        assert tag is not None, name
        found = re.search(r'aria-describedby="([^" ]+-err)', tag[0])
        assert found is not None and 'aria-invalid="true"' in tag[0], tag[0]
        above = re.search(rf'<p class="err" id="{found[1]}">([^<]*)</p>', self.page.body)
        assert above is not None
        mark = found[1].removesuffix("-err")
        listed = re.search(rf'<a href="#{mark}">[^<]*{re.escape(above[1])}</a>', self.page.body)
        return text in above[1] and listed is not None


def filled(visit: Visit) -> Visit:
    for name, value in {
        "text": 'a <b> & "c"', "area": "two\r\nlines", "secret": "sesame", "number": "2.5", "size": "l",
        "day": "2026-12-24", "due": "2026-12-24T18:30", "due:zone": "Europe/Berlin", "items.0.name": "bolt",
        "address.street": "Main Street 1", "pay~0.number": "1234",
    }.items():  # fmt: skip
        visit.put(f"f.{name}", value)
    return visit


def test_every_kind_of_field_comes_as_it_was_typed(file_store: Store):
    """What has a default is sent as it was shown."""
    visit = filled(Visit(file_store, AsksAll()))
    assert visit.answer() == Everything(
        text='a <b> & "c"',
        area="two\nlines",
        secret=SecretStr("sesame"),
        number=2.5,
        size=Size.LARGE,
        day=datetime.date(2026, 12, 24),
        due=datetime.datetime(2026, 12, 24, 18, 30, tzinfo=ZoneInfo("Europe/Berlin")),
        items=[Item(name="bolt")],
        address=Address(street="Main Street 1"),
        pay=Card(number="1234"),
    )
    assert "Secret SecretStr(" not in visit.page.words and "sesame" not in visit.page.body


def test_what_is_not_the_default_comes_too(file_store: Store):
    """Ticks, other choices, a tab, things that are set and not set, lines of a list, JSON."""
    visit = filled(Visit(file_store, AsksAll()))
    visit.put("f.yes", "true").put("f.season", "2011").put("f.time", "23:59:58").put("f.tags", "x\r\n\r\n y \r\nz")
    visit.put("f.picks", "green", "blue").put("f.pay:tab", "cash").put("f.pay~1.amount", "3").put("f.perhaps", "false")
    visit.put("f.maybe", "typed").put("f.other:unset").put("f.other.street", "Side Street").put("f.free", '{"b": 2}')
    answer = visit.answer()
    assert (answer.yes, answer.season, answer.time) == (True, "2011", datetime.time(23, 59, 58))
    assert (answer.tags, answer.picks, answer.pay) == (["x", "y", "z"], ["green", "blue"], Cash(amount=3))
    assert (answer.perhaps, answer.maybe, answer.free) == (False, "typed", {"b": 2})
    assert answer.other == Address(street="Side Street")


def test_typing_sets_what_was_not_set_and_a_tick_takes_it_away(file_store: Store):
    """The tick at "not set" need not be taken away first; one that is made counts, whatever stands in the field."""
    visit = filled(Visit(file_store, AsksAll()))
    visit.put("f.other.city", "Bergen").put("f.other.street", "S")
    visit.press()  # without a name: it comes back
    assert visit.page.status == 422
    assert ("f.other:was", "true") not in visit.form.fields and ("f.other:unset", "true") not in visit.form.fields
    visit.put("f.secret", "sesame").put("f.other:unset", "true").put("f.maybe:unset").put("f.maybe", "")
    answer = visit.answer()
    assert (answer.other, answer.maybe) == (None, "")


def test_rows_are_added_and_removed_without_a_script(file_store: Store):
    """What is typed stays, secrets do not; the new row has the focus, nothing is checked and nothing sent."""
    visit = filled(Visit(file_store, AsksAll()))
    for n in range(2):
        assert visit.press("add f.items").status == 200
        assert "Not sent" not in visit.page.words and visit.form.value("f.secret") == ""
        tag = re.search(r"<[^>]* autofocus[^>]*>", visit.page.body)
        assert tag is not None and f'name="f.items.{n + 1}.name"' in tag[0]
        visit.put(f"f.items.{n + 1}.name", f"nut {n}").put(f"f.items.{n + 1}.count", str(n + 5))
    visit.press("remove f.items 1")
    assert [value for name, value in visit.form.fields if name == "f.items:rows"] == ["0", "1"]
    assert visit.form.value("f.items.1.name") == "nut 1" and visit.form.value("f.text") == 'a <b> & "c"'
    assert visit.run.status == "waiting"
    assert visit.put("f.secret", "sesame").answer().items == [Item(name="bolt"), Item(name="nut 1", count=6)]


def test_errors_stand_at_their_field_wherever_it_lies(file_store: Store):
    """In rows, groups, the chosen tab, lines of a list; all that was typed but secrets is there again."""
    visit = filled(Visit(file_store, AsksAll()))
    visit.put("f.whole", "-1").put("f.number", "two").put("f.day", "tomorrow").put("f.due:zone", "Atlantis")
    visit.put("f.items.0.count", "99").put("f.address.street", " ").put("f.pay~0.number", "12").put("f.free", "{")
    visit.put("f.size").put("f.time", "25:00")
    assert visit.press().status == 422
    for name, text in {
        "f.whole": "greater than or equal to 0", "f.number": "valid number", "f.day": "date",
        "f.due": "There is no time zone", "f.items.0.count": "less than or equal to 9",
        "f.address.street": "Please fill this in.", "f.pay~0.number": "match pattern", "f.free": "This is not JSON",
        "f.size": "Please fill this in.", "f.time": "time", "by": "Please say who you are.",
    }.items():  # fmt: skip
        assert visit.has_error(name, text.replace("'", "&#x27;")), name
    assert "Secrets have to be typed again." in visit.page.words and "sesame" not in visit.page.body
    kept = {"f.whole": "-1", "f.day": "tomorrow", "f.due": "2026-12-24T18:30", "f.due:zone": "Atlantis", "f.free": "{"}
    assert {name: visit.form.value(name) for name in kept} == kept
    assert visit.page.body.count("autofocus") == 1


def test_trees_in_trees(file_store: Store):
    """Rows of models with rows and tabs; rows of tabs; tabs without a discriminator; a group that is set."""
    visit = Visit(file_store, AsksNested())
    assert visit.form.value("f.when") == "2026-01-02 03:04:05.000678" and 'type="datetime-local"' not in visit.page.body
    visit.put("f.need", "1").press("add f.pays")
    visit.put("f.pays.0:tab", "cash").put("f.pays.0~1.amount", "x")
    visit.press("add f.pays")
    visit.put("f.pays.1~0.number", "4321").put("f.codes", "7\r\nseven")
    visit.put("f.more:unset").put("f.more:tab", "Address").put("f.more~1.street", "S").put("by", "Ann")
    visit.press("add f.rows")
    visit.press("add f.rows.0.items")
    assert visit.press().status == 422
    assert visit.has_error("f.pays.0~1.amount", "valid number")
    assert visit.has_error("f.codes", "item 2: Input should be a valid integer")
    assert visit.has_error("f.rows.0.text", "Please fill this in.")
    visit.press("remove f.rows 0")
    answer = visit.put("f.pays.0~1.amount", "9").put("f.codes", "7").answer()
    assert answer == Nested(
        need=1, pays=[Cash(amount=9), Card(number="4321")], more=Address(street="S"), codes=[7], maybe=Item(name="x")
    )


@pytest.mark.parametrize("button", ["add f.nothing", "remove f.items 7", "remove f.items x", "add", "odd"])
def test_a_button_that_is_not_there_does_nothing(file_store: Store, button: str):
    visit = filled(Visit(file_store, AsksAll()))
    fields = [("do", button), *visit.form.fields]
    page = post(visit.app, visit.address, fields)
    assert page.status == 200 and visit.run.status == "waiting"
    assert [name for name, _ in Filled(page).fields if name == "f.items:rows"] == ["f.items:rows"]


def test_pages_need_no_script_and_nothing_from_elsewhere(file_store: Store):
    """Every control has its label; nothing is loaded; Enter sends: the first button is the one that does."""
    body = Visit(file_store, AsksAll()).page.body
    assert "<script" not in body and not re.search(r"<[^>]* on\w+=", body)
    assert not re.findall(r'(?:src|href)="(?!#|data:,")', body)
    ids = re.findall(r' id="([^"]+)"', body)
    assert len(ids) == len(set(ids))
    labelled = set(re.findall(r'<label for="([^"]+)"', body))
    for tag in re.findall(r"<(?:input|select|textarea)[^>]*>", body):
        if 'type="hidden"' not in tag:
            mark = re.search(r' id="([^"]+)"', tag)
            assert (mark is not None and mark[1] in labelled) or "aria-label=" in tag, tag
    assert re.findall(r"<button[^>]*>", body)[0].startswith('<button name="do" value="send"')
    for described in re.findall(r'aria-describedby="([^"]+)"', body):
        assert set(described.split()) <= set(ids)


class Weighed(InputRequiredEvent[Verdict]):
    prefix: str = "Are these right?"
    rows: Any = None
    plot: Any = None


class Weighs(Workflow[Any]):
    @step
    async def only(self, ev: Begin, ctx: Context) -> StopEvent:
        frame = pd.DataFrame({"<b>": ["&", "x"], "mass": [1.5, 2.0]}, index=["first", "second"])
        picture = io.BytesIO()
        Image.new("RGB", (4, 3), "red").save(picture, "PNG")
        default = Verdict(decision="reject", note="nobody")
        await ctx.ask(Weighed(rows=frame, plot=picture.getvalue()), timeout=3_600, default=default)
        return StopEvent(result="done")


def test_a_frame_is_a_table_and_a_picture_is_one(store: Store):
    """As in the notebook; what stands in them is text, and nothing is asked of another place."""
    visit = Visit(store, Weighs())
    body = visit.page.body
    assert (
        '<th scope="col">&lt;b&gt;</th>' in body and '<th scope="row">first</th>' in body and "<td>&amp;</td>" in body
    )
    assert re.search(r'<img src="data:image/png;base64,[A-Za-z0-9+/=]+" alt="[^"]+">', body)
    assert "DataFrame 2" in body
    assert "then the answer is decision reject, note nobody" in visit.page.words
    visit.put("f.decision", "approve").put("by", "Ann")
    assert visit.press().status == 200
    assert visit.run.result(20) == "done"
