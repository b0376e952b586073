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
                        choices=[
                            ("developer", "developer"),
                            ("admin", "admin"),
                            ("owner", "owner"),
                        ],
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
                    models.CharField(
                        choices=[("body", "body"), ("field", "field"), ("property", "property")],
                        max_length=16,
                    ),
                ),
                ("path", models.CharField(blank=True, default="", max_length=256)),
                (
                    "clear_for",
                    models.CharField(
                        choices=[("admin", "admin"), ("owner", "owner")],
                        default="admin",
                        max_length=16,
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
        migrations.RunSQL(Path(__file__).with_suffix(".sql").read_text()),
    ]
