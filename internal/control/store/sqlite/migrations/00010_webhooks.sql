-- +goose Up

-- What is to be told to the webhooks of agents: a row for each end of a run,
-- made in the transaction that journals it.
CREATE TABLE webhook_deliveries (
  id          TEXT    NOT NULL PRIMARY KEY, -- made of the agent and the run
  agent_id    TEXT    NOT NULL,
  run_id      TEXT    NOT NULL,
  created_at  INTEGER NOT NULL,
  state       TEXT    NOT NULL, -- pending, delivered, failed
  owner       TEXT    NOT NULL, -- the server that is sending it, or ''
  attempts    INTEGER NOT NULL,
  next_at     INTEGER NOT NULL, -- when a pending one is due
  until       INTEGER NOT NULL, -- when it is given up
  last_at     INTEGER NOT NULL, -- of the last attempt; 0 for none
  last_status INTEGER NOT NULL, -- of HTTP; 0 for none
  last_error  TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX webhook_deliveries_due ON webhook_deliveries (next_at) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_by_age ON webhook_deliveries (agent_id, created_at, id);
