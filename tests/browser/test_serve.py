"""A question answered in a real browser, at its link: fill in, error, correction, success; the pages of used and wrong
links; light, dark, and as narrow as a telephone (issue 6)."""

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from lab_harness import Browser
from playwright.sync_api import Page, expect

from flownb import Store
from flownb.serve import link
from flownb.serve.server import serving
from tests.polling import wait_until
from tests.serve.flows import Address, AsksAll, Card, Item, asking, got


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store(tmp_path / "runs.db")) as opened:
        yield opened


@pytest.fixture
def base(store: Store) -> Iterator[tuple[str, str]]:
    """The address of a server of the store, and that of its list."""
    with serving(store, "127.0.0.1", 0) as (server, address):
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            wait_until(server.is_up)
            yield address.base, address.listed
        finally:
            server.stop()
            thread.join(20)


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Page]:
    """A page of its own, whose console says nothing."""
    page = browser.new_page()
    page.set_viewport_size({"width": 900, "height": 1000})
    page.emulate_media(color_scheme="light")
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url) if "127.0.0.1" not in request.url else None)
    yield page
    page.close()
    # Chromium notes every answer that is an error; nothing else may be there, and nothing was asked for elsewhere.
    assert [text for text in said if "Failed to load resource" not in text and not text.startswith("data:")] == []


def shoot(page: Page, shots: Path, name: str) -> None:
    """The page light, dark, and narrow; never wider than its window."""
    for scheme, width in (("light", 900), ("dark", 900), ("light", 400)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 1000})
        page.screenshot(path=shots / f"serve-{name}-{scheme}-{width}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), (scheme, width)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 900, "height": 1000})


def test_a_question_is_answered_in_a_browser(store: Store, base: tuple[str, str], visitor: Page, shots: Path):
    """By keyboard and by mouse; what is wrong is named, found and mended; a second click says so."""
    page = visitor
    run = asking(AsksAll(), store)
    page.goto(base[1])
    shoot(page, shots, "list")
    page.get_by_role("link", name="Everything, please").click()
    assert page.url == link(run.requests[0], base[0])
    expect(page.get_by_role("heading", name="Everything, please")).to_be_visible()
    shoot(page, shots, "form")
    page.get_by_label("Text", exact=False).first.fill("a <b>")
    page.keyboard.press("Enter")  # sends, and adds no row
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("Not sent. Please mend what is marked.")
    expect(page).to_have_title("Error: Everything, please")
    expect(page.get_by_label("Secret")).to_be_focused()
    shoot(page, shots, "errors")
    alert.get_by_role("link", name="Number").first.click()
    expect(page.get_by_label("Number").first).to_be_focused()
    page.keyboard.type("2.5")
    page.get_by_label("l", exact=True).check()
    page.get_by_label("Day").fill("2026-12-24")
    page.get_by_label("Due", exact=False).first.fill("2026-12-24T18:30")
    page.get_by_label("Due: time zone").fill("Europe/Berlin")
    page.get_by_label("Name", exact=False).first.fill("bolt")
    page.get_by_role("button", name="Add to Items").click()
    expect(page.get_by_role("group", name="Items 2").get_by_label("Name")).to_be_focused()
    page.keyboard.type("nut")
    page.get_by_label("Street").first.fill("Main Street 1")
    expect(page.get_by_label("Amount")).to_be_hidden()  # of the tab that is not chosen
    page.get_by_label("cash").check()
    expect(page.get_by_label("Amount")).to_be_visible()
    page.get_by_label("card").check()
    page.locator('[name="f.pay~0.number"]').fill("1234")
    page.get_by_label("Your name").fill("Ann Smith")
    page.get_by_label("Secret").fill("sesame")
    page.get_by_role("button", name="Send answer").last.click()
    expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
    expect(page.get_by_role("status")).to_have_text("Your answer is recorded. The run goes on with it.")
    assert "sesame" not in page.content()
    shoot(page, shots, "thanks")
    assert run.result(20) == "done"
    answer: Any = got.pop()
    assert (answer.text, answer.items) == ("a <b>", [Item(name="bolt"), Item(name="nut")])
    assert (answer.address, answer.pay) == (Address(street="Main Street 1"), Card(number="1234"))
    assert (str(answer.due), answer.secret.get_secret_value()) == ("2026-12-24 18:30:00+01:00", "sesame")
    page.reload()  # sends it once more
    expect(page.get_by_role("heading", name="Answered already, the same")).to_be_visible()
    assert page.goto(link(run.requests.all()[0], base[0])).status == 410  # type: ignore[union-attr]
    expect(page.locator("main")).to_contain_text("It was answered by Ann Smith (by link) on ")
    shoot(page, shots, "used")
    assert page.goto(f"{base[0]}/r/wrong").status == 404  # type: ignore[union-attr]
    expect(page.get_by_role("heading", name="There is nothing here")).to_be_visible()
    shoot(page, shots, "wrong")


def test_another_site_cannot_send_a_form(store: Store, base: tuple[str, str], visitor: Page, tmp_path: Path):
    """A page of somebody who knows the link: the browser says where the form comes from."""
    run = asking(AsksAll(), store)
    address = link(run.requests[0], base[0])
    page = visitor
    page.goto(address)
    seal = page.locator('[name="seal"]').get_attribute("value")
    evil = f'<form method="post" action="{address}"><input name="seal" value="{seal}"><button>go</button></form>'
    page.route("http://evil.127.0.0.1.nip.test/", lambda route: route.fulfill(body=evil, content_type="text/html"))
    page.goto("http://evil.127.0.0.1.nip.test/")
    with page.expect_response(address) as sent:
        page.get_by_role("button", name="go").click()
    assert sent.value.status == 403
    expect(page.get_by_role("heading", name="Not from here")).to_be_visible()
    run.cancel().result(20)
