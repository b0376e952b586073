"""The audit says by which program somebody did a thing."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("accounts", "0005_sessions_and_retention")]
    operations: ClassVar = [
        migrations.AddField(
            model_name="auditentry",
            name="user_agent",
            field=models.CharField(db_default="", default="", max_length=200),
        ),
    ]
