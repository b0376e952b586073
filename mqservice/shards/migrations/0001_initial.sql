-- Web processes hear that a shard answers elsewhere; nodes, that somebody else owns it, or shall.
CREATE FUNCTION mq_notify_shard_address() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('mq_invalidate', 'shard ' || COALESCE(NEW.name, OLD.name));
    RETURN NULL;
END $$;
CREATE TRIGGER mq_notify_shard_added AFTER INSERT OR DELETE ON shards_shard
    FOR EACH ROW EXECUTE FUNCTION mq_notify_shard_address();
CREATE TRIGGER mq_notify_shard_address AFTER UPDATE ON shards_shard
    FOR EACH ROW WHEN (OLD.address IS DISTINCT FROM NEW.address)
    EXECUTE FUNCTION mq_notify_shard_address();

CREATE FUNCTION mq_notify_shard_owner() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('mq_shards', NEW.name);
    RETURN NULL;
END $$;
CREATE TRIGGER mq_notify_shard_owner AFTER UPDATE ON shards_shard
    FOR EACH ROW WHEN (
        OLD.owner IS DISTINCT FROM NEW.owner OR OLD.move_to IS DISTINCT FROM NEW.move_to
    )
    EXECUTE FUNCTION mq_notify_shard_owner();
