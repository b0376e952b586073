"""Group samples say in how many of them the lag was estimated."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sampling", "0003_waiting_retry")]

    operations = [
        migrations.AddField(
            model_name="groupsample",
            name="estimated_count",
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
    ]
