from __future__ import annotations

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

import mqservice.reports.models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="ReportRecipients",
            fields=[
                (
                    "namespace",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="accounts.namespace",
                    ),
                ),
                (
                    "emails",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=254), size=10
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ReportMail",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("date", models.DateField()),
                ("address", models.CharField(max_length=254)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "pending"),
                            ("sending", "sending"),
                            ("sent", "sent"),
                            ("failed", "failed"),
                            ("unknown", "unknown"),
                        ],
                        default="pending",
                        max_length=16,
                    ),
                ),
                ("attempt_count", models.PositiveSmallIntegerField(default=0)),
                ("due_ms", models.BigIntegerField()),
                ("error", models.CharField(blank=True, max_length=500)),
                (
                    "namespace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.namespace",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["pending", "sending"])),
                        fields=["due_ms"],
                        name="report_mail_due",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("namespace", "date", "address"), name="report_mail_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ReportPart",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("report", models.CharField(max_length=64)),
                ("date", models.DateField()),
                ("zone", models.CharField(max_length=64)),
                ("rows", models.JSONField()),
                ("rows_left_out", models.BigIntegerField(default=0)),
                ("is_complete", models.BooleanField()),
                ("made_ms", models.BigIntegerField()),
                (
                    "namespace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.namespace",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["date"], name="report_part_date")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("namespace", "report", "date"), name="report_part_unique"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ReportRun",
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
                        default=mqservice.reports.models.new_run_id, max_length=40, unique=True
                    ),
                ),
                (
                    "trigger",
                    models.CharField(
                        choices=[("nightly", "nightly"), ("by_hand", "by_hand")], max_length=16
                    ),
                ),
                ("created_by", models.CharField(max_length=80)),
                ("from_date", models.DateField()),
                ("to_date", models.DateField()),
                ("zone", models.CharField(max_length=64)),
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
                        ],
                        default="pending",
                        max_length=16,
                    ),
                ),
                ("step", models.CharField(blank=True, max_length=64)),
                ("done_count", models.PositiveIntegerField(default=0)),
                ("total_count", models.PositiveIntegerField(default=0)),
                ("row_count", models.BigIntegerField(default=0)),
                ("is_complete", models.BooleanField(default=False)),
                ("error_code", models.CharField(blank=True, max_length=32)),
                ("error", models.CharField(blank=True, max_length=500)),
                ("attempt_count", models.PositiveIntegerField(default=0)),
                ("next_try_ms", models.BigIntegerField()),
                ("claim", models.PositiveIntegerField(default=0)),
                ("claimed_until_ms", models.BigIntegerField(default=0)),
                ("queued_until_ms", models.BigIntegerField(default=0)),
                (
                    "namespace",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="report_runs",
                        to="accounts.namespace",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ("pending", "running"))),
                        fields=["next_try_ms"],
                        name="report_run_due",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "running")),
                        fields=("state",),
                        name="report_run_one_slot",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("trigger", "nightly")),
                        fields=("from_date",),
                        name="report_run_night_unique",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("to_date__gt", models.F("from_date"))),
                        name="report_run_has_days",
                    ),
                ],
            },
        ),
    ]
