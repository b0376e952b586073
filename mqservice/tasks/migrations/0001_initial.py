from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models

import mqservice.tasks.models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Task",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "public_id",
                    models.CharField(
                        default=mqservice.tasks.models.new_task_id, max_length=40, unique=True
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("redrive", "redrive"), ("purge", "purge")], max_length=16
                    ),
                ),
                ("group_name", models.CharField(max_length=64)),
                ("target", models.CharField(blank=True, max_length=64)),
                ("selection", models.JSONField()),
                ("rate", models.PositiveIntegerField()),
                ("begin_offset", models.BigIntegerField()),
                ("end_offset", models.BigIntegerField()),
                ("created_by", models.CharField(max_length=80)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "pending"),
                            ("running", "running"),
                            ("done", "done"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                        ],
                        default="pending",
                        max_length=16,
                    ),
                ),
                ("error", models.CharField(blank=True, max_length=500)),
                ("place", models.TextField(blank=True)),
                ("batch", models.JSONField(blank=True, null=True)),
                ("total_count", models.BigIntegerField(blank=True, null=True)),
                ("to_look_count", models.BigIntegerField()),
                ("looked_count", models.BigIntegerField(default=0)),
                ("moved_count", models.BigIntegerField(default=0)),
                ("skipped_count", models.BigIntegerField(default=0)),
                ("failed_count", models.BigIntegerField(default=0)),
                ("listed_count", models.PositiveIntegerField(default=0)),
                ("claim", models.PositiveIntegerField(default=0)),
                ("claimed_until_ms", models.BigIntegerField(default=0)),
                ("queued_until_ms", models.BigIntegerField(default=0)),
                ("next_step_ms", models.BigIntegerField(default=0)),
                ("paced_us", models.BigIntegerField()),
                ("error_count", models.PositiveIntegerField(default=0)),
                ("lost_count", models.PositiveIntegerField(default=0)),
                (
                    "namespace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tasks",
                        to="accounts.namespace",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["namespace", "-id"], name="task_namespace_newest"),
                    models.Index(
                        condition=models.Q(("state__in", ("pending", "running"))),
                        fields=["next_step_ms"],
                        name="task_due",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("state__in", ["pending", "running", "done", "failed", "cancelled"])
                        ),
                        name="task_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("rate__gte", 1)), name="task_rate_positive"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="TaskFailure",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("message_id", models.CharField(max_length=255)),
                ("queue_offset", models.BigIntegerField(blank=True, null=True)),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            ("gone", "gone"),
                            ("not_found", "not_found"),
                            ("no_topic", "no_topic"),
                            ("damaged", "damaged"),
                        ],
                        max_length=16,
                    ),
                ),
                (
                    "task",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="failures",
                        to="tasks.task",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["task", "id"], name="task_failure_order")],
            },
        ),
    ]
