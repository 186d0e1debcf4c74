"""What a question is about, as HTML above its fields."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from flownb.forms.payload import Block, Picture, Shown, Table
from flownb.notebook.controls.words import escape


def payload_html(rows: Sequence[tuple[str, str | Shown]]) -> str:
    """A table of (name, what is shown of the value); "" if there is nothing."""
    cells = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{_value(value)}</td></tr>' for name, value in rows)
    return f'<table class="fl-payload">{cells}</table>' if cells else ""


def _value(value: str | Shown) -> str:
    match value:
        case str():
            return escape(value)
        case Block():
            more = f'<div class="fl-more">{escape(value.note)}</div>' if value.note else ""
            return f'<div class="fl-block" tabindex="0">{escape(value.text)}</div>{more}'
        case Table():
            return _table(value)
        case Picture():
            data = base64.b64encode(value.png).decode()
            return f'<img class="fl-picture" alt="{escape(value.note)}" src="data:image/png;base64,{data}">'
        case _:
            return escape(value.text)


def _table(table: Table) -> str:
    corner = "<td></td>" if table.labels else ""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.columns)
    body = ""
    for number, row in enumerate(table.rows):
        label = f'<th scope="row">{escape(table.labels[number])}</th>' if table.labels else ""
        body += f"<tr>{label}{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
    caption = f'<div class="fl-more">{escape(table.note)}</div>'
    return f'<div class="fl-frame"><table><tr>{corner}{head}</tr>{body}</table></div>{caption}'
