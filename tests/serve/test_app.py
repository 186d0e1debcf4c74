"""Questions answered over HTTP: every page, and what each says (issue 6, R4.59 to R4.62)."""

import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from flownb import Store
from flownb.errors import RequestDisposed, RequestError, WorkflowConfigurationError
from flownb.runtime.questions import secret_of
from flownb.serve import application, link
from flownb.serve.asking import Answering
from flownb.serve.guards import FORM_S, Seal
from flownb.serve.limits import Limit
from flownb.serve.look import HEADERS
from tests.polling import wait_until
from tests.serve.asgi import FORM, Filled, Page, ask, path_to, post
from tests.serve.flows import Asks, Defaults, Words, asking
from tests.stored.other import Other

Start = Callable[..., Other]


def opened(app: Any, token: str) -> Filled:
    """The form of a token's page."""
    page = ask(app, "GET", path_to(token))
    assert page.status == 200, page.words
    return Filled(page)


def sent(app: Any, token: str, form: Filled, **more: Any) -> Page:
    return post(app, path_to(token), form.pressed(), **more)


def is_bare(page: Page, *secrets: str) -> bool:
    """Whether a page has all headers, and names neither a token nor what else must not be there."""
    held = {name: page.headers.get(name) for name in HEADERS}
    return held == HEADERS and not any(secret in page.body or secret in str(page.headers) for secret in secrets)


def test_a_question_is_shown_and_answered(store: Store):
    """R4.49, R4.59: the page tells what is asked and about what, hides secrets, and its answer moves the run; who
    answered is what they said, marked as said with a link."""
    app = application(store)
    run = asking(Asks(), store)
    token = run.requests[0].token
    page = ask(app, "GET", path_to(token))
    assert page.status == 200 and is_bare(page, token, "sesame", "<script")
    assert "Asks asks, in step check Shall this letter be sent?" in page.words
    assert "text Dear <b>Ms Smith</b>, it is done." in page.words
    assert "&lt;b&gt;Ms Smith&lt;/b&gt;" in page.body
    form = Filled(page).put("f.decision", "approve").put("f.note", "as agreed").put("by", "  Ann\n Smith ")
    thanks = sent(app, token, form)
    assert thanks.status == 200 and is_bare(thanks, token)
    assert "Thank you Your answer is recorded. The run goes on with it." in thanks.words
    assert "Decision approve Note as agreed answered by Ann Smith (by link) at " in thanks.words
    assert run.result(20) == ["approve", "as agreed"]
    (answered,) = run.requests.all()
    assert (answered.status, answered.by) == ("answered", "Ann Smith (by link)")
    assert run._runner.questions.accepted[1].how == "person"


def test_what_is_wrong_stands_at_its_field_and_what_was_typed_is_kept(file_store: Store):
    """R4.45: nothing is appended. The model's own check is told on top."""
    app = application(file_store)
    run = asking(Asks(), file_store)
    token = run.requests[0].token
    before = len(run.debug.ticks)
    page = sent(app, token, opened(app, token).put("f.note", "a <b>\r\nc"))
    assert page.status == 422 and "Not sent. Please mend what is marked." in page.words
    assert "Decision: Please fill this in." in page.words and "Your name: Please say who you are." in page.words
    assert 'aria-invalid="true"' in page.body
    form = Filled(page)
    assert form.value("f.note") == "a <b>\r\nc"
    page = sent(app, token, form.put("f.decision", "reject").put("f.note", "").put("by", "Ann"))
    assert page.status == 422 and "Not sent. a rejection needs a note" in page.words
    form = Filled(page)
    assert (form.value("f.decision"), form.value("by")) == ("reject", "Ann")
    assert len(run.debug.ticks) == before
    assert sent(app, token, form.put("f.note", "no")).status == 200
    assert run.result(20) == ["reject", "no"]


def test_a_second_click_is_harmless_and_another_answer_comes_too_late(store: Store):
    """R4.47: the same once more is told as such; another one is refused, and the first stands."""
    app = application(store)
    run = asking(Asks(), store)
    token = run.requests[0].token
    form = opened(app, token).put("f.decision", "approve").put("by", "Ann")
    assert "Thank you" in sent(app, token, form).words
    again = sent(app, token, form)
    assert again.status == 200
    assert "Answered already, the same This very answer was there already. Nothing changed." in again.words
    late = sent(app, token, form.put("f.decision", "reject").put("f.note", "mine").put("by", "Bob"))
    assert late.status == 409 and is_bare(late, token, "approve", "mine")
    assert "Somebody was first It was answered by Ann (by link) on " in late.words
    assert "That answer stands; yours was not taken." in late.words
    used = ask(app, "GET", path_to(token))
    assert used.status == 410 and is_bare(used, token, "approve", "letter", "Smith")
    assert "This question was answered It was answered by Ann (by link) on " in used.words
    assert run.result(20) == ["approve", ""]


def test_clicks_at_the_same_moment_are_one_answer(store: Store):
    """R4.47: one says thank you, all others that it was there already."""
    told: list[str] = []
    app = application(store, told=told.append)
    run = asking(Asks(), store)
    token = run.requests[0].token
    form = opened(app, token).put("f.decision", "approve").put("by", "Ann")
    pages: list[Page] = []
    threads = [threading.Thread(target=lambda: pages.append(sent(app, token, form))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {page.status for page in pages} == {200}
    assert sorted("Thank you" in page.words for page in pages) == [False] * 5 + [True]
    assert told == [f"{run.run_id}:1 was answered by Ann (by link)."]
    assert sum(type(tick).__name__ == "RequestAnswered" for tick in run.debug.ticks) == 1
    assert run.result(20) == ["approve", ""]


def test_a_wrong_token_is_a_page_that_says_nothing(store: Store):
    """R4.61: nothing of the address, nothing of others."""
    app = application(store, client_limit=Limit(10_000))
    run = asking(Asks(), store)
    token = run.requests[0].token
    for wrong in (token[:-1], token + "A", token.swapcase(), "x", "a" * 3000, "ü/..\x00", secret_of(token)):
        for page in (ask(app, "GET", path_to(wrong)), post(app, path_to(wrong), [("seal", "x")])):
            assert page.status == 404 and is_bare(page, token, wrong if len(wrong) > 1 else token, "Asks")
            assert page.words.startswith("There is nothing here There is nothing here No question has this address.")
    assert [ask(app, "GET", path).status for path in ("/r/", "/r", "/nothing", "//r/x", "/favicon.ico")] == [404] * 5


def test_a_deadline_is_told_and_so_is_its_end(store: Store):
    """R4.54, R4.55: what is taken then; later that it was, without the value."""
    app = application(store)
    run = asking(Defaults(), store, within=60)
    page = ask(app, "GET", path_to(run.requests[0].token))
    assert "It can be answered until " in page.words and "seconds are left); then the answer is none." in page.words
    run = asking(Defaults(), store, within=0.5)
    token = run.requests[0].token
    form = opened(app, token).put("f.answer", "late").put("by", "Ann")
    assert run.result(20) == "none"
    for page in (ask(app, "GET", path_to(token)), sent(app, token, form)):
        assert page.status == 410 and is_bare(page, token)
        assert "Too late The deadline of this question is over, so its default answer was taken." in page.words
        assert "The deadline was " in page.words
    run = asking(Asks(), store, within=0.3)
    token = run.requests[0].token
    wait_until(run.is_done)
    page = ask(app, "GET", path_to(token))
    assert page.status == 410 and "and nobody had answered. It is closed." in page.words


def test_other_ends_are_told_in_words(store: Store):
    """R4.52, R4.75: ended by hand, withdrawn with its asker, and closed with its run."""
    app = application(store)
    run = asking(Asks(), store, n=2)
    first, second = (request.token for request in run.requests)
    run.requests[0].dispose("not needed: sesame")
    with pytest.raises(RequestDisposed):
        run.result(20)
    page = ask(app, "GET", path_to(first))
    assert page.status == 410 and is_bare(page, first, "sesame")
    assert "No answer is needed This question was ended without an answer." in page.words
    page = ask(app, "GET", path_to(second))
    assert page.status == 410 and "The run that asked this question is over." in page.words
    run = asking(Asks(), store)
    token = run.requests[0].token
    form = opened(app, token).put("f.decision", "approve").put("by", "Ann")
    run.cancel("enough").result(20)
    page = sent(app, token, form)
    assert page.status == 410 and "The run that asked this question is over." in page.words


@pytest.mark.parametrize("how", ["superseded", "withdrawn"])
def test_a_question_that_was_taken_back_says_so(file_store: Store, monkeypatch: pytest.MonkeyPatch, how: str):
    """R4.70, R4.75: the one that took its place has a token of its own, which stands nowhere here."""
    app = application(file_store)
    run = asking(Asks(), file_store, n=2)
    first, second = run.requests
    monkeypatch.setitem(run._runner.questions.closed, first.number, how)
    page = ask(app, "GET", path_to(first.token))
    assert page.status == 410 and is_bare(page, first.token, second.token)
    assert {"superseded": "another question took its place", "withdrawn": "was withdrawn"}[how] in page.words


def test_a_damaged_record_is_told(tmp_path: Path):
    """No answer would be used, so none is taken. The question itself may be behind the damage."""
    path = tmp_path / "runs.db"
    with closing(Store(path)) as store:
        run = asking(Asks(), store)
        token, asked = run.requests[0].token, len(run.debug.ticks)
        run.suspend(drain=0).result(20)
    told = {asked: "The record of its run is damaged", 2: "It can no longer be answered.", 1: "damaged"}
    for seq, words in told.items():
        with closing(sqlite3.connect(path)) as db:
            db.execute("UPDATE journal SET body = x'7b' WHERE seq = ?", (seq,))
            db.commit()
        with closing(Store(path)) as store:
            page = ask(application(store), "GET", path_to(token))
            assert page.status == 410 and is_bare(page, token) and words in page.words


def test_a_token_of_the_callers_own_is_served(store: Store):
    """R4.57: whatever text it is; nobody else can make its link."""
    app = application(store)
    run = asking(Words(), store)
    address = link("a/b c%2F?x=ü", "https://flows.example.org/")
    assert address == "https://flows.example.org/r/a%2Fb%20c%252F%3Fx%3D%C3%BC"
    page = ask(app, "GET", address)
    assert page.status == 200 and "Which one?" in page.words
    with pytest.raises(RequestError, match="a token of its own"):
        link(run.requests[0])
    with pytest.raises(RequestError, match="cannot stand in an address"):
        link("..")
    assert post(app, address, Filled(page).put("f.answer", "this").put("by", "Ann").pressed()).status == 200
    assert run.result(20) == "this"


def test_links(file_store: Store):
    """Of a question in its run, and of one in the store; the base is checked."""
    run = asking(Asks(), file_store)
    request = run.requests[0]
    assert link(request) == f"http://127.0.0.1:8765/r/{request.token}" == link(file_store.requests()[0])
    assert link(request, "https://h:1/flows/") == f"https://h:1/flows/r/{request.token}"
    for base in ("", "flows.example.org", "ftp://h", "http://", "http://h/?x=1", "http://h/#x"):
        with pytest.raises(WorkflowConfigurationError, match="is no address"):
            link(request, base)
    in_memory = Asks().run()
    wait_until(lambda: in_memory.requests)
    with pytest.raises(RequestError, match="its run is kept in no store"):
        link(in_memory.requests[0])
    in_memory.cancel().result(20)


# Where the answer goes.


def test_a_server_needs_no_class_and_the_driver_goes_on(place: str, other: Start):
    """R4.46, R4.62: the form comes of the stored schema; where nobody drives the run the answer waits for it."""
    driver, server = other(place), other(place, knows=False)
    driver.do("from tests.serve.flows import *; run = asking(Asks(), store)")
    token = driver.give("run.requests[0].token")
    server.do("from tests.serve.asgi import *; from flownb.serve import application; app = application(store)")
    server.do(f"address = path_to({token!r}); form = Filled(ask(app, 'GET', address))")
    server.do("form.put('f.decision', 'approve').put('by', 'Ann')")
    assert "goes on with it" in server.give("post(app, address, form.pressed()).words")
    assert driver.give("run.result(20)") == ["approve", ""]
    driver.do("run = asking(Asks(), store)")
    token = driver.give("run.requests[0].token")
    driver.kill()
    server.do(f"address = path_to({token!r}); form = Filled(ask(app, 'GET', address))")
    server.do("form.put('f.decision', 'approve').put('by', 'Ann')")
    assert "takes it as soon as a process drives it" in server.give("post(app, address, form.pressed()).words")
    used = server.give("tuple(ask(app, 'GET', address))")
    assert used[0] == 410 and "by Ann (by link)" in used[2]
    assert "there already" in server.give("post(app, address, form.pressed()).words")


def test_what_the_driver_refuses_is_told_and_can_be_mended(place: str, other: Start):
    """R4.46: the stored schema does not know the model's own check; the driver does."""
    driver, server = other(place), other(place, knows=False)
    driver.do("from tests.serve.flows import *; run = asking(Asks(), store)")
    token = driver.give("run.requests[0].token")
    server.do("from tests.serve.asgi import *; from flownb.serve import application; app = application(store)")
    server.do(f"address = path_to({token!r}); form = Filled(ask(app, 'GET', address))")
    server.do("form.put('f.decision', 'reject').put('by', 'Ann'); page = post(app, address, form.pressed())")
    assert server.give("page.status") == 422
    assert "a rejection needs a note" in server.give("page.words")
    server.wait("ask(app, 'GET', address).status == 200")
    assert "The run did not take the last answer." in server.give("ask(app, 'GET', address).words")
    server.do("page = post(app, address, Filled(page).put('f.note', 'no').pressed())")
    assert server.give("page.status") == 200
    assert driver.give("run.result(20)") == ["reject", "no"]


def test_models_in_an_answer_reach_the_driver_without_its_classes(place: str, other: Start):
    """R4.46: made of the stored schema here, they are what they are there; also in lists, also a moment."""
    driver, server = other(place), other(place, knows=False)
    driver.do("os.environ['FLOWNB_KEY'] = ''; from tests.serve.flows import *; flow = AsksLists()")
    driver.do("run = asking(flow, store)")
    token = driver.give("run.requests[0].token")
    server.do("from tests.serve.asgi import *; from flownb.serve import application; app = application(store)")
    server.do(f"address = path_to({token!r}); form = Filled(ask(app, 'GET', address))")
    server.do("page = post(app, address, form.pressed('add f.answer'))")
    server.do("page = post(app, address, Filled(page).put('f.answer.0.name', 'bolt').put('by', 'Ann').pressed())")
    assert server.give("page.status") == 200, server.give("page.words")
    assert driver.give("run.result(20)") == ["Item(name='bolt', count=1)"]


def test_who_is_asked_for_a_secret_that_cannot_be_sent_is_told_before(place: str, other: Start):
    """R4.50: not only after the whole form was filled in; in the process that drives the run it can be sent."""
    driver, server = other(place), other(place)
    driver.do("from tests.serve.flows import *; from tests.serve.asgi import *; from flownb.serve import application")
    driver.do("run = asking(AsksAll(), store)")
    address = driver.give("path_to(run.requests[0].token)")
    server.do("from tests.serve.asgi import *; from flownb.serve import application")
    for process, is_told in ((driver, False), (server, True)):
        words = process.give(f"ask(application(store), 'GET', {address!r}).words")
        assert ("none can be sent from here" in words) is is_told


# Guards.


def test_only_pages_of_this_server_send(file_store: Store):
    """A form of another site, or of none that was made here, is refused before anything is read."""
    app = application(file_store)
    run = asking(Asks(), file_store)
    token = run.requests[0].token
    form = opened(app, token).put("f.decision", "approve").put("by", "Ann")
    for headers in (
        [("origin", "https://evil.example")],
        [("origin", "http://127.0.0.1:9999")],
        [("origin", "null"), ("sec-fetch-site", "cross-site")],
        [("sec-fetch-site", "same-site")],
        [("origin", "http://[")],
        [("origin", "file://")],
    ):
        assert sent(app, token, form, headers=headers).status == 403
    for seal in ("", "x", "1.2.3", Seal(b"other").of(secret_of(token)), form.value("seal") + "0", "é.\ud800.x"[:1]):
        fields = [(name, seal if name == "seal" else value) for name, value in form.pressed()]
        page = post(app, path_to(token), fields)
        assert page.status == 403 and is_bare(page, token)
    assert run.status == "waiting"
    for headers in ([("origin", "http://127.0.0.1:8765"), ("sec-fetch-site", "same-origin")],):
        assert sent(app, token, form, headers=headers).status == 200


def test_a_form_of_another_question_does_not_fit(file_store: Store):
    """The seal is bound to the token."""
    app = application(file_store)
    run = asking(Asks(), file_store, n=2)
    first, second = (request.token for request in run.requests)
    form = opened(app, first).put("f.decision", "approve").put("by", "Ann")
    assert sent(app, second, form).status == 403
    assert len(run.requests) == 2
    run.cancel().result(20)


def test_an_old_page_has_to_be_looked_at_again(file_store: Store, monkeypatch: pytest.MonkeyPatch):
    """Nothing is sent, nothing is lost."""
    app = application(file_store)
    run = asking(Asks(), file_store)
    token = run.requests[0].token
    form = opened(app, token).put("f.decision", "approve").put("f.note", "mine").put("by", "Ann")
    monkeypatch.setattr("flownb.serve.guards.FORM_S", -1.0)
    page = sent(app, token, form)
    monkeypatch.setattr("flownb.serve.guards.FORM_S", FORM_S)
    assert page.status == 200 and "This page was open for a long time." in page.words
    assert run.status == "waiting"
    again = Filled(page)
    assert (again.value("f.note"), again.value("by")) == ("mine", "Ann")
    assert sent(app, token, again).status == 200


def test_a_server_is_called_by_its_own_names_only(file_store: Store):
    """Against names of others that are pointed at this machine."""
    app = application(file_store, names=["Flows.Example.org"])
    token = asking(Asks(), file_store).requests[0].token
    for host in ("127.0.0.1:8765", "localhost", "LOCALHOST:9", "[::1]:8765", "a.localhost:1", "flows.example.org:443"):
        assert ask(app, "GET", path_to(token), host=host).status == 200, host
    for host in (
        "evil.example",
        "evil.example:8765",
        "10.0.0.1",
        "",
        "127.0.0.1.evil.example",
        "a@localhost",
        "[::1",
        None,
    ):
        page = ask(app, "GET", path_to(token), host=host)
        assert page.status == 400 and is_bare(page, token), host
    twice = ask(app, "GET", path_to(token), headers=[("host", "localhost")])
    assert twice.status == 400
    public = application(file_store, host="0.0.0.0")
    assert ask(public, "GET", path_to(token), host="10.0.0.1:8765").status == 200
    assert ask(public, "GET", path_to(token), host="evil.example").status == 400


def test_nothing_but_pages_and_forms(file_store: Store):
    """Other methods, other kinds of bodies, long ones, slow ones."""
    app = application(file_store)
    token = asking(Asks(), file_store).requests[0].token
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "FOO"):
        page = ask(app, method, path_to(token))
        assert page.status == 405 and page.headers["allow"] == "GET, HEAD, POST" and is_bare(page, token)
    page = post(application(file_store, index_key="x"), "/?key=x", [])
    assert (page.status, page.headers["allow"]) == (405, "GET, HEAD")
    assert ask(app, "HEAD", path_to(token)).status == 200
    for kind in ("", "text/plain", "application/json", "multipart/form-data; boundary=x", "multipart/form-data"):
        page = ask(app, "POST", path_to(token), b"--x\r\n", [("content-type", kind)])
        assert page.status == 415 and page.headers["connection"] == "close" and is_bare(page, token)
    long = b"f.note=" + b"x" * (1 << 20)
    for body, headers in (
        (long, ()),
        ([long[:700_000], long[700_000:]], [("content-type", FORM)]),
        (b"x", [("content-type", FORM), ("content-length", "9" * 30)]),
        (urlencode([("a", "b")] * 3000).encode(), ()),
    ):
        page = ask(app, "POST", path_to(token), body, headers)
        assert page.status == 413 and "That is too" in page.words and is_bare(page, token)


def test_a_body_that_does_not_come_is_not_waited_for(file_store: Store, monkeypatch: pytest.MonkeyPatch):
    import asyncio

    from flownb.serve import bodies

    monkeypatch.setattr(bodies, "PATIENCE_S", 0.05)

    async def never() -> Any:
        await asyncio.sleep(60)
        yield b""

    with pytest.raises(bodies.Refused) as refused:
        asyncio.run(bodies.read_form(FORM, "", never()))
    assert refused.value.status == 408


def test_who_asks_too_often_waits(file_store: Store):
    """Each client, each token; who tries tokens that do not exist sooner."""
    run = asking(Asks(), file_store, n=2)
    first, second = (request.token for request in run.requests)
    now = [0.0]
    app = application(
        file_store,
        client_limit=Limit(30, clock=lambda: now[0]),
        token_limit=Limit(5, clock=lambda: now[0]),
    )
    statuses = [ask(app, "GET", path_to(first), client=f"10.0.0.{n}").status for n in range(8)]
    assert statuses == [200] * 5 + [429] * 3
    page = ask(app, "GET", path_to(first), client="10.0.0.9")
    assert page.headers["retry-after"] == "12" and is_bare(page, first) and "Please wait a moment" in page.words
    assert ask(app, "GET", path_to(second), client="10.0.0.9").status == 200
    now[0] += 12.0
    assert ask(app, "GET", path_to(first), client="10.0.0.9").status == 200
    guesses = [ask(app, "GET", path_to(f"guess {n}"), client="10.0.0.50").status for n in range(6)]
    assert guesses == [404] * 3 + [429] * 3
    assert ask(app, "GET", path_to(second), client="10.0.0.50").status == 429
    many = [ask(app, "GET", "/", client=f"2001:db8:1:2::{n}").status for n in range(32)]
    assert many == [404] * 30 + [429] * 2
    run.cancel().result(20)


def test_the_list_of_questions_is_for_who_has_its_key(file_store: Store):
    """On loopback only; it links to those whose token is known here."""
    run, words = asking(Asks(), file_store, n=2), asking(Words(), file_store)
    app = application(file_store, index_key="open sesame")
    for address in ("/", "/?key=", "/?key=open", "/?key=%FF", "/?KEY=open%20sesame", "/?key=open+sesame2"):
        page = ask(app, "GET", address)
        assert page.status == 403 and is_bare(page, run.requests[0].token, "letter", "sesame")
    page = ask(app, "GET", "/?key=open+sesame")
    assert page.status == 200 and is_bare(page, "sesame")
    assert "3 open questions" in page.words and "Shall this letter be sent?" in page.words
    assert [f'href="/r/{request.token}"' in page.body for request in run.requests] == [True, True]
    assert "Which one? (no link: its step gave it a token of its own" in page.words
    for other in (application(file_store), application(file_store, host="0.0.0.0", index_key="open sesame")):
        assert ask(other, "GET", "/?key=open+sesame").status == 404
    run.cancel().result(20)
    words.cancel().result(20)
    assert "Nobody is asked anything" in ask(app, "GET", "/?key=open+sesame").words


def test_a_fault_of_ours_tells_nothing(
    file_store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """R4.61: neither the page nor the log has what the exception says."""
    app = application(file_store)
    token = asking(Asks(), file_store).requests[0].token

    def broken(self: Any, token: str) -> Any:
        raise ValueError(f"cannot show {token}")

    monkeypatch.setattr(Answering, "show", broken)
    with caplog.at_level(logging.DEBUG):
        page = ask(app, "GET", path_to(token))
    assert page.status == 500 and is_bare(page, token) and "Something went wrong" in page.words
    assert "a request failed: ValueError in broken (" in caplog.text and token not in caplog.text


def test_a_store_that_cannot_be_read_is_told_as_such(tmp_path: Path):
    """It is tried again in a moment."""
    store = Store(tmp_path / "runs.db")
    token = asking(Asks(), store).requests[0].token
    app = application(store)
    store.close()
    page = ask(app, "GET", path_to(token))
    assert page.status == 503 and page.headers["retry-after"] == "2" and is_bare(page, token)


def test_a_run_that_was_deleted_is_gone(file_store: Store):
    run = asking(Asks(), file_store)
    token = run.requests[0].token
    run.cancel().result(20)
    app = application(file_store)
    assert ask(app, "GET", path_to(token)).status == 410
    file_store.journal.delete([run.run_id])
    assert ask(app, "GET", path_to(token)).status == 404


def test_an_imported_run_has_no_links(file_store: Store, tmp_path: Path):
    """Nobody can answer there, and its tokens belong to the store that it came from."""
    run = asking(Asks(), file_store)
    token = run.requests[0].token
    path = file_store.export(run.run_id, tmp_path / "run.zip")
    with closing(Store(tmp_path / "other.db")) as other:
        other.import_(path)
        assert ask(application(other), "GET", path_to(token)).status == 404
    run.cancel().result(20)
