from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models

import mqservice.alerts.models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_initial"),
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
                            ("issue", "issue"),
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
                (
                    "webhook_format",
                    models.CharField(
                        choices=[
                            ("mqservice", "mqservice"),
                            ("slack", "slack"),
                            ("pagerduty", "pagerduty"),
                        ],
                        db_default="mqservice",
                        default="mqservice",
                        max_length=16,
                    ),
                ),
                (
                    "routing_key",
                    models.CharField(blank=True, db_default="", default="", max_length=64),
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
                ("told_state", models.CharField(default="ok", max_length=16)),
                ("told_opening", models.BigIntegerField(default=0)),
                ("muted_until_ms", models.BigIntegerField(default=0)),
                ("muted_by", models.CharField(blank=True, max_length=200)),
                ("mute_reason", models.CharField(blank=True, max_length=200)),
                (
                    "namespace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="alert_rules",
                        to="accounts.namespace",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["evaluated_ms"], name="alert_rule_waits")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("namespace", "name"), name="alert_rule_name_unique"
                    )
                ],
            },
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
                ("issue_count", models.PositiveIntegerField(default=0)),
                ("issues", models.JSONField(default=list)),
                (
                    "rule",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="events",
                        to="alerts.alertrule",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["at_ms"], name="alert_event_at")],
                "constraints": [
                    models.UniqueConstraint(fields=("rule", "number"), name="alert_event_once")
                ],
            },
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
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "pending")),
                        fields=["due_ms"],
                        name="notification_due",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("event", "channel", "target"), name="notification_once"
                    )
                ],
            },
        ),
    ]
