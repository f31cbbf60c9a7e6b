-- name: PutAgent :exec
INSERT INTO agents (id, name, user_id, archived, env, repos, model, class,
  work_on_current_branch, created_at, updated_at, latest_run_id, head, paused, machine, run_mode, approvals, origin, forked_from, layer, rules_at, queue, todos, pull, pull_requests, run_limit)
VALUES (@id, @name, @user_id, @archived, @env, @repos, @model, @class,
  @work_on_current_branch, @created_at, @updated_at, @latest_run_id, @head, @paused, @machine, @run_mode, @approvals, @origin, @forked_from, @layer, @rules_at, @queue, @todos, @pull, @pull_requests, @run_limit)
ON CONFLICT (id) DO UPDATE SET
  name = excluded.name, user_id = excluded.user_id, archived = excluded.archived, env = excluded.env,
  repos = excluded.repos, model = excluded.model, class = excluded.class,
  work_on_current_branch = excluded.work_on_current_branch, created_at = excluded.created_at,
  updated_at = excluded.updated_at, latest_run_id = excluded.latest_run_id, head = excluded.head,
  paused = excluded.paused, machine = excluded.machine, run_mode = excluded.run_mode,
  approvals = excluded.approvals, origin = excluded.origin, forked_from = excluded.forked_from,
  layer = excluded.layer, rules_at = excluded.rules_at, queue = excluded.queue, todos = excluded.todos,
  pull = excluded.pull, pull_requests = excluded.pull_requests, run_limit = excluded.run_limit;

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

-- name: FindAgents :many
SELECT agents.* FROM agents LEFT JOIN runs ON runs.agent_id = agents.id AND runs.id = agents.latest_run_id
WHERE (CAST(@user_id AS BIGINT) = 0 OR agents.user_id = @user_id) AND agents.archived <= @archived
  AND agents.created_at >= @since AND agents.created_at < @until
  AND agents.created_at <= @before_time AND (agents.created_at < @before_time OR agents.id < @before_id)
  AND (CAST(@any_standing AS BIGINT) = 1
    OR CASE agents.archived WHEN 1 THEN CAST(@filed_away AS BIGINT) = 1
       ELSE CAST(@statuses AS TEXT) LIKE '%,' || coalesce(runs.status, '-') || ',%'
         OR CAST(@asks AS BIGINT) = 1 AND agents.approvals != ''
         OR CAST(@needs_you AS BIGINT) = 1 AND (agents.approvals != '' OR runs.status IN ('ERROR', 'EXPIRED') AND agents.updated_at >= @news_since) END)
ORDER BY agents.created_at DESC, agents.id DESC LIMIT @most;

-- name: FindAskingAgents :many
SELECT agents.* FROM agents LEFT JOIN runs ON runs.agent_id = agents.id AND runs.id = agents.latest_run_id
WHERE agents.approvals != '' AND agents.archived = 0
  AND (CAST(@user_id AS BIGINT) = 0 OR agents.user_id = @user_id) AND agents.archived <= @archived
  AND agents.created_at >= @since AND agents.created_at < @until
  AND agents.created_at <= @before_time AND (agents.created_at < @before_time OR agents.id < @before_id)
  AND (CAST(@any_standing AS BIGINT) = 1
    OR CASE agents.archived WHEN 1 THEN CAST(@filed_away AS BIGINT) = 1
       ELSE CAST(@statuses AS TEXT) LIKE '%,' || coalesce(runs.status, '-') || ',%'
         OR CAST(@asks AS BIGINT) = 1 AND agents.approvals != ''
         OR CAST(@needs_you AS BIGINT) = 1 AND (agents.approvals != '' OR runs.status IN ('ERROR', 'EXPIRED') AND agents.updated_at >= @news_since) END)
ORDER BY agents.created_at DESC, agents.id DESC LIMIT @most;

-- name: ListWaitingAgents :many
SELECT * FROM agents WHERE approvals != '' AND user_id = @user_id ORDER BY created_at, id LIMIT @most;

-- name: CountAgentsOnLayer :one
SELECT count(*) FROM agents WHERE layer = @layer AND layer != '';

-- name: CountAgentsOfUser :one
SELECT count(*) FROM agents WHERE user_id = @user_id;

-- name: DeleteAgent :execrows
DELETE FROM agents WHERE id = @id;

-- name: ListOwners :many
SELECT id, user_id, head, layer FROM agents ORDER BY created_at, id;
