-- +goose Up

ALTER TABLE agents ADD COLUMN run_mode TEXT NOT NULL DEFAULT '';
ALTER TABLE agents ADD COLUMN approvals TEXT NOT NULL DEFAULT ''; -- JSON of those that wait; '' for none

CREATE INDEX agents_waiting ON agents (created_at, id) WHERE approvals != '';

-- What people and the team have set for their agents: permissions.json,
-- sandbox.json, hooks.json.
CREATE TABLE rules (
  owner      TEXT    NOT NULL, -- 'team', or 'user/' and the id
  name       TEXT    NOT NULL, -- of the file
  text       TEXT    NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (owner, name)
) STRICT, WITHOUT ROWID;
