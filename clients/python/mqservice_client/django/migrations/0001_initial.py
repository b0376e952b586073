"""The table of tasks."""

from __future__ import annotations

import django.utils.timezone
from django.db import migrations, models

import mqservice_client.django.models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="TaskRecord",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=mqservice_client.django.models.new_id,
                        editable=False,
                        max_length=64,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("backend", models.CharField(max_length=64)),
                ("queue_name", models.CharField(max_length=64)),
                ("priority", models.SmallIntegerField()),
                ("task_path", models.TextField()),
                ("args", models.JSONField()),
                ("kwargs", models.JSONField()),
                ("run_after", models.DateTimeField(null=True)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("READY", "Ready"),
                            ("RUNNING", "Running"),
                            ("FAILED", "Failed"),
                            ("SUCCESSFUL", "Successful"),
                        ],
                        default="READY",
                        max_length=16,
                    ),
                ),
                ("enqueued_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("sent_at", models.DateTimeField(null=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("last_attempted_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("errors", models.JSONField(default=list)),
                ("worker_ids", models.JSONField(default=list)),
                ("message_id", models.CharField(blank=True, default="", max_length=64)),
                ("return_value", models.JSONField(null=True)),
            ],
            options={
                "verbose_name": "task",
                "indexes": [
                    models.Index(
                        condition=models.Q(("sent_at__isnull", True)),
                        fields=["enqueued_at"],
                        name="mqservice_unsent",
                    ),
                    models.Index(fields=["finished_at"], name="mqservice_finished"),
                ],
            },
        ),
    ]
