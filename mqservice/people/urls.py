"""Paths of user pages, below ``/account/``: ours, and those of allauth."""

from __future__ import annotations

from collections.abc import Iterable

from allauth.mfa import urls as factor_urls
from django.db import transaction
from django.urls import URLPattern, URLResolver, include, path

from mqservice.people import single_sign_on_views, views


def _atomic(patterns: Iterable[URLPattern | URLResolver]) -> list[URLPattern | URLResolver]:
    """The same paths; each view is one transaction, with what the audit says of it."""
    return [
        URLPattern(
            each.pattern, transaction.atomic(each.callback), each.default_args, each.name
        )
        if isinstance(each, URLPattern)
        else URLResolver(
            each.pattern, _atomic(each.url_patterns), each.default_kwargs, each.app_name,
            each.namespace,
        )
        for each in patterns
    ]  # fmt: skip


_ours = [
    path("", views.account, name="account"),
    path("start/", views.start, name="start"),
    path("join/", views.join, name="join"),
    path("join/<str:token>/", views.follow, name="follow"),
    path("single-sign-on/", single_sign_on_views.begin, name="single_sign_on"),
    path("single-sign-on/callback/", single_sign_on_views.finish, name="single_sign_on_callback"),
    path("single-sign-on/confirm/", single_sign_on_views.confirm, name="single_sign_on_confirm"),
    path("single-sign-on/again/", single_sign_on_views.begin_again, name="single_sign_on_again"),
    path("single-sign-on/failed/", single_sign_on_views.explain, name="single_sign_on_failed"),
    path("single-sign-on/unlink/", single_sign_on_views.unlink, name="single_sign_on_unlink"),
]
urlpatterns = [
    path("", include((_ours, "people"))),
    path("password/set/", views.set_password, name="account_set_password"),  # not allauth's
    path("", include("allauth.account.urls")),
    path("factors/", include(_atomic(factor_urls.urlpatterns))),
    path("sessions/", include("allauth.usersessions.urls")),
]
