-- name: AddUser :one
INSERT INTO users (email, first_name, last_name)
VALUES (@email, @first_name, @last_name) RETURNING id;

-- name: GetUser :one
SELECT * FROM users WHERE id = @id;

-- name: AddKey :one
INSERT INTO api_keys (name, user_id, hash, created_at)
VALUES (@name, @user_id, @hash, @created_at) RETURNING id;

-- name: GetKey :one
SELECT * FROM api_keys WHERE hash = @hash;

-- name: CountKeys :one
SELECT count(*) FROM api_keys;
