"""Rows by their columns, with SQL statements that are built once and not per request.

    RowFinder(Topic, "namespace_id", "name").find(7, "orders") ──▶ one query ──▶ Topic, or None
    insert(Topic(...)) ──▶ one query ──▶ the row has its id
    insert_all, update_all, delete_oldest ──▶ a query for so many rows at a time

What the ORM does to write a query costs a request several times what PostgreSQL needs to answer it.
For rows of one table by equal values, where that is felt; all else is the ORM's.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

from django.db import connection
from django.db.models import Field, Model

M = TypeVar("M", bound=Model)
_BATCH_ROWS: Final = 500


class RowFinder(Generic[M]):
    """See the module's docstring. ``columns`` together belong to one row at most."""

    def __init__(self, model: type[M], *columns: str) -> None:
        fields = model._meta.concrete_fields
        self._read = [
            (at, field.from_db_value)
            for at, field in enumerate(fields)
            if hasattr(field, "from_db_value")  # it is not read as it is stored
        ]
        self._model = model
        self._names = [field.attname for field in fields]
        where = " AND ".join(f"{_quoted(name)} = %s" for name in columns)
        self._sql = (
            f"SELECT {', '.join(_quoted(field.column) for field in fields)}"
            f" FROM {_quoted(model._meta.db_table)} WHERE {where}"
        )

    def find(self, *wanted: int | str) -> M | None:
        """The row whose columns have these values. One query."""
        with connection.cursor() as cursor:
            cursor.execute(self._sql, wanted)
            found = cursor.fetchone()
        if found is None:
            return None
        values = [*found]
        for at, read in self._read:
            values[at] = read(values[at], None, connection)
        return self._model.from_db("default", self._names, values)


def insert(row: Model) -> None:
    """As ``row.save(force_insert=True)`` of a model without parents and without listeners."""
    sql, fields = _insertion(type(row))
    values = [field.get_db_prep_save(field.pre_save(row, True), connection) for field in fields]
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        row.pk = cursor.fetchone()[0]
    row._state.adding, row._state.db = False, "default"


def insert_all(rows: Sequence[M]) -> None:
    """As ``insert`` of each; all of one model."""
    if rows:
        type(rows[0])._default_manager.bulk_create(rows, batch_size=_BATCH_ROWS)


def update_all(rows: Sequence[M], names: Sequence[str]) -> None:
    """As ``save(update_fields=names)`` of each, all of one model, which the caller has locked.

    Rows that are there are written over, because to tell one statement what each of a thousand rows
    becomes costs it more the other way.
    """
    if rows:
        type(rows[0])._default_manager.bulk_create(
            rows,
            batch_size=_BATCH_ROWS,
            update_conflicts=True,
            unique_fields=["pk"],
            update_fields=list(names),
        )


def delete_oldest(
    table: str, where: str, values: Sequence[int], *, rows_max: int, by: str = "at_ms"
) -> int:
    """Delete rows for which ``where`` holds, ``rows_max`` at most, the lowest ``by`` first; how
    many went. One query."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"DELETE FROM {table} WHERE id IN"
            f" (SELECT id FROM {table} WHERE {where} ORDER BY {by} LIMIT %s)",
            [*values, rows_max],
        )
        return int(cursor.rowcount)


@functools.cache
def _insertion(model: type[Model]) -> tuple[str, list[Field[Any, Any]]]:  # Any: of whatever column
    """The statement, and the fields in the order of its values."""
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    names = ", ".join(_quoted(field.column) for field in fields)
    places = ", ".join(["%s"] * len(fields))
    return (
        f"INSERT INTO {_quoted(model._meta.db_table)} ({names}) VALUES ({places})"
        f" RETURNING {_quoted(model._meta.pk.column)}",
        fields,
    )


def _quoted(name: str | None) -> str:
    """``None`` is for fields without a column, of which there are none among the concrete ones."""
    return f'"{name}"'
