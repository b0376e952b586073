-- Web processes hear which group to forget, by tenant, namespace and name.
CREATE FUNCTION mq_notify_group() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed groups_consumergroup%ROWTYPE := COALESCE(NEW, OLD);
BEGIN
    PERFORM pg_notify(
        'mq_invalidate',
        'group ' || namespace.tenant_id || ' ' || namespace.name || ' ' || changed.name
    )
    FROM accounts_namespace AS namespace WHERE namespace.id = changed.namespace_id;
    RETURN NULL;
END $$;
CREATE TRIGGER mq_notify_group AFTER INSERT OR UPDATE OR DELETE ON groups_consumergroup
    FOR EACH ROW EXECUTE FUNCTION mq_notify_group();
