"""What an entry of the audit log says, as a sentence: "load generator changed the group billing".

action, target, actor ──▶ verb, thing, name ──▶ text in the active language
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mqservice.accounts.audit import SERVICE_ACTOR
from mqservice.accounts.models import ApiKey, AuditEntry

_SENTENCES: Final[Mapping[str, Promise]] = {
    "create": gettext_lazy("%(actor)s created %(thing)s"),
    "put": gettext_lazy("%(actor)s changed %(thing)s"),
    "update": gettext_lazy("%(actor)s changed %(thing)s"),
    "delete": gettext_lazy("%(actor)s deleted %(thing)s"),
    "remove": gettext_lazy("%(actor)s removed %(thing)s"),
    "pause": gettext_lazy("%(actor)s paused %(thing)s"),
    "resume": gettext_lazy("%(actor)s resumed %(thing)s"),
    "mute": gettext_lazy("%(actor)s muted %(thing)s"),
    "unmute": gettext_lazy("%(actor)s unmuted %(thing)s"),
    "test": gettext_lazy("%(actor)s tested %(thing)s"),
    "seek": gettext_lazy("%(actor)s reset the offsets of %(thing)s"),
    "purge": gettext_lazy("%(actor)s purged %(thing)s"),
    "copy": gettext_lazy("%(actor)s copied messages to %(thing)s"),
    "rotate": gettext_lazy("%(actor)s rotated %(thing)s"),
    "revoke": gettext_lazy("%(actor)s revoked %(thing)s"),
    "acknowledge": gettext_lazy("%(actor)s acknowledged %(thing)s"),
    "resolve": gettext_lazy("%(actor)s resolved %(thing)s"),
    "ignore": gettext_lazy("%(actor)s ignored %(thing)s"),
    "reopen": gettext_lazy("%(actor)s reopened %(thing)s"),
    "add": gettext_lazy("%(actor)s added %(thing)s"),
    "drain": gettext_lazy("%(actor)s drained %(thing)s"),
    "activate": gettext_lazy("%(actor)s activated %(thing)s"),
    "move": gettext_lazy("%(actor)s asked to move %(thing)s"),
    "split": gettext_lazy("%(actor)s split %(thing)s"),
    "detach": gettext_lazy("%(actor)s took %(thing)s off its replicated log"),
    "take_over": gettext_lazy("%(actor)s took over %(thing)s"),
    "place": gettext_lazy("%(actor)s moved %(thing)s to another shard"),
}
# Of who did it alone.
_ALONE: Final[Mapping[str, Promise]] = {
    "user.login": gettext_lazy("%(actor)s signed in"),
    "user.login_fail": gettext_lazy("somebody failed to sign in as %(actor)s"),
    "user.logout": gettext_lazy("%(actor)s signed out"),
    "user.password_set": gettext_lazy("%(actor)s set a password"),
    "user.password_change": gettext_lazy("%(actor)s changed their password"),
    "user.password_reset": gettext_lazy("%(actor)s reset their password"),
    "user.email_add": gettext_lazy("%(actor)s added an email address"),
    "user.email_change": gettext_lazy("%(actor)s changed their email address"),
    "user.email_remove": gettext_lazy("%(actor)s removed an email address"),
    "member.join": gettext_lazy("%(actor)s joined"),
}
_THINGS: Final[Mapping[str, Promise]] = {
    "topics": gettext_lazy("the topic %(name)s"),
    "groups": gettext_lazy("the group %(name)s"),
    "alerts": gettext_lazy("the alert %(name)s"),
    "schedules": gettext_lazy("the schedule %(name)s"),
    "keys": gettext_lazy("the API key %(name)s"),
    "members": gettext_lazy("the member %(name)s"),
    "masking": gettext_lazy("the mask %(name)s"),
    "schemas": gettext_lazy("the schema of the topic %(name)s"),
    "searches": gettext_lazy("the shared search %(name)s"),
    "namespaces": gettext_lazy("the namespace %(name)s"),
    "issues": gettext_lazy("the issue %(name)s"),
    "invitations": gettext_lazy("the invitation %(name)s"),
    "shards": gettext_lazy("the shard %(name)s"),
}


def key_names(tenant_id: int, texts: Iterable[str]) -> dict[str, str]:
    """Names of the API keys among actors and targets, by public id. One query."""
    ids = {text.replace("/", ":").rpartition(":")[2] for text in texts if text.startswith("key")}
    found = ApiKey.objects.filter(tenant_id=tenant_id, public_id__in=ids)
    return dict(found.values_list("public_id", "name"))


def sentence_of(row: AuditEntry, keys: Mapping[str, str]) -> str:
    """Empty for an action that no sentence is known for."""
    if row.action in _ALONE:
        return str(_ALONE[row.action] % {"actor": actor_of(row.actor, keys)})
    verb = row.action.rpartition(".")[2]
    kind, _slash, name = row.target.partition("/")
    if verb == "put" and row.before is None:
        verb = "create"
    if verb not in _SENTENCES or kind not in _THINGS or not name:
        return ""
    thing = _THINGS[kind] % {"name": keys.get(name, name)}
    return str(_SENTENCES[verb] % {"actor": actor_of(row.actor, keys), "thing": thing})


def actor_of(actor: str, keys: Mapping[str, str]) -> str:
    """``user:alice`` is alice, ``key:QydUkJqM`` what the key is called."""
    if actor == SERVICE_ACTOR:
        return _("the service")
    name = actor.partition(":")[2] or actor
    return keys.get(name, name)
