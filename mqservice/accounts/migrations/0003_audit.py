"""The audit, whose rows nobody changes or deletes."""

from __future__ import annotations

from typing import ClassVar

import django.db.models.deletion
from django.db import migrations, models

FORWARD = """
CREATE FUNCTION mq_refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit entries are only ever added';
END $$;
CREATE TRIGGER mq_refuse_audit_change
    BEFORE UPDATE OR DELETE ON accounts_auditentry
    FOR EACH ROW EXECUTE FUNCTION mq_refuse_audit_change();
"""
BACKWARD = """
DROP TRIGGER mq_refuse_audit_change ON accounts_auditentry;
DROP FUNCTION mq_refuse_audit_change();
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("accounts", "0002_notify_changes")]
    operations: ClassVar = [
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField(auto_now_add=True)),
                ("actor", models.CharField(max_length=80)),
                ("action", models.CharField(max_length=40)),
                ("namespace", models.CharField(max_length=64)),
                ("target", models.CharField(max_length=200)),
                ("outcome", models.CharField(max_length=16)),
                ("details", models.JSONField()),
                ("request_id", models.CharField(max_length=80)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="audit_entries",
                        to="accounts.tenant",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["tenant", "at"], name="audit_tenant_at")],
            },
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
