from __future__ import annotations

from pathlib import Path

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="QuotaRow",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "source",
                    models.CharField(
                        choices=[("operator", "operator"), ("tenant", "tenant")], max_length=16
                    ),
                ),
                ("messages_in_per_second", models.BigIntegerField(blank=True, null=True)),
                ("bytes_in_per_second", models.BigIntegerField(blank=True, null=True)),
                ("messages_out_per_second", models.BigIntegerField(blank=True, null=True)),
                ("bytes_out_per_second", models.BigIntegerField(blank=True, null=True)),
                ("topic_count_max", models.BigIntegerField(blank=True, null=True)),
                ("group_count_max", models.BigIntegerField(blank=True, null=True)),
                ("connection_count_max", models.BigIntegerField(blank=True, null=True)),
                ("parked_poll_count_max", models.BigIntegerField(blank=True, null=True)),
                ("storage_bytes_max", models.BigIntegerField(blank=True, null=True)),
                ("inflight_count_max", models.BigIntegerField(blank=True, null=True)),
                ("control_requests_per_second", models.BigIntegerField(blank=True, null=True)),
                ("revision", models.PositiveIntegerField(default=1)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="quota_rows",
                        to="accounts.tenant",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "source"), name="quota_row_once", nulls_distinct=False
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("tenant__isnull", False), ("source", "operator"), _connector="OR"
                        ),
                        name="quota_default_is_operators",
                    ),
                ],
            },
        ),
        migrations.RunSQL(Path(__file__).with_suffix(".sql").read_text()),
    ]
