"""What strategies of assignment need more than a name."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("groups", "0005_dispatch")]
    operations: ClassVar = [
        migrations.AddField(
            model_name="consumergroup",
            name="assignment",
            field=models.JSONField(default=dict),
        ),
    ]
