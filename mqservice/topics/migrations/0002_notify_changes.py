"""Tell web processes which topic to forget, by tenant, namespace and name."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations

FORWARD = """
CREATE FUNCTION mq_notify_topic() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed topics_topic%ROWTYPE := COALESCE(NEW, OLD);
BEGIN
    PERFORM pg_notify(
        'mq_invalidate',
        'topic ' || namespace.tenant_id || ' ' || namespace.name || ' ' || changed.name
    )
    FROM accounts_namespace AS namespace WHERE namespace.id = changed.namespace_id;
    RETURN NULL;
END $$;
CREATE TRIGGER mq_notify_topic
    AFTER INSERT OR UPDATE OR DELETE ON topics_topic
    FOR EACH ROW EXECUTE FUNCTION mq_notify_topic();
"""
BACKWARD = """
DROP TRIGGER mq_notify_topic ON topics_topic;
DROP FUNCTION mq_notify_topic();
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("topics", "0001_initial"), ("accounts", "0002_notify_changes")]
    operations: ClassVar = [migrations.RunSQL(FORWARD, BACKWARD)]
