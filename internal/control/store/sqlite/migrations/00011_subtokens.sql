-- +goose Up

ALTER TABLE api_keys ADD COLUMN expires_at INTEGER NOT NULL DEFAULT 0; -- 0 for never

CREATE INDEX api_keys_expiring ON api_keys (expires_at) WHERE expires_at != 0;
