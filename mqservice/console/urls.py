"""Paths of the console, below ``/console/``."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import path

from mqservice.console import (
    views,
    views_alerts,
    views_audit,
    views_charts,
    views_clients,
    views_groups,
    views_keys,
    views_members,
    views_messages,
    views_operator,
    views_publish,
    views_quick_start,
    views_reports,
    views_reset,
    views_tail,
    views_topics,
    views_usage,
)
from mqservice.console.preferences import set_preferences

app_name = "console"

urlpatterns = [
    path("logout", LogoutView.as_view(), name="logout"),
    path("preferences", set_preferences, name="preferences"),
    path("", views.overview, name="overview"),
    # Before those of namespaces, none of which is called "-"
    path("-/operator", views_operator.operator, name="operator"),
    path("<str:ns>/", views.namespace_overview, name="namespace"),
    path("<str:ns>/quick-start", views_quick_start.quick_start, name="quick-start"),
    path("<str:ns>/quick-start/key", views_quick_start.quick_start_key, name="quick-start-key"),
    path("<str:ns>/quick-start/arrived", views_quick_start.arrived, name="quick-start-arrived"),
    path("<str:ns>/search", views.search, name="search"),
    # The tenant: keys, members, audit, alerts, usage
    path("<str:ns>/keys", views_keys.keys, name="keys"),
    path("<str:ns>/new-key", views_keys.new_key, name="new-key"),
    path("<str:ns>/keys/<str:key_id>", views_keys.key, name="key"),
    path("<str:ns>/keys/<str:key_id>/rotate", views_keys.rotate, name="rotate-key"),
    path("<str:ns>/keys/<str:key_id>/revoke", views_keys.revoke, name="revoke-key"),
    path("<str:ns>/members", views_members.members, name="members"),
    path("<str:ns>/invite", views_members.new_invitation, name="invite"),
    path("<str:ns>/invitations/<str:invitation_id>/withdraw", views_members.withdraw,
         name="withdraw-invitation"),
    path("<str:ns>/members/<str:username>/role", views_members.role, name="member-role"),
    path("<str:ns>/members/<str:username>/remove", views_members.remove, name="remove-member"),
    path("<str:ns>/audit", views_audit.audit, name="audit"),
    path("<str:ns>/audit.csv", views_audit.audit_csv, name="audit-csv"),
    path("<str:ns>/alerts", views_alerts.alerts, name="alerts"),
    path("<str:ns>/new-alert", views_alerts.new_alert, name="new-alert"),
    path("<str:ns>/alerts/<str:alert>", views_alerts.alert, name="alert"),
    path("<str:ns>/alerts/<str:alert>/edit", views_alerts.edit_alert, name="edit-alert"),
    path("<str:ns>/alerts/<str:alert>/mute", views_alerts.mute, name="mute-alert"),
    path("<str:ns>/alerts/<str:alert>/delete", views_alerts.remove_alert, name="delete-alert"),
    path("<str:ns>/usage", views_usage.usage, name="usage"),
    path("<str:ns>/usage/charts/<str:name>", views_usage.usage_chart, name="usage-chart"),
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
