-- name: PutRun :exec
INSERT INTO runs (agent_id, id, status, created_at, updated_at, started_at, ended_at,
  result, failure, branches, usage, turns, first_seq, last_seq, run_limit, clock, privacy, outcome, evidence)
VALUES (@agent_id, @id, @status, @created_at, @updated_at, @started_at, @ended_at,
  @result, @failure, @branches, @usage, @turns, @first_seq, @last_seq, @run_limit, @clock, @privacy, @outcome, @evidence)
ON CONFLICT (agent_id, id) DO UPDATE SET
  status = excluded.status, created_at = excluded.created_at, updated_at = excluded.updated_at,
  started_at = excluded.started_at, ended_at = excluded.ended_at, result = excluded.result,
  failure = excluded.failure, branches = excluded.branches, usage = excluded.usage, turns = excluded.turns,
  first_seq = excluded.first_seq, last_seq = excluded.last_seq, run_limit = excluded.run_limit,
  clock = excluded.clock, privacy = excluded.privacy, outcome = excluded.outcome, evidence = excluded.evidence;

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

-- name: CountOpenRunsOfUser :one
SELECT count(*) FROM runs JOIN agents ON agents.id = runs.agent_id WHERE runs.ended_at = 0 AND agents.user_id = @user_id;

-- name: DeleteRuns :exec
DELETE FROM runs WHERE agent_id = @agent_id;

-- name: SumUsage :many
SELECT CAST(date(runs.created_at / 1000000000, 'unixepoch') AS TEXT) AS day, agents.user_id,
  CAST(coalesce(agents.repos ->> '$[0].url', '') AS TEXT) AS repo, agents.model,
  count(*) AS runs, CAST(sum(runs.turns) AS BIGINT) AS turns,
  CAST(sum(coalesce(runs.usage ->> '$.input', 0)) AS BIGINT) AS input,
  CAST(sum(coalesce(runs.usage ->> '$.output', 0)) AS BIGINT) AS output,
  CAST(sum(coalesce(runs.usage ->> '$.cacheRead', 0)) AS BIGINT) AS cache_read,
  CAST(sum(coalesce(runs.usage ->> '$.cacheWrite', 0)) AS BIGINT) AS cache_write,
  CAST(sum(coalesce(runs.usage ->> '$.cost', 0)) AS BIGINT) AS cost,
  CAST(sum(coalesce(runs.usage ->> '$.priced', 0)) AS BIGINT) AS priced
FROM runs JOIN agents ON agents.id = runs.agent_id
WHERE runs.created_at >= @since AND runs.created_at < @until AND (CAST(@user_id AS BIGINT) = 0 OR agents.user_id = @user_id)
GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4;
