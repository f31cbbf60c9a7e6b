-- name: AddServerID :exec
INSERT OR IGNORE INTO server (one, id) VALUES (1, @id);

-- name: ServerID :one
SELECT id FROM server;
