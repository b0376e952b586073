from __future__ import annotations

from pathlib import Path

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_namespace_shard"),
    ]

    operations = [
        migrations.AlterField(
            model_name="auditentry",
            name="tenant",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="audit_entries",
                to="accounts.tenant",
            ),
        ),
        migrations.RunSQL(Path(__file__).with_suffix(".sql").read_text()),
    ]
