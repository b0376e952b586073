"""Paths of people, below ``/account/``: ours, and those of allauth."""

from __future__ import annotations

from django.urls import include, path

from mqservice.people import views

_ours = [
    path("", views.account, name="account"),
    path("start/", views.start, name="start"),
    path("join/", views.join, name="join"),
    path("join/<str:token>/", views.follow, name="follow"),
]
urlpatterns = [
    path("", include((_ours, "people"))),
    path("", include("allauth.account.urls")),
    path("factors/", include("allauth.mfa.urls")),
    path("sessions/", include("allauth.usersessions.urls")),
]
