from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models

import mqservice.schedules.models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Schedule",
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
                        default=mqservice.schedules.models.new_schedule_id,
                        max_length=40,
                        unique=True,
                    ),
                ),
                ("name", models.CharField(max_length=64)),
                ("topic", models.CharField(max_length=64)),
                ("cron", models.CharField(max_length=120)),
                ("time_zone", models.CharField(default="UTC", max_length=64)),
                (
                    "catch_up",
                    models.CharField(
                        choices=[("none", "none"), ("latest", "latest")],
                        default="latest",
                        max_length=16,
                    ),
                ),
                ("is_enabled", models.BooleanField(default=True)),
                ("description", models.CharField(blank=True, max_length=200)),
                ("body", models.BinaryField()),
                ("is_json", models.BooleanField(default=False)),
                ("tag", models.TextField(null=True)),
                ("keys", models.JSONField(default=list)),
                ("message_group", models.TextField(null=True)),
                ("properties", models.JSONField(default=dict)),
                ("queue", models.IntegerField(null=True)),
                ("revision", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("created_by", models.CharField(blank=True, max_length=200)),
                ("next_ms", models.BigIntegerField(null=True)),
                ("due_ms", models.BigIntegerField(null=True)),
                ("try_count", models.PositiveIntegerField(default=0)),
                ("last_ms", models.BigIntegerField(null=True)),
                ("last_message_id", models.CharField(blank=True, max_length=40)),
                ("last_error", models.CharField(blank=True, max_length=300)),
                ("missed_ms", models.BigIntegerField(null=True)),
                (
                    "namespace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="schedules",
                        to="accounts.namespace",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("due_ms__isnull", False)),
                        fields=["due_ms"],
                        name="schedule_due",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("namespace", "name"), name="schedule_name_unique"
                    )
                ],
            },
        ),
    ]
