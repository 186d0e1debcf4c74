"""Workflows of a few functions, defined wrongly or rightly."""

from collections.abc import Callable
from typing import Any

import pytest

from flownb import Workflow
from flownb.errors import WorkflowValidationError


def faults_in(flow: Workflow[Any]) -> list[str]:
    """What is wrong with a workflow."""
    with pytest.raises(WorkflowValidationError) as caught:
        flow.validate()
    assert caught.value.workflow == flow.name
    return list(caught.value.faults)


def faults_of(*steps: Callable[..., Any], **settings: Any) -> list[str]:
    flow = Workflow[Any]("faulty", **settings)
    for fn in steps:
        flow.step(fn)
    return faults_in(flow)


def fine(*steps: Callable[..., Any], **settings: Any) -> Workflow[Any]:
    flow = Workflow[Any]("fine", **settings)
    for fn in steps:
        flow.step(fn)
    flow.validate()
    return flow
