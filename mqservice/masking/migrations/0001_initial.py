"""Masking rules and the switch of a namespace; whoever holds a session's socket is found anew."""

from __future__ import annotations

from typing import ClassVar

import django.db.models.deletion
from django.db import migrations, models

_FORWARD = """
CREATE TRIGGER mq_notify_people AFTER INSERT OR UPDATE OR DELETE ON masking_maskrule
    FOR EACH STATEMENT EXECUTE FUNCTION mq_notify_people();
CREATE TRIGGER mq_notify_people AFTER INSERT OR UPDATE OR DELETE ON masking_maskpolicy
    FOR EACH STATEMENT EXECUTE FUNCTION mq_notify_people();
"""
_BACKWARD = """
DROP TRIGGER mq_notify_people ON masking_maskrule;
DROP TRIGGER mq_notify_people ON masking_maskpolicy;
"""


def _choices(*values: str) -> list[tuple[str, str]]:
    return [(value, value) for value in values]


class Migration(migrations.Migration):
    initial = True

    dependencies: ClassVar = [("accounts", "0006_audit_user_agent")]

    operations: ClassVar = [
        migrations.CreateModel(
            name="MaskPolicy",
            fields=[
                (
                    "namespace",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="mask_policy",
                        serialize=False,
                        to="accounts.namespace",
                    ),
                ),
                (
                    "bodies_for",
                    models.CharField(
                        choices=_choices("developer", "admin", "owner"),
                        default="developer",
                        max_length=16,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="MaskRule",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=64)),
                ("topics", models.CharField(max_length=65)),
                (
                    "part",
                    models.CharField(choices=_choices("body", "field", "property"), max_length=16),
                ),
                ("path", models.CharField(blank=True, default="", max_length=256)),
                (
                    "clear_for",
                    models.CharField(
                        choices=_choices("admin", "owner"), default="admin", max_length=16
                    ),
                ),
                ("revision", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "namespace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="mask_rules",
                        to="accounts.namespace",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("namespace", "name"), name="mask_rule_unique")
                ],
            },
        ),
        migrations.RunSQL(_FORWARD, _BACKWARD),
    ]
