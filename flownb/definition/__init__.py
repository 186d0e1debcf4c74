"""Type hints in, `Spec` and bindings out: all that is known of a workflow without running anything."""

from flownb.definition.build import Definition, Policies, define, inherited
from flownb.definition.faults import CHECKS
from flownb.definition.options import StepOptions, options_of
from flownb.definition.steps import Step, step_of

__all__ = ["CHECKS", "Definition", "Policies", "Step", "StepOptions", "define", "inherited", "options_of", "step_of"]
