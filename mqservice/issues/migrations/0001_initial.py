from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models

import mqservice.issues.models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="IssueBook",
            fields=[
                (
                    "namespace",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="issue_book",
                        serialize=False,
                        to="accounts.namespace",
                    ),
                ),
                ("opening_count", models.BigIntegerField(default=0)),
                ("other_count", models.BigIntegerField(default=0)),
                ("other_ms", models.BigIntegerField(default=0)),
                ("unseen_count", models.BigIntegerField(default=0)),
                ("unseen_ms", models.BigIntegerField(default=0)),
                ("quiet_ms", models.BigIntegerField(default=604800000)),
            ],
        ),
        migrations.CreateModel(
            name="Issue",
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
                        default=mqservice.issues.models.new_issue_id, max_length=40, unique=True
                    ),
                ),
                ("kind", models.CharField(choices=[("dead_letter", "dead_letter")], max_length=16)),
                ("group_name", models.CharField(max_length=64)),
                ("topic", models.CharField(blank=True, max_length=64)),
                ("reason", models.CharField(blank=True, max_length=200)),
                ("sample", models.CharField(blank=True, max_length=1000)),
                ("count", models.BigIntegerField(default=0)),
                ("first_ms", models.BigIntegerField()),
                ("last_ms", models.BigIntegerField()),
                ("hours", models.JSONField(default=dict)),
                ("examples", models.JSONField(default=list)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("open", "open"),
                            ("acknowledged", "acknowledged"),
                            ("resolved", "resolved"),
                            ("ignored", "ignored"),
                        ],
                        default="open",
                        max_length=16,
                    ),
                ),
                ("changed_ms", models.BigIntegerField()),
                ("changed_by", models.CharField(blank=True, max_length=200)),
                ("opening_number", models.BigIntegerField()),
                ("reopen_count", models.PositiveIntegerField(default=0)),
                ("event_count", models.PositiveIntegerField(default=0)),
                (
                    "namespace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="issues",
                        to="accounts.namespace",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["namespace", "-last_ms", "-id"], name="issue_last_seen"),
                    models.Index(fields=["namespace", "state"], name="issue_state"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("namespace", "kind", "group_name", "topic", "reason"),
                        name="issue_cause",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="IssueEvent",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("state", models.CharField(max_length=16)),
                ("why", models.CharField(max_length=16)),
                ("at_ms", models.BigIntegerField()),
                ("actor", models.CharField(blank=True, max_length=200)),
                (
                    "issue",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="events",
                        to="issues.issue",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("issue", "number"), name="issue_event_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="ScanPlace",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("group_name", models.CharField(max_length=64)),
                ("next_offset", models.BigIntegerField(default=-1)),
                ("scanned_ms", models.BigIntegerField(default=0)),
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
                "constraints": [
                    models.UniqueConstraint(
                        fields=("namespace", "group_name"), name="scan_place_unique"
                    )
                ],
            },
        ),
    ]
