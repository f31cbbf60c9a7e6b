-- name: AddMemory :exec
INSERT INTO memories (id, repo, created_at, revision, data) VALUES (@id, @repo, @created_at, 1, @data);

-- name: PutMemory :execrows
UPDATE memories SET data = @data, revision = revision + 1 WHERE id = @id AND revision = @revision;

-- name: DeleteMemory :execrows
DELETE FROM memories WHERE id = @id AND revision = @revision;

-- name: GetMemory :one
SELECT revision, data FROM memories WHERE id = @id;

-- name: ListMemories :many
SELECT revision, data FROM memories WHERE repo = @repo ORDER BY created_at, id;

-- name: ListMemoryRepos :many
SELECT DISTINCT repo FROM memories ORDER BY repo;
