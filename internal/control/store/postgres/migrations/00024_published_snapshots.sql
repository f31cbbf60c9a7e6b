-- +goose Up

ALTER TABLE snapshots ADD COLUMN published_by BIGINT NOT NULL DEFAULT 0; -- the admin who lets all members start from it; 0: nobody
