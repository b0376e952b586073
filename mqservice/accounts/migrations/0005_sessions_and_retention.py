"""Web processes hear of sessions that end and of people who change; the audit knows one way out.

``mq_drop_old_audit`` is the only thing that removes entries, and only those of a month at least.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations

FORWARD = """
CREATE FUNCTION mq_notify_session() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('mq_invalidate', 'session ' || md5(OLD.session_key));
    RETURN NULL;
END $$;
CREATE TRIGGER mq_notify_session AFTER DELETE ON django_session
    FOR EACH ROW EXECUTE FUNCTION mq_notify_session();

CREATE FUNCTION mq_notify_people() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('mq_invalidate', 'people');
    RETURN NULL;
END $$;
CREATE TRIGGER mq_notify_people AFTER UPDATE OR DELETE ON accounts_member
    FOR EACH STATEMENT EXECUTE FUNCTION mq_notify_people();
CREATE TRIGGER mq_notify_people AFTER UPDATE OF password, is_active OR DELETE ON accounts_user
    FOR EACH STATEMENT EXECUTE FUNCTION mq_notify_people();

CREATE OR REPLACE FUNCTION mq_refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('mq.audit_retention', true) = 'on'
        AND OLD.at < now() - interval '30 days' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'audit entries are only ever added';
END $$;
CREATE TRIGGER mq_refuse_audit_truncate BEFORE TRUNCATE ON accounts_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION mq_refuse_audit_change();
CREATE FUNCTION mq_drop_old_audit(kept interval, at_most integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    dropped bigint;
BEGIN
    PERFORM set_config('mq.audit_retention', 'on', true);
    DELETE FROM accounts_auditentry WHERE id IN (
        SELECT id FROM accounts_auditentry WHERE at < now() - GREATEST(kept, interval '30 days')
        ORDER BY at LIMIT at_most
    );
    GET DIAGNOSTICS dropped = ROW_COUNT;
    PERFORM set_config('mq.audit_retention', 'off', true);
    RETURN dropped;
END $$;
CREATE INDEX audit_at ON accounts_auditentry (at);
"""
BACKWARD = """
DROP INDEX audit_at;
DROP FUNCTION mq_drop_old_audit(interval, integer);
DROP TRIGGER mq_refuse_audit_truncate ON accounts_auditentry;
CREATE OR REPLACE FUNCTION mq_refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit entries are only ever added';
END $$;
DROP TRIGGER mq_notify_people ON accounts_user;
DROP TRIGGER mq_notify_people ON accounts_member;
DROP FUNCTION mq_notify_people();
DROP TRIGGER mq_notify_session ON django_session;
DROP FUNCTION mq_notify_session();
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [
        ("accounts", "0004_keys_roles_invitations"),
        ("sessions", "0001_initial"),
    ]
    operations: ClassVar = [migrations.RunSQL(FORWARD, BACKWARD)]
