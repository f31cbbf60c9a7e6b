-- +goose Up

CREATE TABLE builds (
  id             TEXT    NOT NULL PRIMARY KEY,
  environment_id TEXT    NOT NULL,
  status         TEXT    NOT NULL,
  created_at     INTEGER NOT NULL,
  data           TEXT    NOT NULL -- JSON
) STRICT, WITHOUT ROWID;

CREATE INDEX builds_by_age ON builds (environment_id, created_at, id);
CREATE INDEX builds_open ON builds (created_at, id) WHERE status = 'IN_PROGRESS';

CREATE TABLE active_builds (
  environment_id TEXT NOT NULL PRIMARY KEY,
  build_id       TEXT NOT NULL REFERENCES builds (id)
) STRICT, WITHOUT ROWID;
