-- name: AddEvent :exec
INSERT INTO events (agent_id, seq, run_id, time, kind, data)
VALUES (@agent_id, @seq, @run_id, @time, @kind, @data);

-- name: ReadEvents :many
SELECT seq, run_id, time, kind, data FROM events
WHERE agent_id = @agent_id AND seq > @after ORDER BY seq LIMIT @most;

-- name: DeleteEvents :exec
DELETE FROM events WHERE agent_id = @agent_id;
