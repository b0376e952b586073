"""The frame of each page in a namespace: the user, the namespace, and what the user may do.

    request ─▶ signed in? ─▶ member of the namespace's tenant? ─▶ permitted? ─▶ view(request, frame)
                  │ no               │ no                           │ no
               log-in               404                 403: why not, and who can grant it

A namespace one is no member of answers 404, as one that does not exist. Pages are HTML that works
without scripts; htmx asks for the same addresses and gets the part it shows (``render_part``). With
``?csv=NAME`` a page is its table of that name as a file (``table_csv``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Concatenate, Final, ParamSpec, TypeVar, cast

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    QueryDict,
)
from django.shortcuts import render
from django.utils.translation import gettext as _

from mqservice.accounts.access import Principal
from mqservice.accounts.models import Namespace, User
from mqservice.accounts.queries import grantors, namespaces_of
from mqservice.accounts.roles import CHANGING, Permission, least_role
from mqservice.accounts.session_access import find_session_principal
from mqservice.console.guide.pages import guide_url
from mqservice.console.shared import table_csv
from mqservice.console.shared.navigation import (
    Item,
    ShownSection,
    Text,
    find_item,
    sections_for,
    tabs_for,
)
from mqservice.console.shared.waiting import forget_counts, waiting_counts
from mqservice.console.templatetags.words import word
from mqservice.lib.page_urls import page_url
from mqservice.lib.problem import Problem

P = ParamSpec("P")
T = TypeVar("T")
View = Callable[Concatenate[HttpRequest, P], HttpResponse]
_SAFE_METHODS = ("GET", "HEAD")
GRANTORS_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Crumb:
    """A step of the way to a page; the last one has no ``url``."""

    title: Text
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """``here`` is the item of the navigation that is marked."""

    request: HttpRequest
    user: User
    principal: Principal
    namespace: Namespace
    namespaces: list[Namespace]
    here: str

    @property
    def sections(self) -> list[ShownSection]:
        return sections_for(self.principal, self.here, waiting_counts(self.namespace))

    @property
    def tabs(self) -> list[Item]:
        """Pages that are tabs of this one."""
        return tabs_for(self.principal, self.here)

    @property
    def guide_url(self) -> str:
        """Of the section about this page, or of the contents."""
        item = find_item(self.here)
        return guide_url(item.guide if item else "")

    @property
    def form_bytes_max(self) -> int:
        """What one form may send."""
        return int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)

    @property
    def can_manage(self) -> bool:
        """Whether actions on topics and groups are shown; the views refuse them as well."""
        return self.principal.permits(Permission.SETTINGS_MANAGE)

    @property
    def can_produce(self) -> bool:
        return self.principal.permits(Permission.PRODUCE)

    @property
    def can_consume(self) -> bool:
        return self.principal.permits(Permission.CONSUME)

    @property
    def why_not(self) -> str:
        """Why actions that others have are not this user's here."""
        if self.namespace.is_read_only:
            return _("This namespace is read-only, so nothing in it can be changed here.")
        role = word(self.principal.role)
        return _("Your role, %(role)s, may not do this. Ask an admin of the tenant.") % {
            "role": role
        }

    @property
    def api_root(self) -> str:
        """What the API's paths of this namespace begin with."""
        return f"/v1/ns/{self.namespace.name}"

    def crumbs(self, *steps: Text | Crumb, here: str = "") -> list[Crumb]:
        """The way to a page below an item of the navigation, by default the marked one."""
        item = find_item(here or self.here)
        if item is None:
            return []
        url = page_url(item.url, self.namespace.name) if steps else ""
        below = [step if isinstance(step, Crumb) else Crumb(title=step) for step in steps]
        return [Crumb(title=item.title, url=url), *below]

    def crumbs_of(self, view: str, name: str, title: Text = "", *, here: str = "") -> list[Crumb]:
        """The way to the page ``view`` of what is called ``name``, or to its page ``title``."""
        if not title:
            return self.crumbs(name, here=here)
        return self.crumbs(Crumb(title=name, url=self.url(view, name)), title, here=here)

    def url(self, name: str, *args: object) -> str:
        """Of a page of this namespace."""
        return page_url(f"console:{name}", self.namespace.name, *args)

    def render(self, template: str, status: int = 200, **context: object) -> HttpResponse:
        """A whole page; its template extends ``console/frame.html``."""
        shown = {
            "frame": self,
            "namespace": self.namespace,
            "namespaces": self.namespaces,
            "crumbs": self.crumbs(),
            **context,
        }
        return render(self.request, template, shown, status=status)

    render_part = render  # the template of a part extends nothing


def page(
    here: str,
    *,
    needs: Permission = Permission.SETTINGS_READ,
    methods: tuple[str, ...] = _SAFE_METHODS,
) -> Callable[[Callable[Concatenate[Frame, P], HttpResponse]], Callable[..., HttpResponse]]:
    """Makes a view of ``function(frame, ...)``; the path has the argument ``ns``.

    Three queries: the session's user, the namespaces, the role.
    """

    def decorate(
        function: Callable[Concatenate[Frame, P], HttpResponse],
    ) -> Callable[..., HttpResponse]:
        @functools.wraps(function)
        def view(request: HttpRequest, ns: str, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            if request.method not in methods:
                return HttpResponseNotAllowed(methods)
            if _has_nul(request):  # no text of PostgreSQL has one: nothing is called so
                raise Http404
            frame = _frame(request, ns, here)
            if frame.namespace.is_read_only and needs in CHANGING:
                return frame.render("console/held.html", HTTPStatus.CONFLICT, crumbs=[])
            if not frame.principal.permits(needs):
                return refuse(frame, needs)
            answer = function(frame, *args, **kwargs)
            if request.method == "POST":
                forget_counts(frame.namespace)
            name = request.GET.get(table_csv.PARAMETER, "")
            if name and request.method == "GET" and answer.status_code == HTTPStatus.OK:

                def show(query: QueryDict) -> HttpResponse:
                    request.GET = query  # type: ignore[assignment]  # Django makes an immutable one
                    return function(frame, *args, **kwargs)

                table = table_csv.table_response(name, answer, show)
                return cast("HttpResponse", table)  # a stream of it, which Django passes on as well
            return answer

        return login_required(view)

    return decorate


def refuse(frame: Frame, needs: Permission) -> HttpResponse:
    """The page for who lacks ``needs``: which role has it, and who can grant it. One query."""
    admins = grantors(frame.principal)[: GRANTORS_SHOWN + 1]
    return frame.render(
        "console/not_allowed.html",
        HTTPStatus.FORBIDDEN,
        crumbs=[],
        role=least_role(needs),
        admins=[each.user.username for each in admins[:GRANTORS_SHOWN]],
        has_more=len(admins) > GRANTORS_SHOWN,
    )


def _has_nul(request: HttpRequest) -> bool:
    texts = [request.path, *(text for each in request.GET.lists() for text in each[1])]
    return any("\0" in text for text in texts)


def _frame(request: HttpRequest, ns: str, here: str) -> Frame:
    user = signed_in(request)
    namespaces = namespaces_of(user)
    namespace = next((each for each in namespaces if each.name == ns), None)
    frame = _frame_in(request, user, namespace, namespaces, here)
    if frame is None:
        raise Http404
    return frame


def frame_of(
    request: HttpRequest, user: User, namespaces: list[Namespace], *, here: str
) -> Frame | None:
    """That of the first namespace, for pages of no namespace; None for who has none. One query."""
    namespace = namespaces[0] if namespaces else None
    return _frame_in(request, user, namespace, namespaces, here)


def _frame_in(
    request: HttpRequest,
    user: User,
    namespace: Namespace | None,
    namespaces: list[Namespace],
    here: str,
) -> Frame | None:
    """None for no namespace, and for who is no member of its tenant. One query."""
    principal = None if namespace is None else find_session_principal(user, namespace)
    if namespace is None or principal is None:
        return None
    return Frame(
        request=request,
        user=user,
        principal=principal,
        namespace=namespace,
        namespaces=namespaces,
        here=here,
    )


def find_or_404(find: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What ``find`` returns; Http404 where it raises Problem."""
    try:
        return find(*args, **kwargs)
    except Problem:
        raise Http404 from None


def signed_in(request: HttpRequest) -> User:
    user = request.user
    assert isinstance(user, User), "login_required lets only users pass"
    return user
