"""Alert rules, their events, and who is told of them."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models

import mqservice.alerts.models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0003_audit"),
    ]

    operations = [
        migrations.CreateModel(
            name="AlertRule",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=64)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("lag", "lag"),
                            ("oldest_age", "oldest_age"),
                            ("dlq_growth", "dlq_growth"),
                            ("disk", "disk"),
                            ("no_consumer", "no_consumer"),
                        ],
                        max_length=16,
                    ),
                ),
                ("group_name", models.CharField(blank=True, max_length=64)),
                ("topic", models.CharField(blank=True, max_length=64)),
                ("threshold", models.BigIntegerField()),
                ("for_ms", models.BigIntegerField(default=0)),
                ("window_ms", models.BigIntegerField(default=300000)),
                ("is_enabled", models.BooleanField(default=True)),
                ("emails", models.JSONField(default=list)),
                ("webhook_url", models.CharField(blank=True, max_length=2048)),
                (
                    "webhook_secret",
                    models.CharField(
                        default=mqservice.alerts.models.new_webhook_secret, max_length=64
                    ),
                ),
                ("revision", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "state",
                    models.CharField(
                        choices=[("ok", "ok"), ("firing", "firing")], default="ok", max_length=16
                    ),
                ),
                ("changed_ms", models.BigIntegerField(default=0)),
                ("breached_since_ms", models.BigIntegerField(default=0)),
                ("evaluated_ms", models.BigIntegerField(default=0)),
                ("value", models.BigIntegerField(null=True)),
                ("change_count", models.PositiveIntegerField(default=0)),
                (
                    "namespace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="alert_rules",
                        to="accounts.namespace",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="AlertEvent",
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
                        default=mqservice.alerts.models.new_event_id, max_length=40, unique=True
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("state", models.CharField(max_length=16)),
                ("at_ms", models.BigIntegerField()),
                ("value", models.BigIntegerField(null=True)),
                ("threshold", models.BigIntegerField()),
                (
                    "rule",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="events",
                        to="alerts.alertrule",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Notification",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("channel", models.CharField(max_length=16)),
                ("target", models.CharField(max_length=2048)),
                ("state", models.CharField(default="pending", max_length=16)),
                ("attempt_count", models.PositiveSmallIntegerField(default=0)),
                ("due_ms", models.BigIntegerField()),
                ("error", models.CharField(blank=True, max_length=300)),
                (
                    "event",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notifications",
                        to="alerts.alertevent",
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="alertrule",
            index=models.Index(fields=["evaluated_ms"], name="alert_rule_waits"),
        ),
        migrations.AddConstraint(
            model_name="alertrule",
            constraint=models.UniqueConstraint(
                fields=("namespace", "name"), name="alert_rule_name_unique"
            ),
        ),
        migrations.AddIndex(
            model_name="alertevent",
            index=models.Index(fields=["at_ms"], name="alert_event_at"),
        ),
        migrations.AddConstraint(
            model_name="alertevent",
            constraint=models.UniqueConstraint(fields=("rule", "number"), name="alert_event_once"),
        ),
        migrations.AddIndex(
            model_name="notification",
            index=models.Index(
                condition=models.Q(("state", "pending")), fields=["due_ms"], name="notification_due"
            ),
        ),
        migrations.AddConstraint(
            model_name="notification",
            constraint=models.UniqueConstraint(
                fields=("event", "channel", "target"), name="notification_once"
            ),
        ),
    ]
