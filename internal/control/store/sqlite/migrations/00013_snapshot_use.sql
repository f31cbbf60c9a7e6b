-- +goose Up

ALTER TABLE snapshots ADD COLUMN used_at INTEGER NOT NULL DEFAULT 0; -- 0: not since it was made
