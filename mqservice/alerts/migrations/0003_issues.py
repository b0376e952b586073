"""Rules for issues, and events that tell of some."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("alerts", "0002_mutes"),
    ]

    operations = [
        migrations.AlterField(
            model_name="alertrule",
            name="kind",
            field=models.CharField(
                choices=[
                    ("lag", "lag"),
                    ("oldest_age", "oldest_age"),
                    ("dlq_growth", "dlq_growth"),
                    ("disk", "disk"),
                    ("no_consumer", "no_consumer"),
                    ("issue", "issue"),
                ],
                max_length=16,
            ),
        ),
        migrations.AddField(
            model_name="alertrule",
            name="told_opening",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="alertevent",
            name="issue_count",
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="alertevent",
            name="issues",
            field=models.JSONField(default=list),
        ),
    ]
