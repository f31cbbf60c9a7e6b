-- +goose Up

-- What a user may do. The first is whom the server made for its own first key.
ALTER TABLE users ADD COLUMN role TEXT NOT NULL DEFAULT 'member';
ALTER TABLE users ADD COLUMN disabled INTEGER NOT NULL DEFAULT 0;
UPDATE users SET role = 'owner' WHERE id = 1;

-- A browser that has signed in holds a key of the kind session.
ALTER TABLE api_keys ADD COLUMN kind TEXT NOT NULL DEFAULT 'key';
UPDATE api_keys SET kind = 'sub-token' WHERE expires_at != 0;
CREATE INDEX api_keys_of_user ON api_keys (user_id);

CREATE TABLE passwords (
  user_id    INTEGER NOT NULL PRIMARY KEY REFERENCES users (id),
  hash       TEXT    NOT NULL, -- argon2id, as PHC strings have it
  changed_at INTEGER NOT NULL
) STRICT;

CREATE TABLE passkeys (
  id         BLOB    NOT NULL PRIMARY KEY, -- the credential's
  user_id    INTEGER NOT NULL REFERENCES users (id),
  name       TEXT    NOT NULL,
  credential TEXT    NOT NULL, -- JSON
  created_at INTEGER NOT NULL,
  used_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX passkeys_of_user ON passkeys (user_id);

-- Who a user is elsewhere.
CREATE TABLE identities (
  issuer  TEXT    NOT NULL,
  subject TEXT    NOT NULL,
  user_id INTEGER NOT NULL REFERENCES users (id),
  PRIMARY KEY (issuer, subject)
) STRICT, WITHOUT ROWID;

-- Links that sign in once.
CREATE TABLE links (
  hash       BLOB    NOT NULL PRIMARY KEY,
  user_id    INTEGER NOT NULL REFERENCES users (id),
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
  id      INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  time    INTEGER NOT NULL,
  user_id INTEGER NOT NULL, -- 0 where nobody was known
  address TEXT    NOT NULL,
  action  TEXT    NOT NULL,
  target  TEXT    NOT NULL,
  outcome TEXT    NOT NULL
) STRICT;
