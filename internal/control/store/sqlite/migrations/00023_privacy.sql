-- +goose Up

ALTER TABLE runs ADD COLUMN privacy TEXT NOT NULL DEFAULT 'null'; -- JSON; the team's privacy mode when the run began, null where that was not recorded
