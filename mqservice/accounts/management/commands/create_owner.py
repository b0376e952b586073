"""Creates the first owner of a tenant: ``manage.py create_owner NAME [--email] [--tenant]``.

    MQ_OWNER_PASSWORD ──▶ user, tenant with a namespace of its name, owner ──▶ one JSON line

A tenant that is there gets another owner. An existing user is left as it is, password included.
"""

from __future__ import annotations

from typing import Any

import msgspec
from allauth.account.models import EmailAddress
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from mqservice.accounts.audit import record
from mqservice.accounts.models import Member, Role, Tenant, User
from mqservice.accounts.tenant_creation import create_tenant
from mqservice.env import envsecret
from mqservice.lib.commands import ServiceCommand
from mqservice.lib.problem import Problem


class Command(ServiceCommand):
    help = "Make a user the owner of a tenant; both are created if they do not exist."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--email", default="", help="Email address; counts as verified.")
        parser.add_argument(
            "--tenant", required=True, help="Name of the tenant, and of its namespace."
        )

    def handle(self, *args: Any, **options: Any) -> None:  # Any: Django's own signature
        try:
            with transaction.atomic():
                facts = _create(options["username"], options["email"], options["tenant"])
        except Problem as exc:
            raise CommandError(exc.detail) from exc
        except ValidationError as exc:
            raise CommandError(" ".join(exc.messages)) from exc
        self.stdout.write(msgspec.json.encode(facts).decode())


def _create(username: str, email: str, tenant_name: str) -> dict[str, object]:
    user = User.objects.filter(username=username).first()
    is_new = user is None
    if user is None:
        user = User(username=username, email=email)
        user.clean_fields(exclude={"password"})
        password = envsecret("MQ_OWNER_PASSWORD", chars_min=1)
        validate_password(password, user)
        user.set_password(password)
        user.save()
        if email:
            EmailAddress.objects.create(user=user, email=email, verified=True, primary=True)
    tenant = Tenant.objects.filter(name=tenant_name).first()
    if tenant is None:
        create_tenant(user, tenant_name, actor=None)
    else:
        _own(tenant, user)
    return {"username": username, "tenant": tenant_name, "is_new_user": is_new}


def _own(tenant: Tenant, user: User) -> None:
    member, is_new = Member.objects.get_or_create(
        tenant=tenant, user=user, defaults={"role": Role.OWNER.value}
    )
    before = None if is_new else {"role": member.role}
    if not is_new and member.role != Role.OWNER:
        member.role = Role.OWNER.value
        member.revision += 1
        member.save(update_fields=["role", "revision"])
    elif not is_new:
        return
    after = {"role": Role.OWNER.value}
    action = "member.join" if is_new else "member.update"
    record(None, tenant, action, f"members/{user.username}", before=before, after=after)
