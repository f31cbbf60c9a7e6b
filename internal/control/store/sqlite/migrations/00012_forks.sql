-- +goose Up

ALTER TABLE agents ADD COLUMN forked_from TEXT NOT NULL DEFAULT '';
ALTER TABLE agents ADD COLUMN layer TEXT NOT NULL DEFAULT ''; -- that the first machine is to begin with; '' once it has

CREATE INDEX agents_on_layer ON agents (layer) WHERE layer != '';
