"""The Django app."""

from __future__ import annotations

from django.apps import AppConfig


class MQServiceConfig(AppConfig):
    name = "mqservice_client.django"
    label = "mqservice_client"
    verbose_name = "mqservice tasks"
    default_auto_field = "django.db.models.BigAutoField"
