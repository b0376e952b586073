"""Paths of the console, below ``/console/``."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import path

from mqservice.console.alerts import views as views_alerts
from mqservice.console.audit import views as views_audit
from mqservice.console.charts import views as views_charts
from mqservice.console.clients import views as views_clients
from mqservice.console.dead_letters import redrive_views as views_redrive
from mqservice.console.dead_letters import views as views_dead_letters
from mqservice.console.definitions import views as views_definitions
from mqservice.console.groups import reset_views as views_reset
from mqservice.console.groups import views as views_groups
from mqservice.console.issues import views as views_issues
from mqservice.console.keys import views as views_keys
from mqservice.console.masking import views as views_masking
from mqservice.console.members import views as views_members
from mqservice.console.messages import publish_views as views_publish
from mqservice.console.messages import trace_views as views_traces
from mqservice.console.messages import views as views_messages
from mqservice.console.operators import read_only_views as views_read_only
from mqservice.console.operators import views as views_operator
from mqservice.console.overview import views
from mqservice.console.quick_start import views as views_quick_start
from mqservice.console.reports import views as views_reports
from mqservice.console.schedules import scheduled_views as views_scheduled
from mqservice.console.schedules import views as views_schedules
from mqservice.console.shared.columns import choose_columns
from mqservice.console.shared.preferences import set_preferences
from mqservice.console.shared.time_zones import choose_zone
from mqservice.console.tail import views as views_tail
from mqservice.console.topics import purge_views as views_topic_purge
from mqservice.console.topics import views as views_topics
from mqservice.console.usage import views as views_usage

app_name = "console"

urlpatterns = [
    path("logout", LogoutView.as_view(), name="logout"),
    path("preferences", set_preferences, name="preferences"),
    path("", views.overview, name="overview"),
    path("-/columns", choose_columns, name="columns"),
    path("-/time-zone", choose_zone, name="time-zone"),
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
    path("<str:ns>/read-only", views_read_only.read_only, name="read-only"),
    path("<str:ns>/read-only/switch", views_read_only.switch_read_only, name="switch-read-only"),
    path("<str:ns>/masking", views_masking.masking, name="masking"),
    path("<str:ns>/masking-bodies", views_masking.mask_bodies, name="mask-bodies"),
    path("<str:ns>/new-mask", views_masking.new_mask, name="new-mask"),
    path("<str:ns>/masking/<str:mask>/edit", views_masking.edit_mask, name="edit-mask"),
    path("<str:ns>/masking/<str:mask>/delete", views_masking.remove_mask, name="delete-mask"),
    path("<str:ns>/members", views_members.members, name="members"),
    path("<str:ns>/invite", views_members.new_invitation, name="invite"),
    path("<str:ns>/invitations/<str:invitation_id>/withdraw", views_members.withdraw,
         name="withdraw-invitation"),
    path("<str:ns>/members/<str:username>/role", views_members.role, name="member-role"),
    path("<str:ns>/members/<str:username>/remove", views_members.remove, name="remove-member"),
    path("<str:ns>/audit", views_audit.audit, name="audit"),
    path("<str:ns>/audit.csv", views_audit.audit_csv, name="audit-csv"),
    path("<str:ns>/alerts", views_alerts.alerts, name="alerts"),
    path("<str:ns>/alerts.yaml", views_alerts.alerts_yaml, name="alerts-yaml"),
    path("<str:ns>/new-alert", views_alerts.new_alert, name="new-alert"),
    path("<str:ns>/alerts/<str:alert>", views_alerts.alert, name="alert"),
    path("<str:ns>/alerts/<str:alert>/edit", views_alerts.edit_alert, name="edit-alert"),
    path("<str:ns>/alerts/<str:alert>/mute", views_alerts.mute, name="mute-alert"),
    path("<str:ns>/alerts/<str:alert>/switch", views_alerts.switch, name="switch-alert"),
    path("<str:ns>/alerts/<str:alert>/delete", views_alerts.remove_alert, name="delete-alert"),
    path("<str:ns>/usage", views_usage.usage, name="usage"),
    path("<str:ns>/usage/charts/<str:name>", views_usage.usage_chart, name="usage-chart"),
    path("<str:ns>/charts/<str:name>", views_charts.chart, name="chart"),
    # Topics and groups as a document
    path("<str:ns>/definitions", views_definitions.definitions, name="definitions"),
    path("<str:ns>/definitions.json", views_definitions.definitions_file, {"form": "json"},
         name="definitions-file"),
    path("<str:ns>/definitions.yaml", views_definitions.definitions_file, {"form": "yaml"},
         name="definitions-yaml"),
    path("<str:ns>/definitions/import", views_definitions.import_page, name="import-definitions"),
    # Topics
    path("<str:ns>/topics", views_topics.topics, name="topics"),
    path("<str:ns>/new-topic", views_topics.new_topic, name="new-topic"),
    path("<str:ns>/topics/<str:topic>", views_topics.topic, name="topic"),
    path("<str:ns>/topics/<str:topic>/edit", views_topics.edit_topic, name="edit-topic"),
    path("<str:ns>/topics/<str:topic>/delete", views_topics.remove_topic, name="delete-topic"),
    path("<str:ns>/topics/<str:topic>/purge", views_topic_purge.purge_topic_page,
         name="purge-topic"),
    path("<str:ns>/topics/<str:topic>/publish", views_publish.publish, name="publish"),
    path("<str:ns>/topics/<str:topic>/messages", views_messages.messages, name="messages"),
    path("<str:ns>/topics/<str:topic>/filters", views_messages.saved_filters,
         name="saved-filters"),
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
    # Dead letters, redrive, scheduled messages, traces
    path("<str:ns>/dead-letters", views_dead_letters.dead_letters, name="dead-letters"),
    path("<str:ns>/dead-letters/<str:group>", views_dead_letters.letters,
         name="group-dead-letters"),
    path("<str:ns>/dead-letters/<str:group>/export", views_dead_letters.export,
         name="export-dead-letters"),
    path("<str:ns>/dead-letters/<str:group>/redrive", views_redrive.redrive, name="redrive"),
    path("<str:ns>/dead-letters/<str:group>/purge", views_redrive.purge, name="purge"),
    path("<str:ns>/dead-letters/<str:group>/messages/<str:message_id>", views_dead_letters.letter,
         name="dead-letter"),
    path("<str:ns>/dead-letters/<str:group>/messages/<str:message_id>/body",
         views_dead_letters.letter_body, name="dead-letter-body"),
    path("<str:ns>/issues", views_issues.issues, name="issues"),
    path("<str:ns>/issue-settings", views_issues.settings, name="issue-settings"),
    path("<str:ns>/issues/<str:issue>", views_issues.issue, name="issue"),
    path("<str:ns>/issues/<str:issue>/change", views_issues.change, name="change-issue"),
    path("<str:ns>/tasks", views_redrive.tasks, name="tasks"),
    path("<str:ns>/tasks/<str:task_id>", views_redrive.task, name="task"),
    path("<str:ns>/tasks/<str:task_id>/cancel", views_redrive.cancel, name="cancel-task"),
    path("<str:ns>/scheduled", views_scheduled.scheduled, name="scheduled"),
    path("<str:ns>/scheduled-by-time", views_scheduled.all_scheduled, name="all-scheduled"),
    path("<str:ns>/scheduled/<str:topic>", views_scheduled.topic_scheduled,
         name="topic-scheduled"),
    path("<str:ns>/schedules", views_schedules.schedules, name="schedules"),
    path("<str:ns>/new-schedule", views_schedules.new_schedule, name="new-schedule"),
    path("<str:ns>/schedule-runs", views_schedules.preview_runs, name="schedule-runs"),
    path("<str:ns>/schedules/<str:schedule>", views_schedules.schedule, name="schedule"),
    path("<str:ns>/schedules/<str:schedule>/edit", views_schedules.edit_schedule,
         name="edit-schedule"),
    path("<str:ns>/schedules/<str:schedule>/switch", views_schedules.switch,
         name="switch-schedule"),
    path("<str:ns>/schedules/<str:schedule>/send", views_schedules.send, name="send-schedule"),
    path("<str:ns>/schedules/<str:schedule>/delete", views_schedules.remove_schedule,
         name="delete-schedule"),
    path("<str:ns>/traces", views_traces.traces, name="traces"),
    path("<str:ns>/traces/<str:message_id>", views_traces.trace, name="trace"),
]  # fmt: skip
