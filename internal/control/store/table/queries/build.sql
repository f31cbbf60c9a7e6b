-- name: AddBuild :exec
INSERT INTO builds (id, environment_id, status, created_at, data)
VALUES (@id, @environment_id, @status, @created_at, @data);

-- name: UpdateBuild :execrows
UPDATE builds SET status = @status, data = @data WHERE id = @id;

-- name: ActivateBuild :exec
INSERT INTO active_builds (environment_id, build_id) VALUES (@environment_id, @build_id)
ON CONFLICT (environment_id) DO UPDATE SET build_id = excluded.build_id;

-- name: GetBuild :one
SELECT data FROM builds WHERE id = @id;

-- name: ActiveBuild :one
SELECT b.data FROM active_builds a JOIN builds b ON b.id = a.build_id WHERE a.environment_id = @environment_id;

-- name: ActiveBuilds :many
SELECT b.data FROM active_builds a JOIN builds b ON b.id = a.build_id ORDER BY b.id;

-- name: ListBuilds :many
SELECT data FROM builds
WHERE (created_at, id) < (CAST(@before_time AS BIGINT), CAST(@before_id AS TEXT))
ORDER BY created_at DESC, id DESC LIMIT @most;

-- name: ListBuildsOf :many
SELECT data FROM builds
WHERE environment_id = @environment_id
  AND (created_at, id) < (CAST(@before_time AS BIGINT), CAST(@before_id AS TEXT))
ORDER BY created_at DESC, id DESC LIMIT @most;

-- name: OpenBuilds :many
SELECT data FROM builds WHERE status = 'IN_PROGRESS' ORDER BY created_at, id;

-- name: DeactivateBuild :exec
DELETE FROM active_builds WHERE build_id = @build_id;

-- name: DeleteBuild :execrows
DELETE FROM builds WHERE id = @id;
