-- +goose Up

ALTER TABLE snapshots ADD COLUMN published_by INTEGER NOT NULL DEFAULT 0; -- the admin who lets all members start from it; 0: nobody
