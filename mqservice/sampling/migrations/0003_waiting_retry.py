"""Group samples say how much of the lag waits for a retry."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sampling", "0002_progress_marks")]

    operations = [
        migrations.AddField(
            model_name="groupsample",
            name="waiting_retry_last",
            field=models.BigIntegerField(null=True),
        ),
    ]
