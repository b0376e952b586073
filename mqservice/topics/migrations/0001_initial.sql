-- Web processes hear which topic to forget, by tenant, namespace and name.
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
CREATE TRIGGER mq_notify_topic AFTER INSERT OR UPDATE OR DELETE ON topics_topic
    FOR EACH ROW EXECUTE FUNCTION mq_notify_topic();
