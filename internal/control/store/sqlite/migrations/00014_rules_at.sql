-- +goose Up

ALTER TABLE agents ADD COLUMN rules_at TEXT NOT NULL DEFAULT ''; -- the commit whose rules count for the agent
