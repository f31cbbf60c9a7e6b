-- name: GetLease :one
SELECT * FROM leases WHERE name = @name;

-- name: PutLease :exec
INSERT INTO leases (name, owner, until) VALUES (@name, @owner, @until)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until;

-- name: DeleteLease :exec
DELETE FROM leases WHERE name = @name;
