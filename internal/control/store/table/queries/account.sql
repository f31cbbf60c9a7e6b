-- name: AddUser :one
INSERT INTO users (email, first_name, last_name, role, disabled)
VALUES (@email, @first_name, @last_name, @role, @disabled) RETURNING id;

-- name: GetUser :one
SELECT * FROM users WHERE id = @id;

-- name: GetUserByEmail :one
SELECT * FROM users WHERE lower(email) = lower(@email) ORDER BY id LIMIT 1;

-- name: ListUsers :many
SELECT * FROM users ORDER BY id;

-- name: UpdateUser :execrows
UPDATE users SET email = @email, first_name = @first_name, last_name = @last_name, role = @role, disabled = @disabled
WHERE id = @id;

-- name: CountOwners :one
SELECT count(*) FROM users WHERE role = 'owner' AND disabled = 0;

-- name: AddKey :one
INSERT INTO api_keys (kind, name, user_id, hash, created_at, expires_at)
VALUES (@kind, @name, @user_id, @hash, @created_at, @expires_at) RETURNING id;

-- name: ForgetKeys :exec
DELETE FROM api_keys WHERE expires_at != 0 AND expires_at < @now;

-- name: GetKey :one
SELECT api_keys.*, users.role, users.disabled FROM api_keys JOIN users ON users.id = api_keys.user_id WHERE hash = @hash;

-- name: ListKeys :many
SELECT api_keys.*, users.role, users.disabled FROM api_keys JOIN users ON users.id = api_keys.user_id
WHERE user_id = @user_id ORDER BY api_keys.id DESC;

-- name: DeleteKey :execrows
DELETE FROM api_keys WHERE user_id = @user_id AND id = @id;

-- name: DeleteKeysOfKind :exec
DELETE FROM api_keys WHERE user_id = @user_id AND kind = @kind AND id != @but;

-- name: CountKeys :one
SELECT count(*) FROM api_keys;

-- name: GetPassword :one
SELECT hash FROM passwords WHERE user_id = @user_id;

-- name: PutPassword :exec
INSERT INTO passwords (user_id, hash, changed_at) VALUES (@user_id, @hash, @changed_at)
ON CONFLICT (user_id) DO UPDATE SET hash = excluded.hash, changed_at = excluded.changed_at;

-- name: DeletePassword :exec
DELETE FROM passwords WHERE user_id = @user_id;

-- name: ListPasskeys :many
SELECT * FROM passkeys WHERE user_id = @user_id ORDER BY created_at, id;

-- name: PutPasskey :execrows
INSERT INTO passkeys (id, user_id, name, credential, created_at, used_at)
VALUES (@id, @user_id, @name, @credential, @created_at, @used_at)
ON CONFLICT (id) DO UPDATE SET credential = excluded.credential, used_at = excluded.used_at WHERE passkeys.user_id = excluded.user_id;

-- name: DeletePasskey :execrows
DELETE FROM passkeys WHERE user_id = @user_id AND id = @id;

-- name: GetIdentity :one
SELECT user_id FROM identities WHERE issuer = @issuer AND subject = @subject;

-- name: AddIdentity :exec
INSERT INTO identities (issuer, subject, user_id) VALUES (@issuer, @subject, @user_id);

-- name: CountSignIns :one
SELECT CAST((SELECT count(*) FROM passwords) + (SELECT count(*) FROM passkeys) + (SELECT count(*) FROM identities) AS BIGINT);

-- name: AddLink :exec
INSERT INTO links (hash, user_id, expires_at) VALUES (@hash, @user_id, @expires_at);

-- name: TakeLink :one
DELETE FROM links WHERE hash = @hash RETURNING user_id, expires_at;

-- name: ForgetLinks :exec
DELETE FROM links WHERE expires_at < @now OR user_id = @user_id;

-- name: AddAudit :exec
INSERT INTO audit (time, user_id, address, action, target, outcome)
VALUES (@time, @user_id, @address, @action, @target, @outcome);

-- name: ListAudit :many
SELECT * FROM audit WHERE id < @before ORDER BY id DESC LIMIT @most;
