-- name: GetLease :one
SELECT * FROM leases WHERE name = @name;

-- name: PutLease :exec
INSERT OR REPLACE INTO leases (name, owner, until) VALUES (@name, @owner, @until);

-- name: DeleteLease :exec
DELETE FROM leases WHERE name = @name;
