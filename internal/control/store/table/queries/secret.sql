-- name: PutSecret :exec
INSERT INTO secrets (owner_kind, owner_id, folded, id, name, type, repos, created_at, keeper, key, box)
VALUES (@owner_kind, @owner_id, @folded, @id, @name, @type, @repos, @created_at, @keeper, @key, @box)
ON CONFLICT (owner_kind, owner_id, folded) DO UPDATE SET
  id = excluded.id, name = excluded.name, type = excluded.type, repos = excluded.repos,
  created_at = excluded.created_at, keeper = excluded.keeper, key = excluded.key, box = excluded.box;

-- name: GetSecret :one
SELECT * FROM secrets WHERE owner_kind = @owner_kind AND owner_id = @owner_id AND folded = @folded;

-- name: CountSecrets :one
SELECT count(*) FROM secrets WHERE owner_kind = @owner_kind AND owner_id = @owner_id;

-- name: ListSecrets :many
SELECT * FROM secrets WHERE owner_kind = @owner_kind AND owner_id = @owner_id ORDER BY folded;

-- name: SecretsAfter :many
SELECT * FROM secrets WHERE id > @after_id ORDER BY id LIMIT @most;

-- name: ResealSecret :execrows
UPDATE secrets SET keeper = @keeper, key = @key, box = @box WHERE id = @id;

-- name: DeleteSecret :execrows
DELETE FROM secrets WHERE owner_kind = @owner_kind AND owner_id = @owner_id AND folded = @folded;

-- name: DeleteSecrets :exec
DELETE FROM secrets WHERE owner_kind = @owner_kind AND owner_id = @owner_id;

-- name: AddExternalID :exec
INSERT INTO external_ids (team_id, id) VALUES (@team_id, @id)
ON CONFLICT DO NOTHING;

-- name: ExternalID :one
SELECT id FROM external_ids WHERE team_id = @team_id;
