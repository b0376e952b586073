"""Paths of the console, below ``/console/``."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import include, path

from mqservice.console.alerts import views as views_alerts
from mqservice.console.audit import views as views_audit
from mqservice.console.charts import views as views_charts
from mqservice.console.clients import views as views_clients
from mqservice.console.dead_letters import redrive_views as views_redrive
from mqservice.console.dead_letters import views as views_dead_letters
from mqservice.console.definitions import views as views_definitions
from mqservice.console.groups import reset_views as views_reset
from mqservice.console.groups import views as views_groups
from mqservice.console.home import views as views_home
from mqservice.console.issues import views as views_issues
from mqservice.console.keys import views as views_keys
from mqservice.console.masking import views as views_masking
from mqservice.console.members import views as views_members
from mqservice.console.messages import copy_views as views_copy
from mqservice.console.messages import explorer as views_explorer
from mqservice.console.messages import publish_views as views_publish
from mqservice.console.messages import views as views_messages
from mqservice.console.operators import read_only_views as views_read_only
from mqservice.console.operators import views as views_operator
from mqservice.console.quick_start import views as views_quick_start
from mqservice.console.reports import views as views_reports
from mqservice.console.schedules import scheduled_views as views_scheduled
from mqservice.console.schedules import views as views_schedules
from mqservice.console.search import views as views_search
from mqservice.console.shared.columns import choose_columns
from mqservice.console.shared.preferences import set_preferences
from mqservice.console.shared.time_zones import choose_zone
from mqservice.console.tail import views as views_tail
from mqservice.console.topics import purge_views as views_topic_purge
from mqservice.console.topics import schema_views as views_topic_schema
from mqservice.console.topics import views as views_topics
from mqservice.console.usage import views as views_usage

app_name = "console"

_OF_A_NAMESPACE = [
    path("", views_home.home, name="namespace"),
    path("quick-start", views_quick_start.quick_start, name="quick-start"),
    path("quick-start/key", views_quick_start.quick_start_key, name="quick-start-key"),
    path("quick-start/arrived", views_quick_start.arrived, name="quick-start-arrived"),
    path("search", views_search.search, name="search"),
    path("search.json", views_search.search_json, name="search-json"),
    # The tenant: keys, members, audit, alerts, usage
    path("keys", views_keys.keys, name="keys"),
    path("new-key", views_keys.new_key, name="new-key"),
    path("keys/<str:key_id>", views_keys.key, name="key"),
    path("keys/<str:key_id>/rotate", views_keys.rotate, name="rotate-key"),
    path("keys/<str:key_id>/revoke", views_keys.revoke, name="revoke-key"),
    path("read-only", views_read_only.read_only, name="read-only"),
    path("read-only/switch", views_read_only.switch_read_only, name="switch-read-only"),
    path("masking", views_masking.masking, name="masking"),
    path("masking-bodies", views_masking.mask_bodies, name="mask-bodies"),
    path("new-mask", views_masking.new_mask, name="new-mask"),
    path("masking/<str:mask>/edit", views_masking.edit_mask, name="edit-mask"),
    path("masking/<str:mask>/delete", views_masking.remove_mask, name="delete-mask"),
    path("members", views_members.members, name="members"),
    path("invite", views_members.new_invitation, name="invite"),
    path("invitations/<str:invitation_id>/withdraw", views_members.withdraw,
         name="withdraw-invitation"),
    path("members/<str:username>/role", views_members.role, name="member-role"),
    path("members/<str:username>/remove", views_members.remove, name="remove-member"),
    path("audit", views_audit.audit, name="audit"),
    path("audit.csv", views_audit.audit_csv, name="audit-csv"),
    path("alerts", views_alerts.alerts, name="alerts"),
    path("alerts.yaml", views_alerts.alerts_yaml, name="alerts-yaml"),
    path("new-alert", views_alerts.new_alert, name="new-alert"),
    path("alerts/<str:alert>", views_alerts.alert, name="alert"),
    path("alerts/<str:alert>/edit", views_alerts.edit_alert, name="edit-alert"),
    path("alerts/<str:alert>/mute", views_alerts.mute, name="mute-alert"),
    path("alerts/<str:alert>/test", views_alerts.test, name="test-alert"),
    path("alerts/<str:alert>/switch", views_alerts.switch, name="switch-alert"),
    path("alerts/<str:alert>/delete", views_alerts.remove_alert, name="delete-alert"),
    path("usage", views_usage.usage, name="usage"),
    path("usage/charts/<str:name>", views_usage.usage_chart, name="usage-chart"),
    path("charts/<str:name>", views_charts.chart, name="chart"),
    # Topics and groups as a document
    path("definitions", views_definitions.definitions, name="definitions"),
    path("definitions.json", views_definitions.definitions_file, {"form": "json"},
         name="definitions-file"),
    path("definitions.yaml", views_definitions.definitions_file, {"form": "yaml"},
         name="definitions-yaml"),
    path("definitions/import", views_definitions.import_page, name="import-definitions"),
    # Topics
    path("topics", views_topics.topics, name="topics"),
    path("new-topic", views_topics.new_topic, name="new-topic"),
    path("topics/<str:topic>", views_topics.topic, name="topic"),
    path("topics/<str:topic>/edit", views_topics.edit_topic, name="edit-topic"),
    path("topics/<str:topic>/delete", views_topics.remove_topic, name="delete-topic"),
    path("topics/<str:topic>/purge", views_topic_purge.purge_topic_page, name="purge-topic"),
    path("topics/<str:topic>/schema", views_topic_schema.topic_schema, name="topic-schema"),
    path("topics/<str:topic>/schema/edit", views_topic_schema.edit_schema,
         name="edit-topic-schema"),
    path("topics/<str:topic>/schema/remove", views_topic_schema.remove_schema,
         name="remove-topic-schema"),
    path("topics/<str:topic>/publish", views_publish.publish, name="publish"),
    path("topics/<str:topic>/messages", views_messages.topic_messages, name="topic-messages"),
    path("topics/<str:topic>/filters", views_messages.saved_filters, name="saved-filters"),
    path("messages/searches", views_messages.shared_searches, name="shared-searches"),
    path("topics/<str:topic>/messages/<str:message_id>", views_messages.message, name="message"),
    path("topics/<str:topic>/messages/<str:message_id>/body", views_messages.download,
         name="message-body"),
    path("messages", views_explorer.explorer, name="messages"),
    path("messages/copy", views_copy.copy_messages, name="copy-messages"),
    path("messages/export.<str:kind>", views_messages.export, name="export-messages"),
    # Live tail
    path("tail", views_tail.tail, name="tail"),
    # Reports
    path("reports", views_reports.reports, name="reports"),
    path("reports/run", views_reports.run, name="run-reports"),
    path("reports/<str:date>", views_reports.report, name="report"),
    path("reports/<str:date>/page.html", views_reports.report_page, name="report-page"),
    path("reports/<str:date>/<str:name>.csv", views_reports.report_rows, name="report-rows"),
    # Groups
    path("groups", views_groups.groups, name="groups"),
    path("new-group", views_groups.new_group, name="new-group"),
    path("groups/<str:group>", views_groups.group, name="group"),
    path("groups/<str:group>/edit", views_groups.edit_group, name="edit-group"),
    path("groups/<str:group>/delete", views_groups.remove_group, name="delete-group"),
    path("groups/<str:group>/pause", views_groups.pause, name="pause-group"),
    path("groups/<str:group>/reset", views_reset.reset, name="reset-group"),
    # Clients
    path("clients", views_clients.clients, name="clients"),
    path("clients/disconnect", views_clients.disconnect, name="disconnect"),
    # Dead letters, redrive, scheduled messages, traces
    path("dead-letters", views_dead_letters.dead_letters, name="dead-letters"),
    path("dead-letters/<str:group>", views_messages.letters, name="group-dead-letters"),
    path("dead-letters/<str:group>/redrive", views_redrive.redrive, name="redrive"),
    path("dead-letters/<str:group>/purge", views_redrive.purge, name="purge"),
    path("dead-letters/<str:group>/messages/<str:message_id>", views_messages.letter,
         name="dead-letter"),
    path("dead-letters/<str:group>/messages/<str:message_id>/body", views_messages.letter_body,
         name="dead-letter-body"),
    path("issues", views_issues.issues, name="issues"),
    path("issue-settings", views_issues.settings, name="issue-settings"),
    path("issues/<str:issue>", views_issues.issue, name="issue"),
    path("issues/<str:issue>/change", views_issues.change, name="change-issue"),
    path("tasks", views_redrive.tasks, name="tasks"),
    path("tasks/<str:task_id>", views_redrive.task, name="task"),
    path("tasks/<str:task_id>/cancel", views_redrive.cancel, name="cancel-task"),
    path("scheduled", views_scheduled.scheduled, name="scheduled"),
    path("scheduled-by-time", views_scheduled.all_scheduled, name="all-scheduled"),
    path("scheduled/<str:topic>", views_scheduled.topic_scheduled, name="topic-scheduled"),
    path("schedules", views_schedules.schedules, name="schedules"),
    path("new-schedule", views_schedules.new_schedule, name="new-schedule"),
    path("schedule-runs", views_schedules.preview_runs, name="schedule-runs"),
    path("schedules/<str:schedule>", views_schedules.schedule, name="schedule"),
    path("schedules/<str:schedule>/edit", views_schedules.edit_schedule, name="edit-schedule"),
    path("schedules/<str:schedule>/switch", views_schedules.switch, name="switch-schedule"),
    path("schedules/<str:schedule>/send", views_schedules.send, name="send-schedule"),
    path("schedules/<str:schedule>/delete", views_schedules.remove_schedule,
         name="delete-schedule"),
    path("traces", views_messages.traces, name="traces"),
    path("traces/<str:message_id>", views_messages.trace, name="trace"),
]  # fmt: skip

urlpatterns = [
    path("logout", LogoutView.as_view(), name="logout"),
    path("preferences", set_preferences, name="preferences"),
    path("", views_home.overview, name="overview"),
    path("-/columns", choose_columns, name="columns"),
    path("-/time-zone", choose_zone, name="time-zone"),
    # Before those of namespaces, none of which is called "-"
    path("-/operator", views_operator.operator, name="operator"),
    path("<str:ns>/", include(_OF_A_NAMESPACE)),
]
