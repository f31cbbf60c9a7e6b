-- name: PutRun :exec
INSERT OR REPLACE INTO runs (agent_id, id, status, created_at, updated_at, started_at, ended_at,
  result, failure, branches, usage, turns, first_seq, last_seq)
VALUES (@agent_id, @id, @status, @created_at, @updated_at, @started_at, @ended_at,
  @result, @failure, @branches, @usage, @turns, @first_seq, @last_seq);

-- name: TouchRun :exec
UPDATE runs SET updated_at = @updated_at, last_seq = @last_seq
WHERE agent_id = @agent_id AND id = @id;

-- name: GetRun :one
SELECT * FROM runs WHERE agent_id = @agent_id AND id = @id;

-- name: ListRuns :many
SELECT * FROM runs
WHERE agent_id = @agent_id
  AND created_at <= @before_time AND (created_at < @before_time OR id < @before_id)
ORDER BY created_at DESC, id DESC LIMIT @most;

-- name: OpenRuns :many
SELECT * FROM runs WHERE ended_at = 0 ORDER BY created_at, agent_id, id;

-- name: DeleteRuns :exec
DELETE FROM runs WHERE agent_id = @agent_id;
