-- name: AddDelivery :exec
INSERT INTO webhook_deliveries (id, agent_id, run_id, created_at, state, owner, attempts, next_at, until, last_at, last_status, last_error, event, seq)
VALUES (@id, @agent_id, @run_id, @created_at, 'pending', '', 0, @created_at, @until, 0, 0, '', @event, @seq)
ON CONFLICT DO NOTHING;

-- name: ListDeliveries :many
SELECT * FROM webhook_deliveries
WHERE agent_id = @agent_id
  AND created_at <= @before_time AND (created_at < @before_time OR id < @before_id)
ORDER BY created_at DESC, id DESC LIMIT @most;

-- name: DueDeliveries :many
SELECT * FROM webhook_deliveries WHERE state = 'pending' AND next_at <= @now ORDER BY next_at LIMIT @most;

-- name: ClaimDelivery :exec
UPDATE webhook_deliveries SET owner = @owner, next_at = @next_at WHERE id = @id;

-- name: ReleaseDeliveries :exec
UPDATE webhook_deliveries SET owner = '', next_at = @now WHERE state = 'pending' AND owner = @owner;

-- name: PutAttempt :execrows
UPDATE webhook_deliveries SET owner = '', state = @state, attempts = @attempts, next_at = @next_at,
  last_at = @last_at, last_status = @last_status, last_error = @last_error
WHERE id = @id;

-- name: Redeliver :execrows
UPDATE webhook_deliveries SET owner = '', state = 'pending', next_at = @now, until = @until WHERE id = @id AND agent_id = @agent_id;

-- name: DeleteDeliveries :exec
DELETE FROM webhook_deliveries WHERE agent_id = @agent_id;
