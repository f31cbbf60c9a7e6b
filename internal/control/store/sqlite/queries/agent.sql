-- name: PutAgent :exec
INSERT OR REPLACE INTO agents (id, name, user_id, archived, env, repos, model, class,
  work_on_current_branch, created_at, updated_at, latest_run_id, head, paused, machine, run_mode, approvals, origin, forked_from, layer, rules_at)
VALUES (@id, @name, @user_id, @archived, @env, @repos, @model, @class,
  @work_on_current_branch, @created_at, @updated_at, @latest_run_id, @head, @paused, @machine, @run_mode, @approvals, @origin, @forked_from, @layer, @rules_at);

-- name: TouchAgent :exec
UPDATE agents SET updated_at = @updated_at, head = @head WHERE id = @id;

-- name: GetAgent :one
SELECT * FROM agents WHERE id = @id;

-- name: GetHead :one
SELECT head FROM agents WHERE id = @id;

-- name: ListAgents :many
SELECT * FROM agents
WHERE archived <= @archived
  AND created_at <= @before_time AND (created_at < @before_time OR id < @before_id)
ORDER BY created_at DESC, id DESC LIMIT @most;

-- name: ListAgentsOfUser :many
SELECT * FROM agents
WHERE user_id = @user_id AND archived <= @archived
  AND created_at <= @before_time AND (created_at < @before_time OR id < @before_id)
ORDER BY created_at DESC, id DESC LIMIT @most;

-- name: ListWaitingAgents :many
SELECT * FROM agents WHERE approvals != '' AND user_id = @user_id ORDER BY created_at, id LIMIT @most;

-- name: CountAgentsOnLayer :one
SELECT count(*) FROM agents WHERE layer = @layer AND layer != '';

-- name: DeleteAgent :execrows
DELETE FROM agents WHERE id = @id;
