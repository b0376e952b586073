from __future__ import annotations

from pathlib import Path

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="MarkRound",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("broker", models.CharField(max_length=64, unique=True)),
                ("at_ms", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="OffsetFeedPlace",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("broker", models.CharField(max_length=64, unique=True)),
                ("epoch", models.BigIntegerField(default=0)),
                ("since", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="StoreSample",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("resolution_ms", models.PositiveIntegerField()),
                ("at_ms", models.BigIntegerField()),
                ("sample_count", models.PositiveIntegerField(default=1)),
                ("broker", models.CharField(max_length=64)),
                ("disk_total_last", models.BigIntegerField(null=True)),
                ("disk_free_last", models.BigIntegerField(null=True)),
                ("disk_free_min", models.BigIntegerField(null=True)),
                ("disk_state_max", models.PositiveSmallIntegerField(null=True)),
                ("lost_last", models.BigIntegerField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["resolution_ms", "at_ms"], name="store_sample_at")
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("broker", "resolution_ms", "at_ms"), name="store_sample_unique"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ConsumerOffset",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("group_name", models.CharField(max_length=255)),
                ("topic", models.CharField(max_length=64)),
                ("queue_id", models.IntegerField()),
                ("consumer_offset", models.BigIntegerField()),
                ("reset_count", models.BigIntegerField()),
                ("changed_ms", models.BigIntegerField()),
                (
                    "namespace",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.namespace",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("namespace", "group_name", "topic", "queue_id"),
                        name="offset_place_unique",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ConsumerOffsetStep",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("group_name", models.CharField(max_length=255)),
                ("topic", models.CharField(max_length=64)),
                ("queue_id", models.IntegerField()),
                ("at_ms", models.BigIntegerField()),
                ("consumer_offset", models.BigIntegerField()),
                ("reset_count", models.BigIntegerField()),
                (
                    "namespace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.namespace",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["at_ms"], name="offset_step_at")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("namespace", "group_name", "topic", "queue_id", "at_ms"),
                        name="offset_step_unique",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="GroupSample",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("resolution_ms", models.PositiveIntegerField()),
                ("at_ms", models.BigIntegerField()),
                ("sample_count", models.PositiveIntegerField(default=1)),
                ("group_name", models.CharField(max_length=64)),
                ("topic", models.CharField(blank=True, max_length=64)),
                ("known_count", models.PositiveIntegerField()),
                ("estimated_count", models.PositiveIntegerField(db_default=0, default=0)),
                ("lag_sum", models.BigIntegerField(null=True)),
                ("lag_max", models.BigIntegerField(null=True)),
                ("lag_last", models.BigIntegerField(null=True)),
                ("lag_ms_max", models.BigIntegerField(null=True)),
                ("inflight_max", models.BigIntegerField(null=True)),
                ("waiting_retry_last", models.BigIntegerField(null=True)),
                ("settled_last", models.BigIntegerField(null=True)),
                ("member_last", models.IntegerField(null=True)),
                ("dead_last", models.BigIntegerField(null=True)),
                (
                    "namespace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.namespace",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["resolution_ms", "at_ms"], name="group_sample_at")
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("namespace", "group_name", "topic", "resolution_ms", "at_ms"),
                        name="group_sample_unique",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ProgressMark",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("group_name", models.CharField(max_length=255)),
                ("topic", models.CharField(max_length=64)),
                ("after_ms", models.BigIntegerField()),
                ("at_ms", models.BigIntegerField()),
                ("places", models.BinaryField()),
                (
                    "namespace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.namespace",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["at_ms"], name="progress_mark_at")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("namespace", "group_name", "topic", "at_ms"),
                        name="progress_mark_unique",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="TopicSample",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("resolution_ms", models.PositiveIntegerField()),
                ("at_ms", models.BigIntegerField()),
                ("sample_count", models.PositiveIntegerField(default=1)),
                ("topic", models.CharField(max_length=64)),
                ("stored_last", models.BigIntegerField(null=True)),
                ("readable_last", models.BigIntegerField(null=True)),
                (
                    "namespace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.namespace",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["resolution_ms", "at_ms"], name="topic_sample_at")
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("namespace", "topic", "resolution_ms", "at_ms"),
                        name="topic_sample_unique",
                    )
                ],
            },
        ),
        migrations.RunSQL(Path(__file__).with_suffix(".sql").read_text()),
    ]
