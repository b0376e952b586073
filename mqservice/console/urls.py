"""Paths of the console, below ``/console/``."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import path

from mqservice.console import (
    views,
    views_charts,
    views_clients,
    views_groups,
    views_messages,
    views_publish,
    views_reports,
    views_tail,
    views_reset,
    views_topics,
)
from mqservice.console.preferences import set_preferences

app_name = "console"

urlpatterns = [
    path("logout", LogoutView.as_view(), name="logout"),
    path("preferences", set_preferences, name="preferences"),
    path("", views.overview, name="overview"),
    path("<str:ns>/", views.namespace_overview, name="namespace"),
    path("<str:ns>/quick-start", views.quick_start, name="quick-start"),
    path("<str:ns>/search", views.search, name="search"),
    path("<str:ns>/charts/<str:name>", views_charts.chart, name="chart"),
    # Topics
    path("<str:ns>/topics", views_topics.topics, name="topics"),
    path("<str:ns>/new-topic", views_topics.new_topic, name="new-topic"),
    path("<str:ns>/topics/<str:topic>", views_topics.topic, name="topic"),
    path("<str:ns>/topics/<str:topic>/edit", views_topics.edit_topic, name="edit-topic"),
    path("<str:ns>/topics/<str:topic>/delete", views_topics.remove_topic, name="delete-topic"),
    path("<str:ns>/topics/<str:topic>/publish", views_publish.publish, name="publish"),
    path("<str:ns>/topics/<str:topic>/messages", views_messages.messages, name="messages"),
    path("<str:ns>/topics/<str:topic>/messages/<str:message_id>", views_messages.message,
         name="message"),
    path("<str:ns>/topics/<str:topic>/messages/<str:message_id>/body", views_messages.download,
         name="message-body"),
    # Live tail
    path("<str:ns>/tail", views_tail.tail, name="tail"),
    # Reports
    path("<str:ns>/reports", views_reports.reports, name="reports"),
    path("<str:ns>/reports/run", views_reports.run, name="run-reports"),
    path("<str:ns>/reports/<str:date>", views_reports.report, name="report"),
    path("<str:ns>/reports/<str:date>/page.html", views_reports.report_page, name="report-page"),
    path("<str:ns>/reports/<str:date>/<str:name>.csv", views_reports.report_rows,
         name="report-rows"),
    # Groups
    path("<str:ns>/groups", views_groups.groups, name="groups"),
    path("<str:ns>/new-group", views_groups.new_group, name="new-group"),
    path("<str:ns>/groups/<str:group>", views_groups.group, name="group"),
    path("<str:ns>/groups/<str:group>/edit", views_groups.edit_group, name="edit-group"),
    path("<str:ns>/groups/<str:group>/delete", views_groups.remove_group, name="delete-group"),
    path("<str:ns>/groups/<str:group>/pause", views_groups.pause, name="pause-group"),
    path("<str:ns>/groups/<str:group>/reset", views_reset.reset, name="reset-group"),
    # Clients
    path("<str:ns>/clients", views_clients.clients, name="clients"),
    path("<str:ns>/clients/disconnect", views_clients.disconnect, name="disconnect"),
]  # fmt: skip
