"""Headers and query parameters as routes declare them: what the OpenAPI document says of each, and how it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from api.http.json_schema import Node

_Value_co = TypeVar("_Value_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parameter:
    """Two are the same only if they are one object: routes share those that mean the same."""

    place: ClassVar[str]
    name: str
    description: str
    schema: Node
    component: str = ""
    """Its key in the document, where other routes have a parameter of the same name that means something else."""

    @property
    def key(self) -> str:
        """Its key among the components of the document."""
        return self.component or self.name

    def described(self) -> Node:
        """As the document has it."""
        return {"name": self.name, "in": self.place, "description": self.description, "schema": self.schema}


class RequestHeader(Parameter):
    """A header that changes what a request means."""

    __slots__ = ()
    place: ClassVar[str] = "header"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueryParameter(Parameter, Generic[_Value_co]):
    """`read` makes a value of the text, or of None where the request does not have it; it raises `InvalidRequest`."""

    place: ClassVar[str] = "query"
    read: Callable[[str | None], _Value_co]
