-- name: AddAutomation :execrows
INSERT INTO automations (id, user_id, repo, on_event, created_at, due_at, owner, until, data)
VALUES (@id, @user_id, @repo, @on_event, @created_at, @due_at, '', 0, @data) ON CONFLICT (id) DO NOTHING;

-- name: GetAutomation :one
SELECT data FROM automations WHERE id = @id;

-- name: ListAutomations :many
SELECT data FROM automations
WHERE (CAST(@user_id AS BIGINT) = 0 OR user_id = @user_id) AND (created_at, id) < (CAST(@before_time AS BIGINT), CAST(@before_id AS TEXT))
ORDER BY created_at DESC, id DESC LIMIT @most;

-- name: ListEventAutomations :many
SELECT data FROM automations WHERE on_event = 1 ORDER BY id;

-- name: ListRepoAutomations :many
SELECT data FROM automations WHERE repo = @repo ORDER BY id;

-- name: DeleteAutomation :execrows
DELETE FROM automations WHERE id = @id;

-- name: DeleteAutomationStarts :exec
DELETE FROM automation_starts WHERE automation_id = @automation_id;

-- name: PutAutomation :execrows
UPDATE automations SET user_id = @user_id, on_event = @on_event, due_at = @due_at, owner = '', until = 0, data = @data WHERE id = @id;

-- name: DueAutomations :many
SELECT id, data FROM automations WHERE due_at > 0 AND due_at <= @now AND until <= @now ORDER BY due_at LIMIT @most;

-- name: ClaimAutomation :exec
UPDATE automations SET owner = @owner, until = @until WHERE id = @id;

-- name: ReleaseAutomations :exec
UPDATE automations SET owner = '', until = 0 WHERE owner = @owner;

-- name: AddAutomationStart :execrows
INSERT INTO automation_starts (id, automation_id, state, created_at, due_at, cost, owner, until, data)
VALUES (@id, @automation_id, @state, @created_at, @due_at, @cost, '', 0, @data) ON CONFLICT (id) DO NOTHING;

-- name: GetAutomationStart :one
SELECT data FROM automation_starts WHERE id = @id;

-- name: ListAutomationStarts :many
SELECT data FROM automation_starts
WHERE automation_id = @automation_id AND (created_at, id) < (CAST(@before_time AS BIGINT), CAST(@before_id AS TEXT))
ORDER BY created_at DESC, id DESC LIMIT @most;

-- name: ListOpenStarts :many
SELECT data FROM automation_starts
WHERE automation_id = @automation_id AND state IN ('queued', 'starting', 'running') ORDER BY created_at, id;

-- name: SumStartCosts :one
SELECT CAST(COALESCE(SUM(cost), 0) AS BIGINT) FROM automation_starts WHERE automation_id = @automation_id AND created_at >= @since AND id <> @id;

-- name: PutAutomationStart :execrows
UPDATE automation_starts SET state = @state, due_at = @due_at, cost = @cost, owner = '', until = 0, data = @data WHERE id = @id;

-- name: DueStarts :many
SELECT id, data FROM automation_starts WHERE due_at > 0 AND due_at <= @now AND until <= @now ORDER BY due_at LIMIT @most;

-- name: ClaimStart :exec
UPDATE automation_starts SET owner = @owner, until = @until WHERE id = @id;

-- name: ReleaseStarts :exec
UPDATE automation_starts SET owner = '', until = 0 WHERE owner = @owner;

-- name: SetNarrowing :execrows
INSERT INTO narrowings (agent_id, data) VALUES (@agent_id, @data) ON CONFLICT (agent_id) DO NOTHING;

-- name: GetNarrowing :one
SELECT data FROM narrowings WHERE agent_id = @agent_id;

-- name: DeleteNarrowing :exec
DELETE FROM narrowings WHERE agent_id = @agent_id;

-- name: TrimStarts :exec
DELETE FROM automation_starts WHERE created_at < @before AND state IN ('succeeded', 'failed', 'skipped', 'cancelled');
