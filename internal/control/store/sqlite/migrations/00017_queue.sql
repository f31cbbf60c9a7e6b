-- +goose Up

ALTER TABLE agents ADD COLUMN queue TEXT NOT NULL DEFAULT ''; -- JSON; the prompts that wait, '' for none
