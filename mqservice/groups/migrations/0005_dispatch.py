"""Exclusive dispatch and order of consumer groups."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("groups", "0004_retry_and_pause")]
    operations: ClassVar = [
        migrations.AddField(
            model_name="consumergroup",
            name="dispatch",
            field=models.CharField(default="shared", max_length=16),
        ),
        migrations.AddField(
            model_name="consumergroup",
            name="strategy",
            field=models.CharField(default="AVG", max_length=32),
        ),
        migrations.AddField(
            model_name="consumergroup",
            name="is_ordered",
            field=models.BooleanField(default=False),
        ),
        migrations.AddConstraint(
            model_name="consumergroup",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("is_ordered", False), ("dispatch", "exclusive"), _connector="OR"
                ),
                name="group_ordered_exclusive",
            ),
        ),
    ]
