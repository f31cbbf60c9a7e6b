-- name: AddUser :one
INSERT INTO users (email, first_name, last_name)
VALUES (@email, @first_name, @last_name) RETURNING id;

-- name: GetUser :one
SELECT * FROM users WHERE id = @id;

-- name: GetUserByEmail :one
SELECT * FROM users WHERE lower(email) = lower(@email) ORDER BY id LIMIT 1;

-- name: AddKey :one
INSERT INTO api_keys (name, user_id, hash, created_at, expires_at)
VALUES (@name, @user_id, @hash, @created_at, @expires_at) RETURNING id;

-- name: ForgetKeys :exec
DELETE FROM api_keys WHERE expires_at != 0 AND expires_at < @now;

-- name: GetKey :one
SELECT * FROM api_keys WHERE hash = @hash;

-- name: CountKeys :one
SELECT count(*) FROM api_keys;
