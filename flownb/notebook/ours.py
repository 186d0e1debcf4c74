"""Which widgets are flownb's own, by the id of their comm: of panels, of forms, and of nobody else."""

from __future__ import annotations

import sys
import weakref
from typing import Any

_claimed: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


def claim(widget: Any) -> None:
    """A widget of a class that is not ours, made for one of our forms."""
    _claimed[widget.model_id] = widget


def owns(comm_id: str) -> bool:
    """Whether a comm belongs to a widget that was claimed, or whose class is flownb's."""
    if comm_id in _claimed:
        return True
    module = sys.modules.get("ipywidgets.widgets.widget")
    widget = getattr(module, "_instances", {}).get(comm_id)
    return type(widget).__module__.partition(".")[0] == "flownb"
