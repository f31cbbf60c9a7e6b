-- name: PutReply :exec
INSERT OR REPLACE INTO replies (id, request, sealed, at) VALUES (@id, @request, @sealed, @at);

-- name: GetReply :one
SELECT request, sealed, at FROM replies WHERE id = @id;

-- name: DeleteReplies :execrows
DELETE FROM replies WHERE at < @before;
