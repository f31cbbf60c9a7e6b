-- +goose Up

-- Replies to requests that bear an Idempotency-Key and leave nothing in a journal
-- by which a repetition could be known.
CREATE TABLE replies (
  id      BLOB    NOT NULL PRIMARY KEY, -- a hash of the user, the operation and the key
  request BLOB    NOT NULL, -- a hash of what was asked
  sealed  BLOB    NOT NULL, -- by the key, which is not kept
  at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX replies_by_age ON replies (at);
