"""Facts about the kernel, from messages as kernels have them."""

import asyncio
import threading
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import IPython
import pytest

from flownb.notebook import kernel
from flownb.runtime import capture, host
from flownb.runtime.hearing import Hearing


def message(
    kind: str = "execute_request", *, cell: str = "c1", session: str = "s1", stdin: bool = True
) -> dict[str, Any]:
    """What a kernel works on."""
    return {
        "header": {"msg_id": "m1", "msg_type": kind, "session": session},
        "metadata": {"cellId": cell} if cell else {},
        "content": {"allow_stdin": stdin},
    }


class Publisher:
    """The shell's `display_pub`."""

    def __init__(self) -> None:
        self.published: list[Any] = []

    def publish(self, data: Any, *args: Any, **kwargs: Any) -> None:
        self.published.append(data)


def shell(parent: dict[str, Any] | None, *, hook: Any = None) -> SimpleNamespace:
    """A shell whose kernel works on a message."""
    return SimpleNamespace(
        kernel=SimpleNamespace(get_parent=lambda: parent),
        displayhook=SimpleNamespace(msg=hook),
        display_pub=Publisher(),
    )


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the shell that IPython gives."""
    monkeypatch.setattr(host, "hellos", set())
    return lambda made: monkeypatch.setattr(IPython, "get_ipython", lambda: made)


def test_outside_a_kernel_there_is_no_message_and_nobody_looks(use: Any):
    use(None)
    assert kernel.parent() == {}
    assert not kernel.is_cell({})
    assert not kernel.has_front_end()
    assert not kernel.is_last_expression()
    assert kernel.cell_key({}) == ""


def test_a_kernel_that_has_not_begun_has_no_message(use: Any):
    use(shell(None))
    assert kernel.parent() == {}


def test_the_parent_is_a_copy(use: Any):
    held = message()
    use(shell(held))
    assert kernel.parent() == held
    assert kernel.parent() is not held


@pytest.mark.parametrize("kind", ["comm_msg", "comm_open", "debug_request"])
def test_only_an_execution_is_a_cell(kind: str):
    assert kernel.is_cell(message())
    assert not kernel.is_cell(message(kind))


def test_another_thread_is_no_cell():
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(kernel.is_cell(message())))
    thread.start()
    thread.join()
    assert found == [False]


def test_a_cell_is_known_by_its_id_and_one_without_by_nothing():
    """No message id: each execution would be a cell of its own, and its panel be kept for ever."""
    assert kernel.cell_key(message(cell="c7")) == "c7"
    assert kernel.cell_key(message(cell="")) == ""


def test_somebody_looks_where_input_is_allowed_or_a_widget_of_the_session_said_hello(use: Any):
    use(shell(message(stdin=True)))
    assert kernel.has_front_end()
    use(shell(message(stdin=False)))
    assert not kernel.has_front_end()
    kernel.said_hello()
    assert kernel.has_front_end()
    use(shell(message(stdin=False, session="s2")))
    assert not kernel.has_front_end()


def test_the_last_expression_is_shown_while_the_hook_has_a_message(use: Any):
    use(shell(message()))
    assert not kernel.is_last_expression()
    use(shell(message(), hook={"content": {}}))
    assert kernel.is_last_expression()


def test_what_a_step_displays_goes_to_its_log_and_all_else_where_it_went(use: Any, monkeypatch: pytest.MonkeyPatch):
    made = shell(message())
    use(made)
    monkeypatch.setattr(capture, "on_change", [])
    kernel.route_displays()
    kernel.route_displays()
    assert len(capture.on_change) == 1
    said: list[str] = []

    class Step:
        def take_output(self, text: str) -> bool:
            said.append(text)
            return True

    token = capture.sink.set(Step())
    made.display_pub.publish({"text/plain": "a frame"})
    made.display_pub.publish({"image/png": "…"})
    capture.sink.reset(token)
    made.display_pub.publish({"text/plain": "of a cell"})
    assert said == ["a frame\n", "<no text>\n"]
    assert made.display_pub.published == [{"text/plain": "of a cell"}]
    for call in capture.on_change:
        call(False)
    assert "publish" not in made.display_pub.__dict__


@pytest.mark.parametrize("looks_only_here", [True, False])
def test_a_host_gets_a_parent_where_the_kernel_looks_for_one_in_the_context_alone(use: Any, looks_only_here: bool):
    """ipykernel 7.0: on the engine's thread it would find none, and nothing could be shown."""
    parent: ContextVar[Any] = ContextVar("shell_parent")
    made = shell(None)
    made.kernel.get_parent = parent.get if looks_only_here else message
    use(made)
    loop = asyncio.new_event_loop()
    found: list[Any] = []
    token = parent.set(message(cell="c9"))
    on = host.Host(loop)
    kernel.lend_parent(on)
    parent.reset(token)
    on.soon(lambda: found.append(parent.get(None)))
    on.soon(loop.stop)
    loop.run_forever()
    loop.close()
    assert found == [message(cell="c9") if looks_only_here else None]


def test_a_kernel_that_finds_no_parent_on_a_thread_has_none(use: Any, monkeypatch: pytest.MonkeyPatch):
    parent: ContextVar[Any] = ContextVar("shell_parent")
    made = shell(None)
    made.kernel.get_parent = parent.get
    use(made)
    assert kernel.parent() == {}
    monkeypatch.setattr(host, "in_kernel", lambda: True)
    assert host.kernel_message() == {}


def test_the_way_that_a_message_came_is_kept_by_the_page_that_sent_it(use: Any, monkeypatch: pytest.MonkeyPatch):
    fresh = Hearing()
    monkeypatch.setattr(kernel, "hearing", fresh)
    use(shell(message("comm_msg", session="s7")))
    kernel.heard()
    assert fresh.beside == {"s7": False}
    thread = threading.Thread(target=kernel.heard)
    thread.start()
    thread.join()
    assert fresh.beside == {"s7": True}
