from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("alerts", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="alertrule",
            name="webhook_format",
            field=models.CharField(
                choices=[
                    ("mqservice", "mqservice"),
                    ("slack", "slack"),
                    ("pagerduty", "pagerduty"),
                ],
                db_default="mqservice",
                default="mqservice",
                max_length=16,
            ),
        ),
        migrations.AddField(
            model_name="alertrule",
            name="routing_key",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
    ]
