-- +goose Up

CREATE TABLE snapshots (
  id         TEXT    NOT NULL PRIMARY KEY,
  user_id    INTEGER NOT NULL,
  repo       TEXT    NOT NULL,
  agent_id   TEXT    NOT NULL,
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX snapshots_by_age ON snapshots (repo, created_at, id);
