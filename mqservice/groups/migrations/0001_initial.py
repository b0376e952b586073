from __future__ import annotations

from pathlib import Path

import django.db.models.deletion
from django.db import migrations, models

import mqservice.groups.settings


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="ConsumerGroup",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=64)),
                (
                    "start_from",
                    models.CharField(
                        choices=[
                            ("earliest", "earliest"),
                            ("latest", "latest"),
                            ("timestamp", "timestamp"),
                        ],
                        default="earliest",
                        max_length=16,
                    ),
                ),
                ("start_ms", models.PositiveBigIntegerField(default=0)),
                ("lease_ms", models.PositiveIntegerField(default=60000)),
                ("consume_timeout_ms", models.PositiveIntegerField(default=10800000)),
                ("max_reconsume_times", models.SmallIntegerField(default=16)),
                ("retry", models.JSONField(default=mqservice.groups.settings.stored_levels)),
                ("is_paused", models.BooleanField(default=False)),
                ("dispatch", models.CharField(default="shared", max_length=16)),
                ("strategy", models.CharField(default="AVG", max_length=32)),
                ("assignment", models.JSONField(default=dict)),
                ("is_ordered", models.BooleanField(default=False)),
                ("batch_per_group", models.PositiveSmallIntegerField(default=1)),
                ("revision", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "namespace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="groups",
                        to="accounts.namespace",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("namespace", "name"), name="group_name_unique"),
                    models.CheckConstraint(
                        condition=models.Q(("lease_ms__gte", 1000), ("lease_ms__lte", 43200000)),
                        name="group_lease_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("consume_timeout_ms__gte", 10000),
                            ("consume_timeout_ms__lte", 43200000),
                        ),
                        name="group_consume_timeout_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("max_reconsume_times__gte", -1), ("max_reconsume_times__lte", 1000)
                        ),
                        name="group_reconsume_range",
                    ),
                ],
            },
        ),
        migrations.RunSQL(Path(__file__).with_suffix(".sql").read_text()),
    ]
