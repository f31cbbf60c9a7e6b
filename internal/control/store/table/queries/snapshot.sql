-- name: AddSnapshot :exec
INSERT INTO snapshots (id, user_id, repo, agent_id, created_at) VALUES (@id, @user_id, @repo, @agent_id, @created_at);

-- name: GetSnapshot :one
SELECT * FROM snapshots WHERE id = @id;

-- name: ListSnapshots :many
SELECT * FROM snapshots WHERE repo = @repo ORDER BY created_at DESC, id DESC LIMIT @most;

-- name: CountSnapshotsOfUser :one
SELECT count(*) FROM snapshots WHERE user_id = @user_id;

-- name: AllSnapshots :many
SELECT * FROM snapshots ORDER BY created_at, id;

-- name: UseSnapshot :execrows
UPDATE snapshots SET used_at = @used_at WHERE id = @id;

-- name: PublishSnapshot :execrows
UPDATE snapshots SET published_by = @published_by WHERE id = @id;

-- name: DeleteSnapshot :execrows
DELETE FROM snapshots WHERE id = @id;
