"""The fields of a form as controls of a page, for every kind; nothing of it needs a script.

Labels are real ones, help and errors are bound to their control, and what was typed stands there again. Secrets do not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from flownb.forms.fields import Branch, FieldSpec, Kind, at, held
from flownb.forms.typed import begin_fields, begin_set, branch_of
from flownb.serve import names
from flownb.serve.markup import Html, Part, element, joined

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_TIME: Final = re.compile(r"\d\d:\d\d(:\d\d)?")
_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:\s+(\S+))?")
#: Rows of a box for several lines, by its kind.
_LINES: Final[Mapping[str, int]] = {"area": 5, "json": 6, "chips": 3}


class Controls:
    """Draws the fields of one page.

    Args:
        problems: {dotted path: what is wrong} (`flownb.forms`).
        fresh: Name of the row that was just added: its first control gets the focus.

    Attributes:
        faults: (id of the control, label, what is wrong), in the order of the page.
    """

    def __init__(self, problems: Mapping[str, str], fresh: str = "") -> None:
        self._problems, self._fresh = problems, fresh
        self._made = 0
        self._last = ""
        self._has_focus = False
        self.faults: list[tuple[str, str, str]] = []

    def fields(self, fields: Sequence[FieldSpec], typed: Any, name: str = names.ROOT, path: str = "") -> Html:
        """The controls of a model's fields."""
        given = held(typed)
        return joined(*(self.field(s, given.get(s.name), names.inner(name, s.name), at(path, s.name)) for s in fields))

    def field(self, spec: FieldSpec, typed: Any, name: str, path: str) -> Html:
        """One field: its label, help, error, control, and "not set"."""
        is_set = not (spec.optional and typed is None)
        shown = typed if is_set else begin_set(spec)
        unset = None if not spec.optional or spec.kind in ("bool", "choice") else self._unset(name, is_set)
        match spec.kind:
            case "group":
                return self._framed(spec, path, unset, self.fields(spec.fields, shown, name, path))
            case "tabs":
                return self._framed(spec, path, unset, self._tabs(spec, shown, name, path))
            case "rows":
                return self._framed(spec, path, unset, self._rows(spec, shown, name, path))
            case "choice" if spec.few or spec.optional:
                options = [choice.label for choice in spec.choices]
                return self._radios(spec, path, name, options, shown if is_set else "")
            case "bool" if spec.optional:
                chosen = "" if not is_set else "true" if shown in (True, "true") else "false"
                return self._radios(spec, path, name, ["true", "false"], chosen)
            case "bool":
                return self._tick(spec, path, name, shown)
            case "chips" if spec.item is not None and spec.item.kind == "choice":
                return self._ticks(spec, path, name, shown, unset)
            case "datetime":
                return self._moment(spec, path, name, shown, unset)
        text = "\n".join(shown) if spec.kind == "chips" and isinstance(shown, list) else shown
        return self._single(spec, path, name, text if isinstance(text, str) else "", unset)

    # ---- leaves

    def _single(self, spec: FieldSpec, path: str, name: str, text: str, unset: Html | None) -> Html:
        """A label above one control."""
        mark, words = self._mark(spec, path)
        return element(
            "div",
            element("label", spec.label, _must(spec), for_=mark),
            *words,
            _CONTROLS[spec.kind](spec, text, self._wishes(spec, path, name, mark)),
            unset,
            class_="field",
        )

    def _moment(self, spec: FieldSpec, path: str, name: str, typed: Any, unset: Html | None) -> Html:
        """A day with a time, and a zone beside it."""
        mark, words = self._mark(spec, path)
        wishes = self._wishes(spec, path, name, mark)
        text = typed if isinstance(typed, str) else ""
        found = _MOMENT.fullmatch(text.strip())
        zone = (found[3] or "") if found is not None else ""
        fits = not text.strip() or found is not None
        value = f"{found[1]}T{found[2]}" if found is not None else text
        step = "1" if found is not None and found[2].count(":") == 2 else None
        day = element("input", type="datetime-local" if fits else "text", value=value, step=step, **wishes)
        zones = element(
            "input",
            type="text",
            name=name + names.ZONE,
            value=zone,
            placeholder="Europe/Berlin or +01:00" if spec.zone == "needed" else "time zone, if any",
            aria_label=f"{spec.label}: time zone",
            autocomplete="off",
            spellcheck="false",
        )
        return element(
            "div",
            element("label", spec.label, _must(spec), for_=mark),
            *words,
            day if spec.zone == "refused" else element("div", day, zones, class_="pair"),
            unset,
            class_="field",
        )

    def _tick(self, spec: FieldSpec, path: str, name: str, typed: Any) -> Html:
        mark, words = self._mark(spec, path)
        box = element(
            "input",
            type="checkbox",
            value="true",
            checked=typed is True or typed == "true",
            **self._wishes(spec, path, name, mark),
        )
        label = element("label", spec.label, for_=mark)
        return element("div", element("div", box, label, class_="pick"), *words, class_="field")

    def _radios(self, spec: FieldSpec, path: str, name: str, options: Sequence[str], chosen: Any) -> Html:
        """All choices to be seen; "not set" is one of them where it may be."""
        mark, words = self._mark(spec, path)
        offered = [(label, {"true": "Yes", "false": "No"}.get(label, label) if spec.kind == "bool" else label)
                   for label in options]  # fmt: skip
        if spec.optional:
            offered.append(("", "not set"))
        picks = [
            self._pick(spec, path, name, value, words_, mark if n == 0 else f"{mark}-{n}", checked=value == chosen)
            for n, (value, words_) in enumerate(offered)
        ]
        return element(
            "fieldset",
            element("legend", spec.label, _must(spec)),
            *words,
            element("div", *picks, class_="picks"),
            class_="field plain",
        )

    def _pick(
        self, spec: FieldSpec, path: str, name: str, value: str, words: str, mark: str, *, checked: bool,
        type_: str = "radio",
    ) -> Html:  # fmt: skip
        wishes = self._wishes(spec, path, name, mark)
        choice = element("input", type=type_, value=value, checked=checked, **wishes)
        return element("div", choice, element("label", words, for_=mark), class_="pick")

    def _ticks(self, spec: FieldSpec, path: str, name: str, typed: Any, unset: Html | None) -> Html:
        """Several of a few choices."""
        assert spec.item is not None
        mark, words = self._mark(spec, path)
        chosen = typed if isinstance(typed, list) else []
        picks = [
            self._pick(
                spec, path, name, choice.label, choice.label, mark if n == 0 else f"{mark}-{n}",
                checked=choice.label in chosen, type_="checkbox",
            )
            for n, choice in enumerate(spec.item.choices)
        ]  # fmt: skip
        legend = element("legend", spec.label, _must(spec))
        return element("fieldset", legend, *words, element("div", *picks, class_="picks"), unset, class_="field plain")

    # ---- what holds others

    def _framed(self, spec: FieldSpec, path: str, unset: Html | None, content: Html) -> Html:
        mark, words = self._mark(spec, path)
        wrong = " wrong" if path in self._problems else ""
        legend = element("legend", spec.label, _must(spec)) if spec.label else None
        return element("fieldset", legend, *words, unset, content, class_=f"field{wrong}", id=mark, tabindex=-1)

    def _rows(self, spec: FieldSpec, typed: Any, name: str, path: str) -> Html:
        assert spec.item is not None
        rows = typed if isinstance(typed, list) else []
        drawn = [self._row(spec, spec.item, row, name, path, n) for n, row in enumerate(rows)]
        may_add = spec.most is None or len(rows) < spec.most
        add = element("button", f"Add to {spec.label}", type="submit", name=names.DO, value=names.add_to(name))
        return joined(*drawn, add if may_add else None)

    def _row(self, spec: FieldSpec, item: FieldSpec, typed: Any, name: str, path: str, number: int) -> Html:
        own, place, label = names.inner(name, number), at(path, number), f"{spec.label} {number + 1}"
        if item.kind == "tabs":
            content = self._tabs(item, typed, own, place)
        else:
            content = self.fields(item.fields, typed, own, place)
        mark, words = self._mark(item, place, label)
        remove = element(
            "button", f"Remove {label}", type="submit", name=names.DO, value=names.remove_from(name, number)
        )
        return element(
            "fieldset",
            element("legend", label),
            element("input", type="hidden", name=name + names.ROWS, value=number),
            *words,
            content,
            remove,
            class_="row",
            id=mark,
            tabindex=-1,
        )

    def _tabs(self, spec: FieldSpec, typed: Any, name: str, path: str) -> Html:
        """Several models: the chosen one's fields count. The style sheet hides the others, where it can."""
        chosen = branch_of(spec, typed)
        drawn = []
        for number, branch in enumerate(spec.branches):
            is_chosen = branch is chosen
            mark = self._next()
            radio = element(
                "input", type="radio", name=name + names.TAB, value=branch.label, checked=is_chosen, id=mark
            )
            content = self._branch(branch, typed, names.of_tab(name, number), path, is_chosen)
            label = element("label", branch.label, for_=mark)
            fields = element("div", content, class_="branch") if branch.fields else None
            drawn.append(element("div", element("div", radio, label, class_="pick"), fields, class_="tab"))
        return element("div", *drawn, role="group", aria_label=f"{spec.label}: one of these")

    def _branch(self, branch: Branch, typed: Any, name: str, path: str, is_chosen: bool) -> Html:
        if is_chosen:
            return self.fields(branch.fields, typed, name, path)
        problems, self._problems = self._problems, {}  # what is wrong is wrong in the chosen one only
        try:
            return self.fields(branch.fields, begin_fields(branch.fields, None), name, path)
        finally:
            self._problems = problems

    # ---- parts

    def _unset(self, name: str, is_set: bool) -> Html:
        mark = self._next()
        return element(
            "div",
            element("input", type="checkbox", name=name + names.UNSET, value="true", checked=not is_set, id=mark),
            element("label", "not set", for_=mark),
            element("input", type="hidden", name=name + names.WAS, value="true") if not is_set else None,
            class_="pick unset",
        )

    def _mark(self, spec: FieldSpec, path: str, label: str = "") -> tuple[str, list[Part]]:
        """The id of a control, and what stands above it: help and what is wrong."""
        mark = self._next()
        self._last = mark
        problem = self._problem(spec, path)
        if problem:
            self.faults.append((mark, label or spec.label, problem))
        return mark, [
            element("p", spec.help, class_="help", id=f"{mark}-help") if spec.help else None,
            element("p", problem, class_="err", id=f"{mark}-err") if problem else None,
        ]

    def _problem(self, spec: FieldSpec, path: str) -> str:
        said = [self._problems.get(path, "")]
        if spec.kind == "chips":
            inside = f"{path}."
            items = {key[len(inside) :]: text for key, text in self._problems.items() if key.startswith(inside)}
            said += [f"item {int(n) + 1}: {text}" if n.isdigit() else text for n, text in items.items()]
        return "; ".join(text for text in said if text)

    def _wishes(self, spec: FieldSpec, path: str, name: str, mark: str) -> dict[str, Any]:
        """What every control of a field has."""
        first = self._last
        problem = self._problem(spec, path)
        about = [f"{first}-err"] if problem else []
        if spec.help:
            about.append(f"{first}-help")
        focuses = not self._has_focus and (bool(problem) or bool(self._fresh and name.startswith(f"{self._fresh}.")))
        self._has_focus = self._has_focus or focuses
        return {
            "name": name,
            "id": mark,
            "aria_describedby": " ".join(about) or None,
            "aria_invalid": "true" if problem else None,
            "autofocus": focuses,
        }

    def _next(self) -> str:
        self._made += 1
        return f"c{self._made}"


def _must(spec: FieldSpec) -> Html | None:
    return element("span", " (needed)", class_="must") if spec.required and not spec.optional else None


# ---- controls of one text


def _input(spec: FieldSpec, text: str, wishes: Mapping[str, Any], **more: Any) -> Html:
    return element("input", value=text, placeholder=spec.placeholder or None, autocomplete="off", **more, **wishes)


def _text(spec: FieldSpec, text: str, wishes: Mapping[str, Any]) -> Html:
    if "\n" in text:  # one line would lose the others
        return _several_lines(spec, text, wishes)
    return _input(spec, text, wishes, type="text")


def _secret(spec: FieldSpec, text: str, wishes: Mapping[str, Any]) -> Html:
    more = {**wishes, "autocomplete": "new-password"}
    return element("input", type="password", placeholder=spec.placeholder or None, **more)


def _number(mode: str) -> Callable[[FieldSpec, str, Mapping[str, Any]], Html]:
    # A number box of the browser drops what is no number without a word.
    return lambda spec, text, wishes: _input(spec, text, wishes, type="text", inputmode=mode)


def _day(spec: FieldSpec, text: str, wishes: Mapping[str, Any]) -> Html:
    is_day = not text or _DAY.fullmatch(text.strip())
    return _input(spec, text.strip(), wishes, type="date" if is_day else "text")


def _time(spec: FieldSpec, text: str, wishes: Mapping[str, Any]) -> Html:
    found = _TIME.fullmatch(text.strip())
    step = "1" if found is not None and found[1] else None
    return _input(spec, text.strip(), wishes, type="time" if not text or found else "text", step=step)


def _several_lines(spec: FieldSpec, text: str, wishes: Mapping[str, Any]) -> Html:
    is_code = spec.kind == "json"
    # A browser drops one line break at the beginning.
    return element(
        "textarea",
        f"\n{text}",
        rows=_LINES.get(spec.kind, 3),
        placeholder=spec.placeholder or ("one on each line" if spec.kind == "chips" else None),
        spellcheck="false" if is_code else None,
        class_="code" if is_code else None,
        **wishes,
    )


def _select(spec: FieldSpec, text: str, wishes: Mapping[str, Any]) -> Html:
    options = [element("option", "Please choose", value="", selected=not text)]
    options += [element("option", c.label, value=c.label, selected=c.label == text) for c in spec.choices]
    return element("select", *options, **wishes)


_CONTROLS: Final[Mapping[Kind, Callable[[FieldSpec, str, Mapping[str, Any]], Html]]] = {
    "text": _text,
    "area": _several_lines,
    "secret": _secret,
    "int": _number("numeric"),
    "float": _number("decimal"),
    "choice": _select,
    "date": _day,
    "time": _time,
    "json": _several_lines,
    "chips": _several_lines,
}

__all__ = ["Controls"]
