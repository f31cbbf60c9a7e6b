-- +goose Up

ALTER TABLE agents ADD COLUMN run_limit TEXT NOT NULL DEFAULT ''; -- JSON; what its person lets each run use, '' for nothing said
ALTER TABLE runs ADD COLUMN run_limit TEXT NOT NULL DEFAULT '{}'; -- JSON; at which it ends
ALTER TABLE runs ADD COLUMN clock TEXT NOT NULL DEFAULT '{}'; -- JSON; for how long it has worked
