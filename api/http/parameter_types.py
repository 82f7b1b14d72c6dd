"""Headers and query parameters as routes declare them: what the OpenAPI document says of each, and how it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Generic, TypeVar

from api.http.json_schema import Node
from eventstore.domain.errors import InvalidRequest

_Value_co = TypeVar("_Value_co", covariant=True)


@dataclass(frozen=True, slots=True, eq=False)
class Parameter:
    """Two are the same only if they are one object: routes share those that mean the same."""

    place: ClassVar[str]
    name: str
    description: str
    schema: Node
    _: KW_ONLY
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


@dataclass(frozen=True, slots=True, eq=False)
class QueryParameter(Parameter, Generic[_Value_co]):
    """`parse` makes a value of its text. It raises ValueError, whose message says what the text must be."""

    place: ClassVar[str] = "query"
    parse: Callable[[str], _Value_co]
    default: _Value_co

    def read(self, text: str | None) -> _Value_co:
        """The value; of None, what counts where a request does not have it. Raises `InvalidRequest`."""
        if text is None:
            return self.default
        try:
            return self.parse(text)
        except ValueError as error:
            raise InvalidRequest.parameter(self.name, str(error)) from None
