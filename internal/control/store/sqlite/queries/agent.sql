-- name: PutAgent :exec
INSERT OR REPLACE INTO agents (id, name, user_id, archived, env, repos, model, class,
  work_on_current_branch, created_at, updated_at, latest_run_id, head, paused, machine, run_mode, approvals, origin, forked_from, layer, rules_at, queue, todos, pull, pull_requests, run_limit)
VALUES (@id, @name, @user_id, @archived, @env, @repos, @model, @class,
  @work_on_current_branch, @created_at, @updated_at, @latest_run_id, @head, @paused, @machine, @run_mode, @approvals, @origin, @forked_from, @layer, @rules_at, @queue, @todos, @pull, @pull_requests, @run_limit);

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
WHERE (CAST(@user_id AS INTEGER) = 0 OR agents.user_id = @user_id) AND agents.archived <= @archived
  AND agents.created_at >= @since AND agents.created_at < @until
  AND agents.created_at <= @before_time AND (agents.created_at < @before_time OR agents.id < @before_id)
  AND (CAST(@any_standing AS INTEGER) = 1
    OR CASE agents.archived WHEN 1 THEN CAST(@filed_away AS INTEGER) = 1
       ELSE instr(CAST(@statuses AS TEXT), ',' || coalesce(runs.status, '-') || ',') > 0
         OR CAST(@needs_you AS INTEGER) = 1 AND (agents.approvals != '' OR runs.status IN ('ERROR', 'EXPIRED') AND agents.updated_at >= @news_since) END)
  AND (CAST(@words AS TEXT) = '' OR has_words(agents.id || ' ' || agents.name || ' ' || agents.model || ' ' || agents.repos, @words))
  AND (CAST(@repository AS TEXT) = '' OR has_repository(agents.repos, @repository))
  AND (CAST(@pull_request AS TEXT) = '' OR has_pull_request(agents.repos || agents.pull_requests, @pull_request))
ORDER BY agents.created_at DESC, agents.id DESC LIMIT @most;

-- name: ListWaitingAgents :many
SELECT * FROM agents WHERE approvals != '' AND user_id = @user_id ORDER BY created_at, id LIMIT @most;

-- name: CountAgentsOnLayer :one
SELECT count(*) FROM agents WHERE layer = @layer AND layer != '';

-- name: DeleteAgent :execrows
DELETE FROM agents WHERE id = @id;
