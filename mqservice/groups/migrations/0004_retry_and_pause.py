"""Retry policy and pause of consumer groups; retries for ever."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models

import mqservice.groups.settings


class Migration(migrations.Migration):
    dependencies: ClassVar = [("groups", "0003_start_time")]
    operations: ClassVar = [
        migrations.AlterField(
            model_name="consumergroup",
            name="max_reconsume_times",
            field=models.SmallIntegerField(default=16),
        ),
        migrations.AddField(
            model_name="consumergroup",
            name="retry",
            field=models.JSONField(default=mqservice.groups.settings.stored_levels),
        ),
        migrations.AddField(
            model_name="consumergroup",
            name="is_paused",
            field=models.BooleanField(default=False),
        ),
        migrations.AddConstraint(
            model_name="consumergroup",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("max_reconsume_times__gte", -1), ("max_reconsume_times__lte", 1000)
                ),
                name="group_reconsume_range",
            ),
        ),
    ]
