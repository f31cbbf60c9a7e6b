-- +goose Up

CREATE TABLE environments (
  id         TEXT    NOT NULL PRIMARY KEY,
  user_id    INTEGER NOT NULL, -- 0 is the team
  created_at INTEGER NOT NULL,
  data       TEXT    NOT NULL  -- JSON
) STRICT, WITHOUT ROWID;

CREATE INDEX environments_by_age ON environments (user_id, created_at, id);

CREATE TABLE environment_versions (
  environment_id TEXT    NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
  id             TEXT    NOT NULL,
  created_at     INTEGER NOT NULL,
  data           TEXT    NOT NULL, -- JSON
  PRIMARY KEY (environment_id, id)
) STRICT, WITHOUT ROWID;
