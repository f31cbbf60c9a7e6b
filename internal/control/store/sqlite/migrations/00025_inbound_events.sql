-- +goose Up

-- Deliveries of the webhooks of forges and other services to this server.
CREATE TABLE inbound_events (
  id          TEXT   NOT NULL PRIMARY KEY, -- derived from source, connection and delivery
  source      TEXT   NOT NULL,
  connection  TEXT   NOT NULL,
  delivery    TEXT   NOT NULL, -- the sender's id
  kind        TEXT   NOT NULL, -- the sender's name of the event
  received_at INTEGER NOT NULL,
  size        INTEGER NOT NULL, -- bytes of the body as received
  body        BLOB  NOT NULL, -- empty after a day
  state       TEXT   NOT NULL, -- queued, done, ignored, failed
  reason      TEXT   NOT NULL, -- why it was ignored or failed
  owner       TEXT   NOT NULL, -- the server that works on it, or ''
  attempts    INTEGER NOT NULL,
  next_at     INTEGER NOT NULL, -- when a queued one is due
  until       INTEGER NOT NULL  -- when it is given up
) STRICT;

CREATE INDEX inbound_events_due ON inbound_events (next_at) WHERE state = 'queued';
CREATE INDEX inbound_events_by_age ON inbound_events (received_at, id);

-- Open pull requests that agents have opened: when each is read next.
CREATE TABLE pull_watches (
  agent_id TEXT   NOT NULL,
  url      TEXT   NOT NULL,
  repo     TEXT   NOT NULL, -- host/owner/name in lower case
  repo_url TEXT   NOT NULL, -- as in the agent's journal
  branch   TEXT   NOT NULL,
  number   INTEGER NOT NULL,
  due_at   INTEGER NOT NULL,
  news     INTEGER NOT NULL, -- how often an event has announced a change
  seen     TEXT   NOT NULL, -- hash of what was read last
  owner    TEXT   NOT NULL, -- the server that reads it, or ''
  until    INTEGER NOT NULL, -- when the owner's claim ends
  attempts INTEGER NOT NULL, -- failed ones in a row
  problem  TEXT   NOT NULL, -- of the last attempt
  PRIMARY KEY (agent_id, url)
) STRICT, WITHOUT ROWID;

CREATE INDEX pull_watches_due ON pull_watches (due_at);
CREATE INDEX pull_watches_of_repo ON pull_watches (repo);
