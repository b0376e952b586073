-- A node has taken a shard over: a row for operators, and one for each tenant that has a namespace in it,
-- which is not told the names of machines. Nodes call it; they know no tables of the audit.
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
