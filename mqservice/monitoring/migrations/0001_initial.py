from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="EngineSample",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("sampled_at", models.DateTimeField(db_index=True)),
                ("is_up", models.BooleanField()),
                ("epoch", models.BigIntegerField(null=True)),
                ("uptime_ms", models.BigIntegerField(null=True)),
                ("put_count", models.BigIntegerField(null=True)),
                ("put_bytes", models.BigIntegerField(null=True)),
                ("delivered_count", models.BigIntegerField(null=True)),
                ("acked_count", models.BigIntegerField(null=True)),
                ("append_offset", models.BigIntegerField(null=True)),
                ("flushed_offset", models.BigIntegerField(null=True)),
                ("parked_count", models.IntegerField(null=True)),
                ("connection_count", models.IntegerField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Heartbeat",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("process", models.CharField(max_length=32, unique=True)),
                ("host", models.CharField(max_length=128)),
                ("pid", models.PositiveIntegerField()),
                ("beaten_at", models.DateTimeField()),
            ],
        ),
    ]
