from __future__ import annotations

from pathlib import Path

import django.db.models.deletion
from django.db import migrations, models

import mqservice.topics.settings


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Topic",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=64)),
                (
                    "message_type",
                    models.CharField(
                        choices=[
                            ("mixed", "mixed"),
                            ("normal", "normal"),
                            ("fifo", "fifo"),
                            ("delay", "delay"),
                            ("transaction", "transaction"),
                        ],
                        default="mixed",
                        max_length=16,
                    ),
                ),
                ("queue_count", models.PositiveSmallIntegerField(default=4)),
                (
                    "durability",
                    models.CharField(
                        choices=[
                            ("sync", "sync"),
                            ("async", "async"),
                            ("replicated", "replicated"),
                        ],
                        default=mqservice.topics.settings.default_durability,
                        max_length=16,
                    ),
                ),
                ("retention_age_ms", models.BigIntegerField(default=259200000)),
                ("body_bytes_max", models.PositiveIntegerField(default=4194304)),
                ("sqs", models.JSONField(default=dict)),
                ("letter_sources", models.JSONField(default=list)),
                ("revision", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "namespace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="topics",
                        to="accounts.namespace",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("namespace", "name"), name="topic_name_unique"),
                    models.CheckConstraint(
                        condition=models.Q(("queue_count__gte", 1), ("queue_count__lte", 256)),
                        name="topic_queue_count_range",
                    ),
                ],
            },
        ),
        migrations.RunSQL(Path(__file__).with_suffix(".sql").read_text()),
    ]
