from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("topics", "0002_sqs"),
    ]

    operations = [
        migrations.AlterField(
            model_name="topic",
            name="sqs",
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name="topic",
            name="letter_sources",
            field=models.JSONField(default=list),
        ),
        migrations.RunSQL(
            "UPDATE topics_topic SET letter_sources = sqs -> 'sources', sqs = sqs - 'sources'"
            " WHERE sqs ? 'sources'",
            migrations.RunSQL.noop,
        ),
    ]
