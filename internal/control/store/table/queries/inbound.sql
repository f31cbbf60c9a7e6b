-- name: AddInbound :execrows
INSERT INTO inbound_events (id, source, connection, delivery, kind, received_at, size, body, state, reason, owner, attempts, next_at, until)
VALUES (@id, @source, @connection, @delivery, @kind, @received_at, @size, @body, 'queued', '', '', 0, @received_at, @until)
ON CONFLICT DO NOTHING;

-- name: CountQueuedInbound :one
SELECT count(*) FROM inbound_events WHERE state = 'queued';

-- name: ListInbound :many
SELECT id, source, connection, delivery, kind, received_at, size, state, reason, attempts, next_at, until, CAST(length(body) AS BIGINT) AS kept FROM inbound_events
WHERE received_at <= @before_time AND (received_at < @before_time OR id < @before_id)
  AND (CAST(@state AS TEXT) = '' OR state = @state)
ORDER BY received_at DESC, id DESC LIMIT @most;

-- name: DueInbound :many
SELECT * FROM inbound_events WHERE state = 'queued' AND next_at <= @now ORDER BY next_at LIMIT @most;

-- name: ClaimInbound :exec
UPDATE inbound_events SET owner = @owner, next_at = @next_at WHERE id = @id;

-- name: ReleaseInbound :exec
UPDATE inbound_events SET owner = '', next_at = @now WHERE state = 'queued' AND owner = @owner;

-- name: PutInbound :execrows
UPDATE inbound_events SET owner = '', state = @state, reason = @reason, attempts = @attempts, next_at = @next_at
WHERE id = @id AND owner = @owner;

-- name: ReplayInbound :execrows
UPDATE inbound_events SET owner = '', state = 'queued', reason = '', attempts = 0, next_at = @now, until = @until
WHERE id = @id AND length(body) > 0;

-- name: HasInbound :one
SELECT count(*) FROM inbound_events WHERE id = @id;

-- name: ForgetInboundBodies :execrows
UPDATE inbound_events SET body = @empty WHERE received_at < @before AND state != 'queued' AND length(body) > 0;

-- name: InboundBodySizes :many
SELECT received_at, size FROM inbound_events WHERE state != 'queued' AND length(body) > 0 ORDER BY received_at DESC;

-- name: DeleteInbound :execrows
DELETE FROM inbound_events WHERE received_at < @before AND state != 'queued';

-- name: AddWatch :exec
INSERT INTO pull_watches (agent_id, url, repo, repo_url, branch, number, due_at, news, seen, owner, until, attempts, problem)
VALUES (@agent_id, @url, @repo, @repo_url, @branch, @number, @due_at, 0, '', '', 0, 0, '')
ON CONFLICT DO NOTHING;

-- name: ListWatches :many
SELECT * FROM pull_watches WHERE agent_id = @agent_id ORDER BY url;

-- name: WatchesOfRepo :many
SELECT * FROM pull_watches WHERE repo = @repo ORDER BY agent_id, url;

-- name: TellWatch :execrows
UPDATE pull_watches SET news = news + 1, due_at = CASE WHEN due_at < @due_at THEN due_at ELSE @due_at END
WHERE agent_id = @agent_id AND url = @url;

-- name: DueWatches :many
SELECT * FROM pull_watches WHERE due_at <= @now AND until <= @now ORDER BY due_at LIMIT @most;

-- name: ClaimWatch :exec
UPDATE pull_watches SET owner = @owner, until = @until, due_at = @until WHERE agent_id = @agent_id AND url = @url;

-- name: ReleaseWatches :exec
UPDATE pull_watches SET owner = '', until = 0, due_at = @now WHERE owner = @owner;

-- name: PutWatch :execrows
UPDATE pull_watches SET owner = '', until = 0, seen = @seen, attempts = @attempts, problem = @problem,
  due_at = CASE WHEN news = @news THEN @due_at WHEN due_at < @due_at THEN due_at ELSE @due_at END
WHERE agent_id = @agent_id AND url = @url AND owner = @owner;

-- name: DeleteWatch :exec
DELETE FROM pull_watches WHERE agent_id = @agent_id AND url = @url;

-- name: DeleteWatches :exec
DELETE FROM pull_watches WHERE agent_id = @agent_id;

-- name: GetInbound :one
SELECT * FROM inbound_events WHERE id = @id;
