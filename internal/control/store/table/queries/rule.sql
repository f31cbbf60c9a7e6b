-- name: PutRule :exec
INSERT INTO rules (owner, name, text, updated_at) VALUES (@owner, @name, @text, @updated_at)
ON CONFLICT (owner, name) DO UPDATE SET text = excluded.text, updated_at = excluded.updated_at;

-- name: GetRule :one
SELECT text FROM rules WHERE owner = @owner AND name = @name;
