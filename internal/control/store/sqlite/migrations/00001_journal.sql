-- +goose Up

-- Times are nanoseconds since 1970, UTC; 0 is no time.

CREATE TABLE server (
  one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  id  TEXT    NOT NULL
) STRICT;

CREATE TABLE agents (
  id                     TEXT    NOT NULL PRIMARY KEY,
  name                   TEXT    NOT NULL,
  user_id                INTEGER NOT NULL,
  archived               INTEGER NOT NULL,
  env                    TEXT    NOT NULL, -- JSON
  repos                  TEXT    NOT NULL, -- JSON
  model                  TEXT    NOT NULL,
  class                  TEXT    NOT NULL,
  work_on_current_branch INTEGER NOT NULL,
  created_at             INTEGER NOT NULL,
  updated_at             INTEGER NOT NULL,
  latest_run_id          TEXT    NOT NULL,
  head                   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- archived is in the indexes so that a list skips what is filed away without
-- reading it.
CREATE INDEX agents_by_age ON agents (created_at, id, archived);
CREATE INDEX agents_of_user_by_age ON agents (user_id, created_at, id, archived);

CREATE TABLE runs (
  agent_id   TEXT    NOT NULL,
  id         TEXT    NOT NULL,
  status     TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at   INTEGER NOT NULL, -- 0 while it is open
  result     TEXT    NOT NULL,
  failure    TEXT    NOT NULL, -- JSON
  branches   TEXT    NOT NULL, -- JSON
  usage      TEXT    NOT NULL, -- JSON
  turns      INTEGER NOT NULL,
  first_seq  INTEGER NOT NULL,
  last_seq   INTEGER NOT NULL,
  PRIMARY KEY (agent_id, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX runs_by_age ON runs (agent_id, created_at, id);
CREATE INDEX runs_open ON runs (created_at, agent_id, id) WHERE ended_at = 0;

CREATE TABLE events (
  agent_id TEXT    NOT NULL,
  seq      INTEGER NOT NULL,
  run_id   TEXT    NOT NULL, -- '' where the event is of no run
  time     INTEGER NOT NULL,
  kind     TEXT    NOT NULL,
  data     BLOB    NOT NULL, -- JSON
  PRIMARY KEY (agent_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE leases (
  name  TEXT    NOT NULL PRIMARY KEY,
  owner TEXT    NOT NULL,
  until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE users (
  id         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  email      TEXT    NOT NULL,
  first_name TEXT    NOT NULL,
  last_name  TEXT    NOT NULL
) STRICT;

CREATE TABLE api_keys (
  id         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  name       TEXT    NOT NULL,
  user_id    INTEGER NOT NULL REFERENCES users (id),
  hash       BLOB    NOT NULL UNIQUE,
  created_at INTEGER NOT NULL
) STRICT;
