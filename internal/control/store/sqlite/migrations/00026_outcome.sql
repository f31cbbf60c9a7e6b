-- +goose Up

ALTER TABLE runs ADD COLUMN outcome TEXT NOT NULL DEFAULT ''; -- what the run achieved; '' until it ends, and where that was not recorded
ALTER TABLE runs ADD COLUMN evidence TEXT NOT NULL DEFAULT 'null'; -- JSON; what the outcome is based on
