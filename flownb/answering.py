"""How an answer comes in: which question it is for, whether it fits, and whether it comes too late.

After the door an answer is certain to be admitted, unless the run ends first (R1.31).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Secret, SecretBytes, SecretStr, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from flownb import events
from flownb.core import matching
from flownb.core.outstanding import waits_for
from flownb.core.state import Request as OpenRequest
from flownb.core.state import RunState, Waiter
from flownb.core.ticks import RequestAnswered
from flownb.core.values import Out, alike, meets
from flownb.defaults import options
from flownb.errors import (
    AlreadyAnswered,
    AmbiguousAnswer,
    AnswerInvalid,
    EngineLost,
    RequestClosed,
    RequestError,
    near,
)
from flownb.events import Event, HumanResponseEvent, Question, answer_of, newest, role_of
from flownb.runtime.questions import Accepted, accepted_of
from flownb.runtime.results import out_of, shown, value_out
from flownb.runtime.runner import Runner
from flownb.runtime.stored import accept, waits_still
from flownb.schemas import WORDS, schema_of, type_of, without_made
from flownb.store.marks import HIDDEN, UnknownEvent

if TYPE_CHECKING:
    from flownb.core.ticks import How


def request_of(value: Any) -> tuple[Runner, OpenRequest] | None:
    """Run and question of a `Request`, None for any other value."""
    opened = getattr(value, "_opened", None)
    return (value._runner, opened) if isinstance(opened, OpenRequest) else None


def names_a_question(value: Any) -> bool:
    """Whether a value can only be the name of a question: a `Request`, its number, or `<run id>:<number>`."""
    if isinstance(value, str):
        return value.rpartition(":")[2].isdigit()
    return request_of(value) is not None or (isinstance(value, int) and not isinstance(value, bool))


def family(runner: Runner) -> Iterator[Runner]:
    """A run and its children, at any depth."""
    yield runner
    for child in list((runner.children or {}).values()):
        yield from family(child)


def unanswered(runner: Runner) -> Iterator[OpenRequest]:
    """The open questions of one run that nobody has answered, oldest first."""
    return (r for r in runner.state.requests.values() if r.id not in runner.questions.accepted)


def answered_by(runner: Runner, ev: Event) -> tuple[Runner, OpenRequest] | None:
    """The question that an event from outside answers, with the run that asks it: the one of this run or of a child
    that its `request_id` names, open or not, else the oldest open one of this run whose answer it is, if no waiter
    looks for such an event (R4.51)."""
    waiting = unanswered(runner)
    head, _, tail = (str(ev["request_id"]) if "request_id" in ev else "").rpartition(":")
    if tail.isdigit():
        owner = next((each for each in family(runner) if each.run_id == (head or runner.run_id)), None)
        opened = owner.state.requests.get(int(tail)) or owner.questions.all.get(int(tail)) if owner else None
        if owner is not None and opened is not None:
            return owner, opened
    key, role, bases = type(ev).__flownb_kind__
    if runner.state.side.waiters.n and matching.takers(runner.state, Out(key, ev, role, bases)):
        return None
    for opened in waiting:
        if opened.kind == "event":  # its waiter does not take this one
            continue
        kind = answer_type(runner, opened)
        if is_event_class(kind) and kind.__flownb_kind__.key in (key, *bases):
            return runner, opened
    return None


def is_event_class(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Event)


def find(runner: Runner, which: Any) -> tuple[Runner, OpenRequest]:
    """The question that an answer is for, with the run that asks it, this one or a child; it may be closed by now.

    Args:
        runner: The run.
        which: Its number or id, a `Request`, or None for the only one.

    Raises:
        AmbiguousAnswer: None was named and several are open.
        RequestClosed: None was named and none is open.
        RequestError: Neither the run nor a child of it ever had it.
    """
    if which is None:
        waiting = [(each, opened) for each in family(runner) for opened in unanswered(each)]
        if len(waiting) == 1:
            return waiting[0]
        if waiting:
            listed = "; ".join(f"{each.run_id}:{opened.id}: {opened.question.value!r}" for each, opened in waiting)
            raise AmbiguousAnswer(f"Several questions are open, name one: {listed}.")
        raise RequestClosed(f"Run {runner.run_id!r} asks nothing: {_state_of(runner)}.")
    given = request_of(which)
    if given is not None:
        return given
    owner, number = _named(runner, which)
    found = owner.state.requests.get(number) or owner.questions.all.get(number)
    if found is not None:
        return owner, found
    raise RequestError(
        f"Run {owner.run_id!r} has no question {which!r}. Open: {list(owner.state.requests)}. "
        f"If {which!r} is the answer, write run.answer(None, {which!r})."
    )


def answer_request(
    runner: Runner,
    opened: OpenRequest,
    answer: Any,
    by: str | None,
    fields: dict[str, Any],
    how: How = "person",
    key: str = "",
) -> None:
    """Check an answer at the door and post it. After that it is certain to be admitted, unless the run ends first.

    Raises:
        EngineLost: The loop that drove the run is closed.
        AnswerInvalid: It does not fit the answer's model; nothing was appended.
        AlreadyAnswered: Another answer was given before. The same one again is harmless.
        RequestClosed: The question is closed otherwise.
    """
    runner.notice_loss()
    if isinstance(runner.error, EngineLost) and runner.stored is None:
        raise runner.error
    kind = answer_type(runner, opened)
    answer = without_made(answer)  # of a form that was drawn by the stored schema
    value = without_made(validated(kind, answer, _with_required(runner, opened, kind, answer, fields)))
    decision: Literal["", "retry", "done", "fail"] = ""
    if isinstance(opened.question.value, events.OutcomeUnknown):
        decision, value = value.decision, value.event
    out = runner.checked(out_of(value, runner.definition, 0.0) if decision and value is not None else value_out(value))
    _refuse_secret(runner, opened, value)
    who = options.user if by is None else by
    with runner.questions.door:
        if key and has_come(runner, key):
            return
        before = runner.questions.accepted.get(opened.id)
        if before is not None and before.how != "default":
            if is_same(before.answer.value, value):
                return
            _refuse_second(runner, opened.id, before)
        closed = why_closed(runner, opened.id)
        if closed:
            raise RequestClosed(f"Question {opened.id} of run {runner.run_id!r} is no longer open ({closed}).")
        now = runner.clock.now()
        tick = RequestAnswered(now, opened.id, out, who, how, decision, key)
        # Only once it is certain: who looks meanwhile must not be told of an answer that the store then refuses.
        certain = partial(runner.questions.accepted.__setitem__, opened.id, Accepted(out, who, now, how, key))
        is_first, late = False, None
        try:
            is_first = accept(runner, tick, key=f"answer:{opened.id}", request=opened.id, certain=certain)
        except RequestClosed as error:
            late = error
    if not is_first:
        _refuse_late(runner, opened.id, value, late)


def _refuse_late(runner: Runner, number: int, value: Any, late: RequestClosed | None) -> None:
    """Another process was first: the same answer once more is harmless, another one comes too late.

    Raises:
        AlreadyAnswered: With the answer that stands.
        RequestClosed: The question ended without one.
    """
    before = answer_in_store(runner, number)
    if before is None and late is not None:
        raise late
    if before is not None and not is_same(before.answer.value, value):
        _refuse_second(runner, number, before)


def answer_in_store(runner: Runner, number: int) -> Accepted | None:
    """The answer that another process gave, whether it waits in the store's inbox or is in the journal already."""
    stored = runner.stored
    if stored is None:
        return None
    journal = stored.committer.journal
    for entry in journal.inbox([runner.run_id]):
        tick = entry.tick
        if isinstance(tick, RequestAnswered) and tick.request == number:
            return accepted_of(tick)
    for tick in journal.read(runner.run_id, runner.before_seq + 1):
        if isinstance(tick, RequestAnswered) and tick.request == number:
            return accepted_of(tick)
    return runner.questions.accepted.get(number)


def _refuse_second(runner: Runner, number: int, before: Accepted) -> None:
    raise AlreadyAnswered(
        f"Question {number} was answered by {before.by or 'somebody'} at {_clock(before.at)}: "
        f"{_in_words(before.answer.value)}. The first answer stands.",
        value=before.answer.value,
    )


def readmitted(runner: Runner, tick: RequestAnswered) -> RequestAnswered:
    """An answer that another process took, as this one, which has the class, takes it (R4.46).

    Raises:
        AnswerInvalid: It does not fit.
    """
    opened = runner.state.requests.get(tick.request)
    if opened is None or tick.request in runner.questions.accepted:
        return tick  # it is late, and counted so
    value = tick.answer.value
    if not isinstance(opened.question.value, events.OutcomeUnknown):
        kind = answer_type(runner, opened)
        if isinstance(value, UnknownEvent):
            raise AnswerInvalid(f"The answer is a {value.key}, and {value.reason}")
        is_here = isinstance(kind, type) and issubclass(kind, BaseModel) and isinstance(value, kind)
        if not is_here:
            tick = replace(tick, answer=value_out(validated(kind, value, {})))
    runner.questions.accepted[tick.request] = accepted_of(tick)
    return tick


def schema_in(runner: Runner, state: RunState, opened: OpenRequest) -> dict[str, Any] | None:
    """What is stored beside a question that is open in a state, for processes that do not have the class of its
    answer."""
    return schema_of(answer_type(runner, opened, state))


def has_come(runner: Runner, key: str) -> bool:
    """Whether something that its sender calls by this key was admitted by a run, or answers it already (R2.33)."""
    if key in runner.state.side.keys:
        return True
    return any(answer.key == key for answer in tuple(runner.questions.accepted.values()))


def _refuse_secret(runner: Runner, opened: OpenRequest, value: Any) -> None:
    """Raises AnswerInvalid for a secret that would have to go through a store's inbox to another process, where nothing
    seals it: it is never written in plain text, so it would be lost (R4.50)."""
    if takes_no_secret(runner) and _has_secret(value):
        raise AnswerInvalid(
            f"The answer to question {runner.run_id}:{opened.id} has a secret, and another process has to get it. "
            "Answer where the run is driven, or set FLOWNB_KEY in both processes: secrets are sealed then."
        )


def takes_no_secret(runner: Runner) -> bool:
    """Whether an answer that is given here goes to another process, with nothing to seal its secrets."""
    stored = runner.stored
    return stored is not None and not stored.committer.seals and bool(runner.suspended) and stored.is_viewer


def _has_secret(value: Any) -> bool:
    if isinstance(value, (Secret, SecretStr, SecretBytes)):
        return True
    if isinstance(value, BaseModel):
        return any(map(_has_secret, (*value.__dict__.values(), *(value.__pydantic_extra__ or {}).values())))
    if isinstance(value, dict):
        return any(map(_has_secret, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_has_secret, value))


def is_same(before: Any, value: Any) -> bool:
    """Whether two answers are the same (R4.47); a process that has not the class knows one of them by its fields."""
    if isinstance(before, UnknownEvent) or isinstance(value, UnknownEvent):
        return alike(_fields_of(before), _fields_of(value))
    return alike(without_secrets(before), without_secrets(value))


def _fields_of(value: Any) -> Any:
    plain = value.plain() if isinstance(value, UnknownEvent) else to_jsonable_python(value, fallback=repr)
    return {name: item for name, item in plain.items() if item != HIDDEN} if isinstance(plain, dict) else plain


def _in_words(value: Any) -> str:
    return repr(value.plain()) if isinstance(value, UnknownEvent) else repr(value)


def without_secrets(value: Any) -> Any:
    """A value to compare with another answer: secrets are no part of it (R4.47)."""
    if isinstance(value, (Secret, SecretStr, SecretBytes)):
        return None
    if isinstance(value, BaseModel):
        fields = {**value.__dict__, **(value.__pydantic_extra__ or {})}
        return type(value).__qualname__, {name: without_secrets(item) for name, item in fields.items()}
    if isinstance(value, dict):
        return {name: without_secrets(item) for name, item in value.items()}
    return type(value)(map(without_secrets, value)) if type(value) in (list, tuple) else value


def why_closed(runner: Runner, number: int) -> str:
    """What keeps a question from being answered, "" if it is open."""
    questions = runner.questions
    if number in questions.disposing and number not in questions.closed:
        return "it is just being closed"
    if number not in runner.state.requests or runner.ended:
        return questions.closed.get(number) or _state_of(runner)
    # In a store the answer waits until somebody drives the run (R4.62).
    if runner.suspended and runner.stored is None and not waits_still(runner):
        return f"nobody drives the run: {runner.suspended}"
    return ""


def _with_required(
    runner: Runner, opened: OpenRequest, kind: Any, answer: Any, fields: dict[str, Any]
) -> dict[str, Any]:
    """The fields of an answer, with those that a wait for an event requires (API §6).

    Raises:
        AnswerInvalid: One that is required was given another value.
    """
    waiter = waiter_of(runner, opened)
    if waiter is None or not waiter.requires:
        return fields
    given = dict(answer) if isinstance(answer, (dict, BaseModel)) else {}
    given.update(fields)
    required = {name: out.value for name, out in waiter.requires.items()}
    wrong = [name for name, value in required.items() if name in given and not meets(value, given[name])]
    if wrong:
        raise AnswerInvalid(
            f"Step {runner.state.spec.steps[opened.step].name!r} waits for {wrong[0]}={required[wrong[0]]!r}; "
            f"{given[wrong[0]]!r} would not reach it.",
            field=wrong[0],
        )
    return fields if isinstance(answer, BaseModel) else {**required, **fields}


def waiter_of(runner: Runner, opened: OpenRequest, state: RunState | None = None) -> Waiter | None:
    """The wait for an event that shows a question, in a state of the run; None is the present one."""
    if opened.kind != "event":
        return None
    state = runner.state if state is None else state
    step = state.steps[opened.step]
    d = step.waiting.get(opened.delivery) or step.active.get(opened.delivery)
    wait = d.waits.get(opened.mark) if d is not None else None
    return state.side.waiters.get(wait.ref) if wait is not None else None


def answer_type(runner: Runner, opened: OpenRequest, state: RunState | None = None) -> Any:
    """What answers a question: its class's `[A]` by its newest definition, the type given to `ctx.ask`, else the
    only answer event that steps take.

    Args:
        runner: The run.
        opened: The question.
        state: In which it is open; None is the present one.
    """
    question = opened.question.value
    asked = runner.questions.answer_types.get(opened.id)
    if asked is not None:
        return asked
    if isinstance(question, UnknownEvent):  # this process has not its class
        schema = runner.stored.committer.schema(runner.run_id, opened.id) if runner.stored is not None else None
        return HumanResponseEvent if schema is None else type_of(schema)
    waiter = waiter_of(runner, opened, state)
    if waiter is not None:
        return runner.definition.class_of(waiter.event) or HumanResponseEvent
    if isinstance(question, Question):
        return WORDS.get(question.answer, str) if question.answer_schema is None else type_of(question.answer_schema)
    found = answer_of(type(shown(opened.question, runner.definition)))
    if isinstance(found, type) and issubclass(found, Event):
        return newest(found.__flownb_kind__.key) or found
    if found is not None:
        return found
    taken = {
        key: cls
        for step in runner.definition.spec.steps
        for key in step.accepts
        if (cls := runner.definition.class_of(key)) is not None and role_of(cls) == "answer"
    }
    return next(iter(taken.values())) if len(taken) == 1 else HumanResponseEvent


def validated(kind: Any, answer: Any, fields: dict[str, Any]) -> Any:
    """An answer as a value of its type. A misspelt field is an error, unless the model declares none.

    Raises:
        AnswerInvalid: With what is wrong, field by field.
    """
    try:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            if answer is not None and isinstance(answer, BaseModel):
                return answer if isinstance(answer, kind) else kind.model_validate(answer.model_dump())
            given = {**(answer or {}), **fields} if isinstance(answer, dict) or answer is None else None
            if given is None:
                raise AnswerInvalid(f"{answer!r} is no {kind.__name__}: give its fields, or an instance of it.")
            _refuse_unknown(kind, given)
            return kind.model_validate(given)
        if fields:
            named = kind.__name__ if isinstance(kind, type) else repr(kind)
            raise AnswerInvalid(
                f"This question takes one value of {named}, no fields ({', '.join(fields)}): run.answer(None, value)."
            )
        return TypeAdapter(
            kind, config=None if _has_config(kind) else ConfigDict(arbitrary_types_allowed=True)
        ).validate_python(answer)
    except ValidationError as error:
        faults = [(".".join(map(str, e["loc"])), e["msg"]) for e in error.errors()]
        said = "; ".join(f"{where}: {what}" if where else what for where, what in faults)
        raise AnswerInvalid(f"The answer does not fit: {said}.", errors=error.errors()) from None


def _refuse_unknown(kind: type[BaseModel], given: dict[str, Any]) -> None:
    known = kind.model_fields
    aliases = {f.alias for f in known.values() if f.alias}
    unknown = [name for name in given if name not in known and name not in aliases]
    if known and unknown:
        raise AnswerInvalid(
            f"{kind.__name__} has no field {unknown[0]!r}. {near(unknown[0], list(known), 'It has')}", field=unknown[0]
        )


def _has_config(kind: Any) -> bool:
    return hasattr(kind, "__pydantic_config__") or hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__total__")


def _named(runner: Runner, which: Any) -> tuple[Runner, int]:
    text = str(which)
    head, _, tail = text.rpartition(":")
    if not tail.isdigit():
        raise RequestError(f"{which!r} names no question: give its number or `<run id>:<number>`.")
    owner = next((each for each in family(runner) if head in ("", each.run_id)), None)
    if owner is None:
        raise RequestError(f"Question {text!r} is neither of run {runner.run_id!r} nor of a child of it.")
    return owner, int(tail)


def _state_of(runner: Runner) -> str:
    if runner.ended:
        return f"it is {runner.state.status}"
    return "; ".join(waits_for(runner.state)) or "it is still running"


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
