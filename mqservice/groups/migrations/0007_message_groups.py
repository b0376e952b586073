"""Order by message group: ordered groups may share their queues."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("groups", "0006_assignment_policy")]
    operations: ClassVar = [
        migrations.RemoveConstraint(
            model_name="consumergroup",
            name="group_ordered_exclusive",
        ),
        migrations.AddField(
            model_name="consumergroup",
            name="batch_per_group",
            field=models.PositiveSmallIntegerField(default=1),
        ),
    ]
