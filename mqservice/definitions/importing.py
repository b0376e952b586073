"""Applies a document of definitions: planned as a whole, then applied as a whole.

    Document ──▶ scopes ──▶ plans against the rows ──▶ quotas ──▶ [Plan] ──▶ a dry run ends here
                   └── every fault of a step, with its place ──▶ Problem
    Plan ──▶ rows and audit (not committed) ──▶ engine, all of it ──▶ commit
                                                   └── refused or gone ──▶ what it was, no rows

Nothing is deleted. The rows are one transaction. The engine is no part of it: where it refuses one
thing, it is told again what the others were before, and the rows are taken back. Where it cannot be
told, because it is gone, it may keep settings that the rows do not have, until the same document or
the thing itself is put again: all that it is told is idempotent. What is new in the engine and has
no row is reached by nobody.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db import transaction

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import difference
from mqservice.accounts.locks import lock_namespace
from mqservice.accounts.models import Namespace
from mqservice.accounts.scopes import Kind, Scope
from mqservice.definitions.documents import (
    SCHEMA,
    ChangeT,
    Defined,
    Document,
    faults_at,
    reject,
)
from mqservice.definitions.schemas import (
    Action,
    GroupDefinition,
    ImportedOut,
    ImportOut,
    TopicDefinition,
)
from mqservice.engine_rows import EngineRows, Planned
from mqservice.errors import problem_from_refused_row, problem_from_store
from mqservice.groups.services import ROWS as GROUPS
from mqservice.lib.problem import Problem, ProblemItem
from mqservice.quotas.queries import count_and_limit
from mqservice.store import GroupConfig, StoreError, TopicConfig, blocking_client
from mqservice.topic_schemas.queries import StoredSchema, stored_schemas
from mqservice.topic_schemas.services import PlannedSchema, plan_schema, write_schemas
from mqservice.topics.queue_options import SQS
from mqservice.topics.services import ROWS as TOPICS

log = logging.getLogger(__name__)

_UNDONE: Final = "nothing was imported"
_IN_DOUBT: Final = (
    "the settings of the service are unchanged, but the storage engine may have new "
    "ones until the same document is imported again"
)
Config = TopicConfig | GroupConfig
Rows = EngineRows[Any, Any]  # Any: of topics or of groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing of a document. ``former``: what the engine had of it; None of a new one.
    ``schema``: of a topic that the document gives one.
    """

    pointer: str
    rows: Rows
    planned: Planned[Any]  # Any: as above
    former: Config | None
    schema: PlannedSchema | None
    shown: ImportedOut

    @property
    def config(self) -> Config:
        return self.rows.config_of(self.planned.row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an import does, in the order of the document."""

    topics: list[Step]
    groups: list[Step]

    @property
    def steps(self) -> list[Step]:
        return [*self.topics, *self.groups]

    @property
    def digest(self) -> str:
        """The same for plans that do the same."""
        return hashlib.sha256(self.shown(is_dry_run=True).model_dump_json().encode()).hexdigest()

    def count(self, action: Action) -> int:
        return sum(step.shown.action is action for step in self.steps)

    def shown(self, *, is_dry_run: bool) -> ImportOut:
        return ImportOut(
            dry_run=is_dry_run,
            created=self.count(Action.CREATED),
            changed=self.count(Action.CHANGED),
            unchanged=self.count(Action.UNCHANGED),
            topics=[step.shown for step in self.topics],
            groups=[step.shown for step in self.groups],
        )


def preview_import(namespace: Namespace, document: Document, *, by: Principal) -> Plan:
    """What ``import_definitions`` would do now. Five queries. Raises Problem as it would."""
    _require_scopes(document, by)
    topics, faults = _steps(namespace, document.topics, TOPICS, TopicDefinition)
    groups, others = _steps(namespace, document.groups, GROUPS, GroupDefinition)
    reject(faults + others)
    plan = Plan(topics=topics, groups=groups)
    reject([*_no_room(namespace, TOPICS, topics), *_no_room(namespace, GROUPS, groups)])
    return plan


@transaction.atomic
def import_definitions(
    namespace: Namespace, document: Document, *, by: Principal, digest: str | None = None
) -> Plan:
    """Create and change what the document defines, all or nothing; see the module's docstring.

    About twenty queries, however many things there are; engine calls, many at a time.

    Args:
        digest: that of the plan that is wanted, and no other.

    Raises Problem: FORBIDDEN, ILLEGAL_SETTING, QUOTA_EXCEEDED with the place of each fault;
    CONFLICT for another plan, or what the engine's failure means.
    """
    lock_namespace(namespace, with_tenant=True)
    plan = preview_import(namespace, document, by=by)
    if digest is not None and plan.digest != digest:
        raise Problem.of(
            "CONFLICT",
            "the topics and groups have changed since the preview, so the import would "
            "do something else",
        )
    for rows, steps in ((TOPICS, plan.topics), (GROUPS, plan.groups)):
        rows.write((step.planned for step in steps), by=by)
    write_schemas(by, namespace, [step.schema for step in plan.topics if step.schema])
    _put_in_engine(namespace, plan.steps)
    return plan


def _require_scopes(document: Document, by: Principal) -> None:
    """Every thing needs what a change of it alone needs, also one that stays as it is."""
    faults = []
    for kind, things in ((Kind.TOPIC, document.topics), (Kind.GROUP, document.groups)):
        for thing in things:
            try:
                by.require(Scope.MANAGE, kind, thing.name)
                if letters := (thing.change.find(SQS.key) or {}).get("dead_letter_queue"):
                    by.require(Scope.MANAGE, Kind.TOPIC, letters)  # its consumers get them too
            except Problem as problem:
                faults += faults_at(thing.pointer, problem)
    reject(faults)


def _steps(
    namespace: Namespace,
    things: Sequence[Defined[ChangeT]],
    rows: Rows,
    definition: type[TopicDefinition | GroupDefinition],
) -> tuple[list[Step], list[ProblemItem]]:
    """What to do for each, and every fault. Two queries."""
    names = [thing.name for thing in things]
    found = rows.model._default_manager.filter(namespace=namespace, name__in=names)
    known = {row.name: row for row in found}
    with_schema = [thing.name for thing in things if thing.schema is not None]
    schemas = stored_schemas(namespace, with_schema) if with_schema else {}
    steps, faults = [], []
    for thing in things:
        row = known.get(thing.name)
        former, before = None, None
        if row is not None:
            row.namespace = namespace
            former, before = rows.config_of(row), _settings(definition.of(row))
        try:
            planned = rows.plan(namespace, thing.name, row, thing.change)
        except Problem as problem:
            faults += faults_at(thing.pointer, problem)
            continue
        try:
            schema = _planned_schema(thing, planned, schemas.get(thing.name))
        except Problem as problem:
            faults += faults_at(f"{thing.pointer}/{SCHEMA.name}", problem)
            continue
        step = Step(
            pointer=thing.pointer,
            rows=rows,
            planned=planned,
            former=former,
            schema=schema,
            shown=_shown(planned, schema, before, _settings(definition.of(planned.row))),
        )
        steps.append(step)
    return steps, faults


def _planned_schema(
    thing: Defined[ChangeT],
    planned: Planned[Any],  # Any: of a topic, where there is a schema
    stored: StoredSchema | None,
) -> PlannedSchema | None:
    """Raises Problem: it is none."""
    if thing.schema is None:
        return None
    return plan_schema(planned.row, stored, thing.schema.checked())


def _shown(
    planned: Planned[Any],  # Any: of a topic or a group
    schema: PlannedSchema | None,
    before: dict[str, object] | None,
    after: dict[str, object],
) -> ImportedOut:
    """``before`` and ``after``: all settings, without the schema."""
    old, new = difference(before, after)
    new = new or {}
    is_changed = planned.is_different
    if schema is not None and schema.is_different:
        is_changed = True
        new[SCHEMA.name] = _shown_schema(schema.after)
        if old is not None:
            old[SCHEMA.name] = None if schema.before is None else _shown_schema(schema.before)
    changed = Action.CHANGED if is_changed else Action.UNCHANGED
    action = Action.CREATED if planned.is_new else changed
    return ImportedOut(name=planned.row.name, action=action, before=old, after=new)


def _shown_schema(settings: dict[str, object]) -> dict[str, object]:
    return {**settings, "message": settings["message"] or None}


def _settings(definition: TopicDefinition | GroupDefinition) -> dict[str, object]:
    settings: dict[str, object] = definition.model_dump(mode="json", exclude={"name"})
    return settings


def _no_room(namespace: Namespace, rows: Rows, steps: list[Step]) -> list[ProblemItem]:
    """One query, where something is new."""
    wanted = sum(step.planned.is_new for step in steps)
    if not wanted:
        return []
    count, limit = count_and_limit(namespace.tenant_id, f"{rows.kind}_count_max", rows.model)
    if count + wanted <= limit:
        return []
    what = f"{rows.kind}s"
    detail = f"{wanted} new {what} would be created; the tenant has {count} and may have {limit}"
    return [ProblemItem(f"/{what}", "QUOTA_EXCEEDED", detail)]


def _put_in_engine(namespace: Namespace, steps: Sequence[Step]) -> None:
    """Make the engine know all, or what it knew. Also what is unchanged: it may know less.

    Raises Problem with the places of what was refused.
    """
    try:
        with blocking_client(namespace.shard) as client:
            refusals = client.put_all([step.config for step in steps])
    except StoreError as exc:
        raise _refusal(problem_from_store(exc), [], is_restored=_restore(namespace, steps)) from exc
    found = [
        (step, problem_from_refused_row(refusal))
        for step, refusal in zip(steps, refusals, strict=True)
        if refusal is not None
    ]
    if found:
        faults = [fault for step, problem in found for fault in faults_at(step.pointer, problem)]
        raise _refusal(found[0][1], faults, is_restored=_restore(namespace, steps))


def _restore(namespace: Namespace, steps: Sequence[Step]) -> bool:
    """Whether the engine knows again what there was before."""
    former = [step.former for step in steps if step.planned.is_different and step.former]
    try:
        with blocking_client(namespace.shard) as client:
            failed = [refusal for refusal in client.put_all(former) if refusal is not None]
    except StoreError as exc:
        failed = [exc]
    if failed:
        log.warning(
            "Could not undo a failed import in the engine; topics and groups may "
            "differ from the database",
            extra={"action": "import_undo_failed", "failed": len(failed), "reason": str(failed[0])},
        )
    return not failed


def _refusal(problem: Problem, faults: list[ProblemItem], *, is_restored: bool) -> Problem:
    told = _UNDONE if is_restored else _IN_DOUBT
    where = f"{faults[0].pointer}: " if faults else ""
    return Problem.of(
        problem.code,
        f"{where}{problem.detail}; {told}",
        retryable=problem.retryable,
        retry_after_ms=problem.retry_after_ms,
        errors=faults,
    )
