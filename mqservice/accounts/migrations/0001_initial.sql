-- Web processes hear what to forget: a key by its public id, a session that ended, and everything
-- for tenants, namespaces and people. last_used_at is left out, or each busy key would be dropped
-- once a minute.
CREATE FUNCTION mq_notify_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('mq_invalidate', 'key ' || COALESCE(NEW.public_id, OLD.public_id));
    RETURN NULL;
END $$;
CREATE TRIGGER mq_notify_key
    AFTER INSERT OR DELETE OR UPDATE OF
        tenant_id, namespace_id, public_id, secret_mac, previous_mac, previous_until, role,
        scopes, expires_at, revoked_at
    ON accounts_apikey FOR EACH ROW EXECUTE FUNCTION mq_notify_key();

CREATE FUNCTION mq_notify_all() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('mq_invalidate', 'all');
    RETURN NULL;
END $$;
CREATE TRIGGER mq_notify_all AFTER UPDATE OR DELETE ON accounts_namespace
    FOR EACH STATEMENT EXECUTE FUNCTION mq_notify_all();
CREATE TRIGGER mq_notify_all AFTER UPDATE OR DELETE ON accounts_tenant
    FOR EACH STATEMENT EXECUTE FUNCTION mq_notify_all();

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

-- Nobody changes or deletes entries of the audit, except that mq_drop_old_audit deletes those of
-- at least a month ago.
CREATE FUNCTION mq_refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('mq.audit_retention', true) = 'on'
        AND OLD.at < now() - interval '30 days' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'audit entries are only ever added';
END $$;
CREATE TRIGGER mq_refuse_audit_change BEFORE UPDATE OR DELETE ON accounts_auditentry
    FOR EACH ROW EXECUTE FUNCTION mq_refuse_audit_change();
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

-- A node has taken a shard over: a row for operators, and one, without the names of machines, for each
-- tenant that has a namespace in it. Nodes call it; they know no tables of the audit.
CREATE FUNCTION mq_audit_takeover(shard text, node text, previous text, epoch bigint, reason text)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO accounts_auditentry (
        tenant_id, at, actor, address, user_agent, action, namespace, target, outcome, details, before, after, request_id
    )
    SELECT found.tenant_id, now(), found.actor, '', '', 'shard.take_over', '', 'shards/' || $1, 'done',
        found.details, found.before, found.after, ''
    FROM (
        SELECT NULL::bigint AS tenant_id, left('node:' || $2, 200) AS actor,
            jsonb_build_object('epoch', $4, 'reason', $5) AS details,
            CASE $3 WHEN '' THEN NULL ELSE jsonb_build_object('node', $3) END AS before,
            jsonb_build_object('node', $2) AS after
        UNION ALL
        SELECT DISTINCT tenant_id, 'service', jsonb_build_object('epoch', $4), NULL::jsonb, NULL::jsonb
        FROM accounts_namespace WHERE accounts_namespace.shard = $1
    ) AS found
$$;
