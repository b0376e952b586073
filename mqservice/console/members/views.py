"""Members of the tenant with their roles, and invitations.

    form ──▶ accounts.member_services, invitation_services, as REST calls them ──▶ audit

An invitation's link is in the answer to the POST that makes it, and nowhere else.
"""

from __future__ import annotations

from typing import Final

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _

from mqservice.accounts.invitation_services import invite, revoke_invitation
from mqservice.accounts.limits import PAGE_MAX
from mqservice.accounts.member_services import change_member, remove_member
from mqservice.accounts.models import Member, Role
from mqservice.accounts.queries import get_member, members_after, pending_invitations
from mqservice.accounts.roles import Permission, is_at_most
from mqservice.console.keys.forms import InvitationForm
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.form_views import FORM_METHODS, delete_by_name, form_status, number_of
from mqservice.console.shared.frame import Frame, find_or_404, page
from mqservice.lib.problem import Problem
from mqservice.lib.problem_words import problem_text

_USERNAME_CHARS_MAX: Final = 150


@page("members", needs=Permission.MEMBERS_READ)
def members(frame: Frame) -> HttpResponse:
    """``?after=``: members by name; who may change them sees open invitations as well."""
    after = frame.request.GET.get("after", "")[:_USERNAME_CHARS_MAX]
    rows = members_after(frame.principal, after=after)
    may_manage = frame.principal.permits(Permission.MEMBERS_MANAGE)
    may_manage_owners = frame.principal.permits(Permission.OWNERS_MANAGE)
    return frame.render(
        "console/members.html",
        rows=[(row, may_manage and (may_manage_owners or row.role != Role.OWNER)) for row in rows],
        next_after=rows[-1].user.username if len(rows) == PAGE_MAX else "",
        roles=[role.value for role in Role if is_at_most(role, frame.principal.role)],
        invitations=pending_invitations(frame.principal) if may_manage else [],
        may_manage=may_manage,
        curl=curl_of("GET", "/v1/members"),
    )


@page("members", needs=Permission.MEMBERS_MANAGE, methods=("POST",))
def role(frame: Frame, username: str) -> HttpResponse:
    """Gives a member another role."""
    given, revision = frame.request.POST.get("role", ""), frame.request.POST.get("revision", "")
    if given not in set(Role):
        raise Http404
    try:
        change_member(
            frame.principal,
            username,
            Role(given),
            revision=number_of(revision),
        )
    except Problem as problem:
        _show_problem(frame, problem)
    else:
        told = {"name": username, "role": given}
        messages.success(frame.request, _("%(name)s now has the role %(role)s.") % told)
    return redirect("console:members", frame.namespace.name)


@page("members", needs=Permission.MEMBERS_MANAGE, methods=FORM_METHODS)
def remove(frame: Frame, username: str) -> HttpResponse:
    """A question; POST with the user name takes the place away."""
    member = _found(frame, username)
    name = member.user.username
    return delete_by_name(
        frame,
        "console/member_remove.html",
        lambda: remove_member(frame.principal, name),
        name=name,
        chars_max=_USERNAME_CHARS_MAX,
        fault=_("This does not match the name of the member."),
        told=_("%(name)s is no longer a member.") % {"name": name},
        back=reverse("console:overview") if member.user == frame.user else frame.url("members"),
        member=member,
        crumbs=frame.crumbs(name),
    )


@page("members", needs=Permission.MEMBERS_MANAGE, methods=FORM_METHODS)
def new_invitation(frame: Frame) -> HttpResponse:
    """A form; POST makes an invitation and shows its link, this once."""
    form = InvitationForm(frame.request.POST or None, own=frame.principal.role)
    if frame.request.method == "POST" and form.is_valid():
        try:
            order = form.order()
            row, token = invite(frame.principal, order.email, order.role, order.life)
        except Problem as problem:
            form.add_problem(problem)
        else:
            return frame.render(
                "console/invited.html",
                status=201,
                invitation=row,
                link=f"{settings.MQ_BASE_URL}/account/join/{token.text}/",
                crumbs=frame.crumbs(_("Invitation")),
            )
    return frame.render(
        "console/invite.html",
        status=form_status(form),
        form=form,
        crumbs=frame.crumbs(_("Invite")),
    )


@page("members", needs=Permission.MEMBERS_MANAGE, methods=("POST",))
def withdraw(frame: Frame, invitation_id: str) -> HttpResponse:
    """Ends an open invitation."""
    try:
        revoke_invitation(frame.principal, invitation_id)
    except Problem as problem:
        _show_problem(frame, problem)
    else:
        messages.success(frame.request, _("The invitation was withdrawn."))
    return redirect("console:members", frame.namespace.name)


def _show_problem(frame: Frame, problem: Problem) -> None:
    """A refusal of what has no form of its own. Raises Http404 for what is not there."""
    if problem.status == 404:
        raise Http404(problem.detail)
    if problem.code == "PRECONDITION_FAILED":
        detail = _(
            "Someone else has changed this member in the meantime. Check the current role, then "
            "try again."
        )
    else:
        detail = problem_text(problem)
    messages.error(frame.request, detail)


def _found(frame: Frame, username: str) -> Member:
    """Raises Http404. One query."""
    return find_or_404(get_member, frame.principal, username)
