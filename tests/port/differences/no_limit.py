"""API §4, R5.44: nothing has a time limit that was not given one, for people think slowly; theirs: 45 s for a run,
2000 s for a wait."""

import inspect

from workflows import Context, Workflow


async def main() -> object:
    return [
        inspect.signature(function).parameters["timeout"].default
        for function in (Workflow.__init__, Context.wait_for_event)
    ]


THEIRS = [45.0, 2000]
OURS = [None, None]
