"""A statement that is compiled once and executed by the driver itself.

Every request executes the same few short statements, and what SQLAlchemy does around each of them
takes several times as long as the database does.
"""

from collections import namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from sqlalchemy import CompoundSelect, Engine, Executable, Select
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

Convert = Callable[[Any], Any] | None


class _Parameter(NamedTuple):
    """A parameter: its name, and how the driver wants its values."""

    name: str
    convert: Convert


class Statement:
    """A statement for one kind of database.

    Args:
        statement: with `bindparam` in the place of values, none of which is a list.
        engine: of the database.
    """

    def __init__(self, statement: Executable, engine: Engine) -> None:
        dialect = engine.dialect
        compiled = statement.compile(dialect=dialect)  # type: ignore[attr-defined]
        assert isinstance(compiled, SQLCompiler)
        self._dialect = dialect
        self._sql = compiled.string
        self._fixed = dict(compiled.params)
        self._is_positional = compiled.positional
        binds = {name: bind for bind, name in compiled.bind_names.items()}
        names = compiled.positiontup if self._is_positional else list(binds)
        self._parameters = [
            _Parameter(name, self._to_driver(binds[name].type)) for name in names or ()
        ]
        self._columns = _columns(statement)
        self._row: Any = namedtuple("Row", [name for name, _ in self._columns])  # type: ignore[misc]
        self._conversions: list[Convert] | None = None

    def execute(self, connection: Any, values: dict[str, Any]) -> list[Any]:
        """Execute it on a connection of the driver.

        Args:
            values: of the parameters by name.
        Returns: rows with an attribute for each column.
        Raises: the driver's errors.
        """
        given = self._fixed | values
        arguments = [
            given[name] if convert is None else convert(given[name])
            for name, convert in self._parameters
        ]
        named = {one.name: value for one, value in zip(self._parameters, arguments, strict=True)}
        cursor = connection.cursor()
        try:
            cursor.execute(self._sql, arguments if self._is_positional else named)
            found = cursor.fetchall()
            if found and self._conversions is None:
                self._conversions = self._from_driver(cursor)
        finally:
            cursor.close()
        return [self._row(*map(_converted, self._conversions or (), row)) for row in found]

    def _to_driver(self, kind: TypeEngine[Any]) -> Convert:
        return cast(Convert, kind.dialect_impl(self._dialect).bind_processor(self._dialect))

    def _from_driver(self, cursor: DBAPICursor) -> list[Convert]:
        """How values of each column come back, which may depend on the driver's type of it."""
        return [
            kind.dialect_impl(self._dialect).result_processor(self._dialect, described[1])
            for (_, kind), described in zip(self._columns, cursor.description, strict=True)
        ]


def _converted(convert: Convert, value: Any) -> Any:
    return value if convert is None else convert(value)


def _columns(statement: Any) -> list[tuple[str, TypeEngine[Any]]]:
    """Names and types of what a statement returns."""
    if isinstance(statement, Select | CompoundSelect):
        return [(column.name, column.type) for column in statement.selected_columns]
    return [(column.name, column.type) for column in statement.exported_columns]
