-- name: PutRule :exec
INSERT OR REPLACE INTO rules (owner, name, text, updated_at) VALUES (@owner, @name, @text, @updated_at);

-- name: GetRule :one
SELECT text FROM rules WHERE owner = @owner AND name = @name;
