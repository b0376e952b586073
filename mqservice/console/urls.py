"""Paths of the console, below ``/console/``."""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from mqservice.console import views

app_name = "console"

urlpatterns = [
    path("login", LoginView.as_view(template_name="console/login.html",
                                    redirect_authenticated_user=True), name="login"),
    path("logout", LogoutView.as_view(), name="logout"),
    path("", views.overview, name="overview"),
    path("<str:ns>/", views.namespace_overview, name="namespace"),
    path("<str:ns>/topics", views.topics, name="topics"),
    path("<str:ns>/quick-start", views.quick_start, name="quick-start"),
]  # fmt: skip
