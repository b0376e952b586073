from __future__ import annotations

from django.db import migrations, models

import mqservice.topics.settings


class Migration(migrations.Migration):
    dependencies = [
        ("topics", "0003_letter_sources"),
    ]

    operations = [
        migrations.AlterField(
            model_name="topic",
            name="durability",
            field=models.CharField(
                choices=[("sync", "sync"), ("async", "async"), ("replicated", "replicated")],
                default=mqservice.topics.settings.default_durability,
                max_length=16,
            ),
        ),
    ]
