"""A namespace can be read-only for a time."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("accounts", "0006_audit_user_agent")]
    operations: ClassVar = [
        migrations.AddField(
            model_name="namespace",
            name="read_only_since",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="namespace",
            name="read_only_by",
            field=models.CharField(blank=True, db_default="", default="", max_length=200),
        ),
        migrations.AddField(
            model_name="namespace",
            name="read_only_reason",
            field=models.CharField(blank=True, db_default="", default="", max_length=200),
        ),
    ]
