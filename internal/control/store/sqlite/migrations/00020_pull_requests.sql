-- +goose Up

ALTER TABLE agents ADD COLUMN pull TEXT NOT NULL DEFAULT ''; -- JSON; what is wanted of pull requests, '' for nothing
ALTER TABLE agents ADD COLUMN pull_requests TEXT NOT NULL DEFAULT ''; -- JSON; '' for none
