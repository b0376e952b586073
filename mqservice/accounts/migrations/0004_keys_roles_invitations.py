"""Roles and second secrets of keys, invitations, and what changed in the audit.

The trigger that tells of changed keys stands aside while the type of its columns changes.
"""

from __future__ import annotations

from typing import ClassVar

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

DROP_TRIGGER = "DROP TRIGGER mq_notify_key ON accounts_apikey"
OLD_TRIGGER = """
CREATE TRIGGER mq_notify_key
    AFTER INSERT OR DELETE OR UPDATE OF
        tenant_id, namespace_id, public_id, secret_mac, scopes, expires_at, revoked_at
    ON accounts_apikey FOR EACH ROW EXECUTE FUNCTION mq_notify_key();
"""
NEW_TRIGGER = """
CREATE TRIGGER mq_notify_key
    AFTER INSERT OR DELETE OR UPDATE OF
        tenant_id, namespace_id, public_id, secret_mac, previous_mac, previous_until, role,
        scopes, expires_at, revoked_at
    ON accounts_apikey FOR EACH ROW EXECUTE FUNCTION mq_notify_key();
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [
        ("accounts", "0003_audit"),
    ]

    operations: ClassVar = [
        migrations.RunSQL(DROP_TRIGGER, OLD_TRIGGER),
        migrations.CreateModel(
            name="Invitation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("public_id", models.CharField(max_length=32, unique=True)),
                ("email", models.EmailField(max_length=254)),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("owner", "owner"),
                            ("admin", "admin"),
                            ("developer", "developer"),
                            ("viewer", "viewer"),
                        ],
                        max_length=16,
                    ),
                ),
                ("token_mac", models.BinaryField(max_length=32)),
                ("attempt_count", models.PositiveSmallIntegerField(default=0)),
                ("inviter", models.CharField(max_length=200)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField()),
                ("accepted_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.AddField(
            model_name="apikey",
            name="creator",
            field=models.CharField(blank=True, default="", max_length=200),
        ),
        migrations.AddField(
            model_name="apikey",
            name="previous_last4",
            field=models.CharField(blank=True, default="", max_length=4),
        ),
        migrations.AddField(
            model_name="apikey",
            name="previous_mac",
            field=models.BinaryField(blank=True, max_length=32, null=True),
        ),
        migrations.AddField(
            model_name="apikey",
            name="previous_until",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="apikey",
            name="revision",
            field=models.PositiveIntegerField(default=1),
        ),
        migrations.AddField(
            model_name="apikey",
            name="role",
            field=models.CharField(
                choices=[
                    ("owner", "owner"),
                    ("admin", "admin"),
                    ("developer", "developer"),
                    ("viewer", "viewer"),
                ],
                default="developer",
                max_length=16,
            ),
        ),
        migrations.AddField(
            model_name="auditentry",
            name="address",
            field=models.CharField(default="", max_length=45),
        ),
        migrations.AddField(
            model_name="auditentry",
            name="after",
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name="auditentry",
            name="before",
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name="member",
            name="revision",
            field=models.PositiveIntegerField(default=1),
        ),
        migrations.AlterField(
            model_name="apikey",
            name="scopes",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=96), size=32
            ),
        ),
        migrations.AlterField(
            model_name="auditentry",
            name="actor",
            field=models.CharField(max_length=200),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["tenant", "id"], name="audit_tenant_id"),
        ),
        migrations.AddConstraint(
            model_name="apikey",
            constraint=models.CheckConstraint(
                condition=models.Q(("role__in", ["owner", "admin", "developer", "viewer"])),
                name="apikey_role_known",
            ),
        ),
        migrations.AddField(
            model_name="invitation",
            name="tenant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="invitations",
                to="accounts.tenant",
            ),
        ),
        migrations.AddIndex(
            model_name="invitation",
            index=models.Index(fields=["tenant", "public_id"], name="invitation_tenant_id"),
        ),
        migrations.AddConstraint(
            model_name="invitation",
            constraint=models.CheckConstraint(
                condition=models.Q(("role__in", ["owner", "admin", "developer", "viewer"])),
                name="invitation_role_known",
            ),
        ),
        migrations.RunSQL(NEW_TRIGGER, DROP_TRIGGER),
    ]
