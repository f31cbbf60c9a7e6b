-- +goose Up

-- Values are sealed: box under a key of its own, and that key under the keeper's.
CREATE TABLE secrets (
  owner_kind TEXT    NOT NULL, -- agent, environment, personal, team
  owner_id   TEXT    NOT NULL,
  folded     TEXT    NOT NULL, -- the name in capitals: unique whatever the case
  id         TEXT    NOT NULL UNIQUE,
  name       TEXT    NOT NULL,
  type       TEXT    NOT NULL,
  repos      TEXT    NOT NULL, -- JSON
  created_at INTEGER NOT NULL,
  keeper     TEXT    NOT NULL,
  key        BLOB    NOT NULL,
  box        BLOB    NOT NULL,
  PRIMARY KEY (owner_kind, owner_id, folded)
) STRICT, WITHOUT ROWID;

-- What a team's AWS roles ask for before they are assumed.
CREATE TABLE external_ids (
  team_id TEXT NOT NULL PRIMARY KEY,
  id      TEXT NOT NULL
) STRICT, WITHOUT ROWID;
