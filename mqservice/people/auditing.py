"""What users do with their accounts, in the audit log of each of their tenants.

    signals of allauth and Django ──▶ [record_user_action] ─▶ a row for each membership
    row of a second factor, or of an identity, saved, deleted ──▶ the same, in its transaction

Changes of factors and identities are recorded when their rows change. allauth reports them only
after the commit, so a process that died in between would leave a change without an entry. A user
who belongs to no tenant has no entries, because nobody could read them. Failed attempts are bounded
by the limits on attempts.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from allauth.account import signals as account_signals
from allauth.account.internal.flows.login import get_authentication_records
from allauth.mfa import signals as mfa_signals
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth import signals as auth_signals
from django.db import DatabaseError
from django.db.models.signals import post_delete, post_save
from django.dispatch import Signal
from django.http import HttpRequest

from mqservice.accounts.audit import Settings, entry_of, record_all
from mqservice.accounts.models import AuditEntry, Member, Tenant, User
from mqservice.people.same_work import written

log = logging.getLogger(__name__)

TENANTS_MAX: Final = 100  # whose audits tell of one person
OPENID_METHOD: Final = "openid"  # in the details of a sign-in; one by password has none
_LOGIN: Final = "user.login"
_ACCOUNT: Final[dict[str, Signal]] = {
    _LOGIN: auth_signals.user_logged_in,
    "user.logout": auth_signals.user_logged_out,
    "user.password_set": account_signals.password_set,
    "user.password_change": account_signals.password_changed,
    "user.password_reset": account_signals.password_reset,
    "user.email_add": account_signals.email_added,
    "user.email_remove": account_signals.email_removed,
    "user.email_change": account_signals.email_changed,
}
_FACTORS: Final[dict[str, Signal]] = {
    "factor.use": mfa_signals.authenticator_used,
    "factor.fail": mfa_signals.authentication_failed,
}


def connect() -> None:
    """Once, when Django is set up."""
    for action, signal in _ACCOUNT.items():
        signal.connect(_user_signal(action), weak=False, dispatch_uid=f"audit {action}")
    for action, signal in _FACTORS.items():
        signal.connect(_factor(action), weak=False, dispatch_uid=f"audit {action}")
    post_save.connect(_factor_saved, Authenticator, weak=False, dispatch_uid="audit factor.add")
    post_delete.connect(
        _factor_deleted, Authenticator, weak=False, dispatch_uid="audit factor.remove"
    )
    post_save.connect(_identity_saved, SocialAccount, weak=False, dispatch_uid="audit identity.add")
    post_delete.connect(
        _identity_deleted, SocialAccount, weak=False, dispatch_uid="audit identity.remove"
    )
    auth_signals.user_login_failed.connect(_failed, weak=False, dispatch_uid="audit login failed")


def record_user_action(user: User | None, action: str, details: Settings | None = None) -> None:
    """One row for each tenant of ``user``. A login goes on where it cannot be written.

    For nobody, and for who belongs to no tenant, a row is written and taken back: how long it takes
    must not tell who is here.
    """
    try:
        entries = _entries(user, action, details)
        with written(kept=bool(entries)):  # what is around it goes on too
            record_all(entries or [_unread_entry(action)])
    except DatabaseError:
        log.exception(
            "Could not write a sign-in or account change to the audit log",
            extra={"action": "audit_lost", "audited": action},
        )


def _record(user: User, action: str, details: Settings | None) -> None:
    entries = _entries(user, action, details)
    if entries:
        record_all(entries)


def _entries(user: User | None, action: str, details: Settings | None) -> list[AuditEntry]:
    """One query."""
    user_id, name = (0, "") if user is None else (user.pk, user.username)
    rows = Member.objects.filter(user_id=user_id).select_related("tenant").order_by("tenant_id")
    return [
        entry_of(f"user:{name}", member.tenant, action, f"users/{name}", details)
        for member in rows[:TENANTS_MAX]
    ]


def _unread_entry(action: str) -> AuditEntry:
    return entry_of("user:nobody", Tenant(pk=0), action, "users/nobody")


def _user_signal(action: str) -> Any:  # Any: receivers of signals take what they are sent
    def tell(sender: object, user: object = None, **more: Any) -> None:
        if isinstance(user, User):
            details = _method_of(more.get("request"), user) if action == _LOGIN else None
            record_user_action(user, action, details)

    return tell


def _method_of(request: object, user: User) -> Settings | None:
    """What began the sign-in that has just been completed, also where a second factor followed."""
    records = get_authentication_records(request, user) if isinstance(request, HttpRequest) else []
    is_openid = any(each.get("method") == "socialaccount" for each in records)
    return {"method": OPENID_METHOD} if is_openid else None


def _factor(action: str) -> Any:  # Any: as above
    def tell(sender: object, user: object = None, authenticator: Any = None, **more: Any) -> None:
        if isinstance(user, User):
            kind = "" if authenticator is None else str(authenticator.type)
            record_user_action(user, action, {"type": kind})

    return tell


def _factor_saved(
    sender: object, instance: Authenticator, created: bool, raw: bool = False, **more: Any
) -> None:  # Any: as sent
    """Raises ``DatabaseError``: what cannot be audited is not done."""
    if created and not raw:
        _record(instance.user, "factor.add", {"type": str(instance.type)})


def _factor_deleted(sender: object, instance: Authenticator, **more: Any) -> None:  # Any: as sent
    """Raises ``DatabaseError``, as above."""
    _record(instance.user, "factor.remove", {"type": str(instance.type)})


def _identity_saved(
    sender: object, instance: SocialAccount, created: bool, raw: bool = False, **more: Any
) -> None:  # Any: as sent
    """Raises ``DatabaseError``, as above."""
    if created and not raw:
        _record(instance.user, "identity.add", _issuer_of(instance))


def _identity_deleted(sender: object, instance: SocialAccount, **more: Any) -> None:  # Any: as sent
    """Raises ``DatabaseError``, as above."""
    _record(instance.user, "identity.remove", _issuer_of(instance))


def _issuer_of(identity: SocialAccount) -> Settings:
    return {"issuer": str(identity.extra_data.get("iss", ""))}


def _failed(sender: object, credentials: dict[str, Any], **more: Any) -> None:  # Any: as sent
    """Of names that are somebody's; what else was tried is nobody's to know."""
    name, email = credentials.get("username"), credentials.get("email")
    user = None
    if isinstance(name, str) and name:
        user = User.objects.filter(username=name).first()
    if user is None and isinstance(email, str) and email:
        user = User.objects.filter(email__iexact=email).first()
    record_user_action(user, "user.login_fail")
