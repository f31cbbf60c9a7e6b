-- +goose Up

ALTER TABLE agents ADD COLUMN todos TEXT NOT NULL DEFAULT ''; -- JSON; the events that hold its list of what is to be done, '' for none
