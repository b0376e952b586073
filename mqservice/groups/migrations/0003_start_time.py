"""Groups may start at a time."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("groups", "0002_notify_changes")]
    operations: ClassVar = [
        migrations.AddField(
            model_name="consumergroup",
            name="start_ms",
            field=models.PositiveBigIntegerField(default=0),
        ),
        migrations.AlterField(
            model_name="consumergroup",
            name="start_from",
            field=models.CharField(
                choices=[
                    ("earliest", "earliest"),
                    ("latest", "latest"),
                    ("timestamp", "timestamp"),
                ],
                default="earliest",
                max_length=16,
            ),
        ),
    ]
