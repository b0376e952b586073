-- Whoever holds the socket of a session is looked up again.
CREATE TRIGGER mq_notify_people AFTER INSERT OR UPDATE OR DELETE ON masking_maskrule
    FOR EACH STATEMENT EXECUTE FUNCTION mq_notify_people();
CREATE TRIGGER mq_notify_people AFTER INSERT OR UPDATE OR DELETE ON masking_maskpolicy
    FOR EACH STATEMENT EXECUTE FUNCTION mq_notify_people();
