"""The HTML that a form shows beside its controls. All text of users goes through `escape`."""

from __future__ import annotations

import html
from typing import Final

from flownb.forms.fields import clean

#: Paths, not characters: some fonts lack them, others make emoji of them.
PERSON: Final = '<path d="M0-5.6L5.6 0L0 5.6L-5.6 0Z" fill="currentColor"/>'
DONE: Final = '<path d="M-4.4 .3L-1.4 3.4L4.6-3.6"/>'
OVER: Final = '<path d="M4.2 0A4.2 4.2 0 1 1-4.2 0A4.2 4.2 0 1 1 4.2 0ZM-3 3L3-3"/>'
WRONG: Final = '<path d="M0-4.8L5.2 4.4H-5.2ZM0-1.6V1.4M0 2.9V3"/>'


def escape(text: str) -> str:
    """Text as HTML, with nothing in it that a message to the browser cannot hold."""
    return html.escape(clean(text))


def glyph(path: str) -> str:
    """A small drawing before some words."""
    look = 'fill="none" stroke="currentColor" stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round"'
    return f'<svg class="fl-glyph" width="12" height="12" viewBox="-6 -6 12 12" aria-hidden="true" {look}>{path}</svg> '


def headline(title: str, note: str, *, asks: bool, request: str = "") -> str:
    """Who asks, and at the right the note, which the page finds by the question's id."""
    lead = f"{glyph(PERSON)}Needs you: " if asks else ""
    words = f'<b class="fl-title">{lead}{escape(title)}</b>'
    named = f' data-request="{escape(request)}"' if request and asks else ""
    return f'<div class="fl-headline">{words}<span class="fl-when"{named}>{escape(note)}</span></div>'


def line(title: str, text: str, path: str) -> str:
    """All that is left of a form whose question is over."""
    words = f"<b>{escape(title)}</b> <span>{escape(text)}</span>"
    return f'<div class="fl-ended" role="status">{glyph(path)}{words}</div>'


def prompt_text(prompt: str) -> str:
    """The question, above the fields."""
    return f'<div class="fl-prompt">{escape(prompt)}</div>'


def legend(label: str) -> str:
    """The name of several fields that belong together."""
    return f'<div class="fl-legend">{escape(label)}</div>'


def help_text(text: str) -> str:
    """What a field is for, below it."""
    return f'<div class="fl-help">{escape(text)}</div>' if text else ""


def error_text(text: str) -> str:
    """What is wrong; screen readers say it at once."""
    return f'<div role="alert" class="fl-err">{glyph(WRONG)}{escape(text)}</div>'


def said(mark: str, text: str) -> str:
    """What became of an answer."""
    return f'<span role="status" class="fl-form-said">{mark}{escape(text)}</span>'
