from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("topics", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="TopicSchema",
            fields=[
                (
                    "topic",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="schema",
                        serialize=False,
                        to="topics.topic",
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("avro", "avro"), ("protobuf", "protobuf")], max_length=16
                    ),
                ),
                ("message", models.CharField(blank=True, default="", max_length=255)),
                ("definition", models.TextField()),
                ("revision", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
            ],
        ),
    ]
