"""Consumer groups."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


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
                        choices=[("earliest", "earliest"), ("latest", "latest")],
                        default="earliest",
                        max_length=16,
                    ),
                ),
                ("lease_ms", models.PositiveIntegerField(default=60000)),
                ("max_reconsume_times", models.PositiveSmallIntegerField(default=16)),
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
                ],
            },
        ),
    ]
