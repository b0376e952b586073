"""Limits of what a tenant holds, bytes stored and messages in flight, and of control requests."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0002_notify_changes"),
    ]

    operations = [
        migrations.AddField(
            model_name="quotarow",
            name="storage_bytes_max",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="quotarow",
            name="inflight_count_max",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="quotarow",
            name="control_requests_per_second",
            field=models.BigIntegerField(blank=True, null=True),
        ),
    ]
