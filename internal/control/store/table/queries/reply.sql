-- name: PutReply :exec
INSERT INTO replies (id, request, sealed, at) VALUES (@id, @request, @sealed, @at)
ON CONFLICT (id) DO UPDATE SET request = excluded.request, sealed = excluded.sealed, at = excluded.at;

-- name: GetReply :one
SELECT request, sealed, at FROM replies WHERE id = @id;

-- name: DeleteReplies :execrows
DELETE FROM replies WHERE at < @before;
