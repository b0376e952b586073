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
            name="UsageHour",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("hour_ms", models.BigIntegerField()),
                ("namespace", models.CharField(blank=True, max_length=64)),
                ("topic", models.CharField(blank=True, max_length=64)),
                ("messages_in", models.BigIntegerField(default=0)),
                ("bytes_in", models.BigIntegerField(default=0)),
                ("messages_out", models.BigIntegerField(default=0)),
                ("bytes_out", models.BigIntegerField(default=0)),
                ("api_calls", models.BigIntegerField(default=0)),
                ("storage_bytes_max", models.BigIntegerField(null=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.tenant",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["hour_ms"], name="usage_hour_at")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "hour_ms", "namespace", "topic"), name="usage_hour_once"
                    )
                ],
            },
        ),
    ]
