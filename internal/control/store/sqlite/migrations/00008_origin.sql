-- +goose Up

ALTER TABLE agents ADD COLUMN origin TEXT NOT NULL DEFAULT ''; -- the commit that the agent began with
