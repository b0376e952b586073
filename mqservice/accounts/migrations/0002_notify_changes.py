"""Tell web processes what to forget: a key by its public id; everything for tenants and namespaces.

``last_used_at`` is left out, or each busy key would be dropped once a minute.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations

FORWARD = """
CREATE FUNCTION mq_notify_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('mq_invalidate', 'key ' || COALESCE(NEW.public_id, OLD.public_id));
    RETURN NULL;
END $$;
CREATE TRIGGER mq_notify_key
    AFTER INSERT OR DELETE OR UPDATE OF
        tenant_id, namespace_id, public_id, secret_mac, scopes, expires_at, revoked_at
    ON accounts_apikey FOR EACH ROW EXECUTE FUNCTION mq_notify_key();

CREATE FUNCTION mq_notify_all() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('mq_invalidate', 'all');
    RETURN NULL;
END $$;
CREATE TRIGGER mq_notify_all
    AFTER UPDATE OR DELETE ON accounts_namespace
    FOR EACH STATEMENT EXECUTE FUNCTION mq_notify_all();
CREATE TRIGGER mq_notify_all
    AFTER UPDATE OR DELETE ON accounts_tenant
    FOR EACH STATEMENT EXECUTE FUNCTION mq_notify_all();
"""
BACKWARD = """
DROP TRIGGER mq_notify_all ON accounts_tenant;
DROP TRIGGER mq_notify_all ON accounts_namespace;
DROP FUNCTION mq_notify_all();
DROP TRIGGER mq_notify_key ON accounts_apikey;
DROP FUNCTION mq_notify_key();
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("accounts", "0001_initial")]
    operations: ClassVar = [migrations.RunSQL(FORWARD, BACKWARD)]
