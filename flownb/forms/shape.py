"""An annotation without its wrappers (`Optional`, `Annotated`, `NewType`, aliases), and what these said."""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel, RootModel, TypeAdapter
from pydantic.fields import FieldInfo

from flownb.schemas import SecretsMarked


@dataclass(slots=True)
class Shape:
    """What an annotation comes down to."""

    core: Any
    #: None is allowed beside it.
    optional: bool = False
    metadata: list[Any] = field(default_factory=list)
    #: What `Field(...)` said, the outermost first.
    infos: list[FieldInfo] = field(default_factory=list)

    def limit(self, name: str) -> Any:
        """The last limit of that name (`ge`, `max_length` …) in the metadata, of whatever type; None: there is none."""
        found = [getattr(item, name, None) for item in self.metadata]
        return next((value for value in reversed(found) if value is not None), None)

    def number(self, name: str) -> float | None:
        """The limit of that name, if it is a number."""
        value = self.limit(name)
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def count(self, name: str) -> int | None:
        """The limit of that name, if it is a whole number."""
        value = self.number(name)
        return value if isinstance(value, int) else None

    def text(self, name: str) -> str:
        """What the outermost `Field` says of itself: its `title`, its `description`."""
        return next((text for info in self.infos if (text := getattr(info, name))), "")

    @property
    def examples(self) -> list[Any]:
        return next((list(info.examples) for info in self.infos if info.examples), [])

    @property
    def extra(self) -> dict[str, Any]:
        """`json_schema_extra`, if it is a dict."""
        return next((dict(i.json_schema_extra) for i in self.infos if isinstance(i.json_schema_extra, dict)), {})

    @property
    def discriminator(self) -> Any:
        """The field's name, a callable discriminator, or None."""
        found = [info.discriminator for info in self.infos] + [getattr(m, "discriminator", None) for m in self.metadata]
        return next((one for one in found if one is not None), None)

    def low(self, *, whole: bool) -> float | None:
        """The smallest number that is allowed, as far as it is known."""
        above = self.number("gt")
        return self.number("ge") if above is None else above + 1 if whole else above

    def high(self, *, whole: bool) -> float | None:
        """The largest number that is allowed, as far as it is known."""
        below = self.number("lt")
        return self.number("le") if below is None else below - 1 if whole else below


def shape_of(annotation: Any, info: FieldInfo | None = None) -> Shape:
    """The shape of an annotation, or of a model's field."""
    shape = Shape(annotation, infos=[info] if info else [], metadata=list(info.metadata) if info else [])
    while True:
        core = shape.core
        if get_origin(core) is Annotated:
            shape.core, *notes = get_args(core)
            shape.infos += [note for note in notes if isinstance(note, FieldInfo)]
            shape.metadata += [part for n in notes for part in (n.metadata if isinstance(n, FieldInfo) else [n])]
        elif is_union(core) and type(None) in get_args(core):
            rest = tuple(part for part in get_args(core) if part is not type(None))
            shape.core, shape.optional = Union[rest], True  # noqa: UP007 (built at run time)
        elif hasattr(core, "__supertype__"):  # NewType
            shape.core = core.__supertype__
        elif type(core).__name__ == "TypeAliasType" and not get_args(core):
            shape.core = core.__value__
        else:
            return shape


def is_union(core: Any) -> bool:
    """Whether it is `A | B`."""
    return get_origin(core) in (Union, types.UnionType)


def is_model(answer: Any) -> TypeGuard[type[BaseModel]]:
    """Whether it is a class of models with fields."""
    return isinstance(answer, type) and issubclass(answer, BaseModel) and not issubclass(answer, RootModel)


def schema_of(core: Any) -> dict[str, Any]:
    """The JSON schema of a type without None; {} if pydantic has none for it (an arbitrary class)."""
    try:
        schema = TypeAdapter(core).json_schema(schema_generator=SecretsMarked)
    except Exception:  # several of pydantic's errors, and whatever a user's own schema hook raises
        return {}
    ref = str(schema.get("$ref", "")).rpartition("/")[2]
    return {**schema.get("$defs", {}).get(ref, {}), **schema}
