-- name: PutEnvironment :exec
INSERT INTO environments (id, user_id, created_at, data) VALUES (@id, @user_id, @created_at, @data)
ON CONFLICT (id) DO UPDATE SET user_id = excluded.user_id, data = excluded.data;

-- name: PutEnvironmentVersion :exec
INSERT INTO environment_versions (environment_id, id, created_at, data) VALUES (@environment_id, @id, @created_at, @data)
ON CONFLICT (environment_id, id) DO NOTHING;

-- name: GetEnvironment :one
SELECT data FROM environments WHERE id = @id;

-- name: ListEnvironments :many
SELECT data FROM environments
WHERE user_id IN (0, @user_id) AND (created_at, id) < (CAST(@before_time AS BIGINT), CAST(@before_id AS TEXT))
ORDER BY created_at DESC, id DESC LIMIT @most;

-- name: DeleteEnvironmentVersions :exec
DELETE FROM environment_versions WHERE environment_id = @environment_id;

-- name: DeleteEnvironment :execrows
DELETE FROM environments WHERE id = @id;

-- name: ListEnvironmentVersions :many
SELECT data FROM environment_versions
WHERE environment_id = @environment_id AND (created_at, id) < (CAST(@before_time AS BIGINT), CAST(@before_id AS TEXT))
ORDER BY created_at DESC, id DESC LIMIT @most;
