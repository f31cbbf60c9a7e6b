-- name: AddEvent :exec
INSERT INTO events (agent_id, seq, run_id, time, kind, data)
VALUES (@agent_id, @seq, @run_id, @time, @kind, @data);

-- name: ReadEvents :many
SELECT seq, run_id, time, kind, data FROM events
WHERE agent_id = @agent_id AND seq > @after ORDER BY seq LIMIT @most;

-- name: DeleteEvents :exec
DELETE FROM events WHERE agent_id = @agent_id;

-- name: SumEvents :one
SELECT CAST(coalesce(sum(length(data) + length(kind) + length(run_id) + length(agent_id) + 16), 0) AS BIGINT) AS bytes,
  CAST(coalesce(max(seq), 0) AS BIGINT) AS head
FROM events WHERE agent_id = @agent_id AND seq > @after;
