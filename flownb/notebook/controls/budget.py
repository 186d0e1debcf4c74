"""How many comms a form opens when it is shown, and what gives way where they are too many.

Every widget, Layout and Style is a comm, and a server drops messages when too many are opened at once: 32 forms of 126
comms were too many, three forms of this budget are far below. Help gives way first (it becomes a tooltip), then
trees, the largest first, then the whole answer: both become JSON text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from flownb.forms.answers import AnswerType
from flownb.forms.fields import MISSING, TREES, FieldSpec, held
from flownb.forms.tree import as_json
from flownb.forms.typed import branch_of

#: Comms that a form may open when it is shown; an error adds one to a field that has no help.
BUDGET: Final = 120
#: Frame, head, question, grid, guide, buttons and note (9), Layouts (17) and Styles (8) of all kinds of control.
FRAME: Final = 34


def fitting(answer: Any, prompt: str, draft: Any) -> tuple[AnswerType, bool]:
    """The answer's type with fields that fit, and whether there is room for help below the controls."""
    asked = AnswerType.of(answer, prompt=prompt)
    given = held(draft)
    weights = [weight(spec, given.get(spec.name, MISSING)) for spec in asked.fields]
    while FRAME + sum(weights) > BUDGET:
        trees = [n for n, spec in enumerate(asked.fields) if spec.kind in TREES]
        if not trees:
            return AnswerType(answer, whole=True), True
        largest = max(trees, key=lambda n: weights[n])
        asked.fields[largest] = as_json(asked.fields[largest])
        weights[largest] = weight(asked.fields[largest])
    helped = sum(1 for spec in asked.fields if spec.help and spec.kind not in TREES)
    return asked, FRAME + sum(weights) + helped <= BUDGET


def weight(spec: FieldSpec, start: Any = MISSING) -> int:
    """Comms of a field when it is shown first, without its help.

    Args:
        spec: The field.
        start: What it begins with; MISSING: its default.
    """
    begin = spec.default if start is MISSING else start
    more = 2 if spec.optional else 0
    if spec.kind in TREES and spec.optional and (begin is MISSING or begin is None):
        return 2 + more
    match spec.kind:
        case "group":
            return 3 + more + _inside(spec.fields, begin)
        case "tabs":
            return 6 + more + _inside(branch_of(spec, begin).fields, begin)
        case "rows":
            assert spec.item is not None
            items = list(begin) if isinstance(begin, (list, tuple, set, frozenset)) else []
            items += [MISSING] * max(0, min(spec.least, 3) - len(items))
            return 5 + more + sum(3 + weight(spec.item, item) for item in items)
        case "datetime":
            return 4 + more
    return 2 + more


def _inside(fields: Sequence[FieldSpec], start: Any) -> int:
    given = held(start)
    return sum(weight(part, given.get(part.name, MISSING)) + bool(part.help) for part in fields)
