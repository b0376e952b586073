"""An answer belongs to who asked. Those of before, which anybody of the tenant could get, go."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models


def forget_answers(apps: Any, schema_editor: Any) -> None:  # Any: Django's own signature
    apps.get_model("idempotency", "AnsweredRequest").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [
        ("idempotency", "0001_initial"),
    ]

    operations = [
        migrations.RunPython(forget_answers, migrations.RunPython.noop, elidable=True),
        migrations.RemoveConstraint(model_name="answeredrequest", name="answered_request_once"),
        migrations.AddField(
            model_name="answeredrequest",
            name="actor",
            field=models.CharField(default="", max_length=200),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="answeredrequest",
            name="rights",
            field=models.BinaryField(default=b"", max_length=32),
            preserve_default=False,
        ),
        migrations.AddConstraint(
            model_name="answeredrequest",
            constraint=models.UniqueConstraint(
                fields=("tenant", "actor", "key"), name="answered_request_once"
            ),
        ),
    ]
