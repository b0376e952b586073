-- Web processes hear whose limits to read again; "-" stands for everybody's.
CREATE FUNCTION mq_notify_quota() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed quotas_quotarow%ROWTYPE := COALESCE(NEW, OLD);
BEGIN
    PERFORM pg_notify('mq_invalidate', 'quota ' || COALESCE(changed.tenant_id::text, '-'));
    RETURN NULL;
END $$;
CREATE TRIGGER mq_notify_quota AFTER INSERT OR UPDATE OR DELETE ON quotas_quotarow
    FOR EACH ROW EXECUTE FUNCTION mq_notify_quota();
