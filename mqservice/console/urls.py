"""Paths of the console, below ``/console/``."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import path

from mqservice.console import (
    views,
    views_charts,
    views_dead_letters,
    views_messages,
    views_publish,
    views_redrive,
    views_scheduled,
    views_topics,
    views_traces,
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
    path("<str:ns>/tasks", views_redrive.tasks, name="tasks"),
    path("<str:ns>/tasks/<str:task_id>", views_redrive.task, name="task"),
    path("<str:ns>/tasks/<str:task_id>/cancel", views_redrive.cancel, name="cancel-task"),
    path("<str:ns>/scheduled", views_scheduled.scheduled, name="scheduled"),
    path("<str:ns>/scheduled/<str:topic>", views_scheduled.topic_scheduled,
         name="topic-scheduled"),
    path("<str:ns>/traces", views_traces.traces, name="traces"),
    path("<str:ns>/traces/<str:message_id>", views_traces.trace, name="trace"),
]  # fmt: skip
