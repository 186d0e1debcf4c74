"""Type hints in, `Spec` and bindings out: all that is known of a workflow without running anything."""

from flownb.definition.build import Definition, define
from flownb.definition.faults import CHECKS
from flownb.definition.steps import Step, StepOptions, options_of, step_of

__all__ = ["CHECKS", "Definition", "Step", "StepOptions", "define", "options_of", "step_of"]
