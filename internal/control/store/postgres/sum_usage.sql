SELECT to_char(to_timestamp(runs.created_at / 1000000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD') COLLATE "C" AS day, agents.user_id,
  coalesce(agents.repos::json -> 0 ->> 'url', '') COLLATE "C" AS repo, agents.model,
  count(*) AS runs, sum(runs.turns)::bigint AS turns,
  sum(coalesce((runs.usage::json ->> 'input')::bigint, 0))::bigint AS input,
  sum(coalesce((runs.usage::json ->> 'output')::bigint, 0))::bigint AS output,
  sum(coalesce((runs.usage::json ->> 'cacheRead')::bigint, 0))::bigint AS cache_read,
  sum(coalesce((runs.usage::json ->> 'cacheWrite')::bigint, 0))::bigint AS cache_write,
  sum(coalesce((runs.usage::json ->> 'cost')::bigint, 0))::bigint AS cost,
  sum(coalesce((runs.usage::json ->> 'priced')::bigint, 0))::bigint AS priced
FROM runs JOIN agents ON agents.id = runs.agent_id
WHERE runs.created_at >= $1 AND runs.created_at < $2 AND ($3::bigint = 0 OR agents.user_id = $3)
GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4;
