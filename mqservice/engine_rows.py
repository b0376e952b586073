"""Changes rows that the engine knows too: topics and groups. The only writers of these rows.

    put ────── row (locked, not committed) ──▶ engine ──▶ commit
               plan, write                     config_of
    delete ─── row (gone, not committed) ────▶ engine ──▶ commit

The engine is told inside the transaction, and what it is told is idempotent. A crash in between
leaves at most something in the engine that no row leads to, or a row that the engine does not know:
the same call again makes both agree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from django.db import models, transaction

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import difference, entry_of, record, record_all, settings_of
from mqservice.accounts.locks import lock_namespace
from mqservice.accounts.models import AuditEntry, Namespace
from mqservice.errors import problem_from_refused_row
from mqservice.lib.etags import require_revision
from mqservice.lib.names import NAME_CHARS_MAX, engine_name, name_fault
from mqservice.lib.problem import Problem
from mqservice.lib.rows import insert, insert_all, update_all
from mqservice.lib.settings_table import Change, Settings, columns_of
from mqservice.quotas.services import require_room
from mqservice.store import GroupConfig, StoreClient, StoreError, TopicConfig, blocking_client


class EngineRow(models.Model):
    """A topic or a group. ``revision`` counts changes and becomes the ETag."""

    name = models.CharField(max_length=NAME_CHARS_MAX)
    revision = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    namespace: models.ForeignKey[Namespace, Namespace]

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.engine_name

    @property
    def engine_name(self) -> str:
        """Reads ``namespace``: one query unless it was selected along."""
        return engine_name(namespace=self.namespace.name, name=self.name)


RowT = TypeVar("RowT", bound=EngineRow)
ChangeT = TypeVar("ChangeT", bound=Change)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned(Generic[RowT]):
    """A row as a change makes it, not yet written. ``before``: its settings; None of a new one."""

    row: RowT
    before: dict[str, object] | None
    is_different: bool

    @property
    def is_new(self) -> bool:
        return self.before is None


class EngineRows(ABC, Generic[RowT, ChangeT]):
    """The rows of one kind, ``topic`` or ``group``."""

    kind: ClassVar[str]
    model: type[RowT]
    settings: ClassVar[Settings]

    @abstractmethod
    def find(self, namespace: Namespace, name: str) -> RowT | None:
        """One query."""

    @abstractmethod
    def apply(self, change: ChangeT, row: RowT, *, is_new: bool) -> bool:
        """Set what is given; whether anything became different. Raises Problem ILLEGAL_SETTING."""

    @abstractmethod
    def config_of(self, row: RowT) -> TopicConfig | GroupConfig:
        """What the engine is to know of it."""

    @abstractmethod
    def list_in_engine(self, client: StoreClient) -> Mapping[str, TopicConfig | GroupConfig]:
        """What the engine knows, of all namespaces and of its own, by name. One call to it."""

    @abstractmethod
    def put_in_engine(self, client: StoreClient, row: RowT) -> None:
        """Make the engine know the row. Idempotent. Raises StoreError."""

    @abstractmethod
    def delete_in_engine(self, client: StoreClient, engine_name: str) -> None:
        """The same of one that is gone; nothing where an earlier call got this far."""

    def get(self, namespace: Namespace, name: str) -> RowT:
        """Raises Problem TOPIC_NOT_FOUND, GROUP_NOT_FOUND. One query."""
        row = self.find(namespace, name)
        if row is None:
            code = f"{self.kind.upper()}_NOT_FOUND"
            raise Problem.of(code, f"{name} does not exist in {namespace.name}")
        row.namespace = namespace
        return row

    @transaction.atomic
    def put(
        self,
        namespace: Namespace,
        name: str,
        change: ChangeT,
        *,
        revision: int | None = None,
        by: Principal | None = None,
    ) -> tuple[RowT, bool]:
        """Create or change one; the second value says whether it is new. One call to the engine.

        Args:
            revision: refuse with PRECONDITION_FAILED unless it exists in this revision.
            by: who asks, for the audit; None: the service itself.

        Raises:
            Problem: ILLEGAL_TOPIC or ILLEGAL_GROUP, ILLEGAL_SETTING, PRECONDITION_FAILED,
                QUOTA_EXCEEDED, or what the engine's failure means.
        """
        fault = name_fault(name)
        if fault is not None:
            raise Problem.of(f"ILLEGAL_{self.kind.upper()}", fault)
        lock_namespace(namespace, with_tenant=True)  # two creators of one name, or of one too many
        row = self.find(namespace, name)
        require_revision(row, revision, self.kind)
        if row is None:
            require_room(namespace.tenant_id, f"{self.kind}_count_max", self.model)
        planned = self.plan(namespace, name, row, change)
        self.write([planned], by=by)
        with _engine(namespace) as client:
            self.put_in_engine(client, planned.row)
        return planned.row, planned.is_new

    def plan(
        self, namespace: Namespace, name: str, row: RowT | None, change: ChangeT
    ) -> Planned[RowT]:
        """What a change makes of what there is, or of nothing. The row is changed in memory.

        Raises Problem ILLEGAL_SETTING.
        """
        before = None if row is None else self._settings_of(row)
        planned = self.model(namespace=namespace, name=name) if row is None else row
        planned.namespace = namespace
        is_changed = self.apply(change, planned, is_new=row is None)
        return Planned(row=planned, before=before, is_different=row is None or is_changed)

    def write(self, planned: Iterable[Planned[RowT]], *, by: Principal | None) -> None:
        """Rows and audit entries of what is different, which the caller has locked. In a
        transaction; in a query for some hundreds."""
        different = [each for each in planned if each.is_different]
        new = [each.row for each in different if each.is_new]
        changed = [each.row for each in different if not each.is_new]
        for row in changed:
            row.revision += 1
        if len(different) == 1:  # which costs less
            insert(new[0]) if new else changed[0].save()
        else:
            insert_all(new)
            update_all(changed, (*columns_of(self.settings), "revision", "updated_at"))
        record_all([self._entry(each, by) for each in different])

    @transaction.atomic
    def delete(
        self,
        namespace: Namespace,
        name: str,
        *,
        revision: int | None = None,
        by: Principal | None = None,
    ) -> None:
        """Delete one with all that it has. One call to the engine. Arguments: as for ``put``.

        Raises Problem: TOPIC_NOT_FOUND or GROUP_NOT_FOUND, PRECONDITION_FAILED, or what the
        engine's failure means.
        """
        lock_namespace(namespace)
        row = self.get(namespace, name)
        require_revision(row, revision, self.kind)
        before, known_as = self._settings_of(row), row.engine_name
        row.delete()
        self.deleted(namespace, name)
        record(by, namespace, f"{self.kind}.delete", f"{self.kind}s/{name}", before=before)
        with _engine(namespace) as client:
            self.delete_in_engine(client, known_as)

    def deleted(self, namespace: Namespace, name: str) -> None:
        """Called in the transaction that deletes one, for what other rows say of it."""

    def _entry(self, planned: Planned[RowT], by: Principal | None) -> AuditEntry:
        row = planned.row
        old, new = difference(planned.before, self._settings_of(row))
        target = f"{self.kind}s/{row.name}"
        return entry_of(by, row.namespace, f"{self.kind}.put", target, before=old, after=new)

    def _settings_of(self, row: RowT) -> dict[str, object]:
        return settings_of(row, columns_of(self.settings))


@contextmanager
def _engine(namespace: Namespace) -> Iterator[StoreClient]:
    """Raises Problem: what a failure of the engine means."""
    try:
        with blocking_client(namespace.shard) as client:
            yield client
    except StoreError as exc:
        raise problem_from_refused_row(exc) from exc
