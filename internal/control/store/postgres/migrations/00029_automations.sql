-- +goose Up

-- Definitions that start agents on a schedule, on events or by hand.
CREATE TABLE automations (
  id         TEXT    NOT NULL PRIMARY KEY,
  user_id    BIGINT NOT NULL, -- owner of its agents
  repo       TEXT    NOT NULL, -- repository whose file defines it, or ''
  on_event   BIGINT NOT NULL, -- 1 if it is active and events start it
  created_at BIGINT NOT NULL,
  due_at     BIGINT NOT NULL, -- when the schedule starts it next, or 0
  owner      TEXT    NOT NULL, -- the server that works on it, or ''
  until      BIGINT NOT NULL, -- when the owner's claim ends
  data       TEXT    NOT NULL
);

CREATE INDEX automations_due ON automations (due_at) WHERE due_at > 0;
CREATE INDEX automations_on_event ON automations (id) WHERE on_event = 1;
CREATE INDEX automations_of_repo ON automations (repo);

-- Starts of automations.
CREATE TABLE automation_starts (
  id            TEXT    NOT NULL PRIMARY KEY, -- derived from the automation and the cause
  automation_id TEXT    NOT NULL,
  state         TEXT    NOT NULL,
  created_at    BIGINT NOT NULL,
  due_at        BIGINT NOT NULL, -- when its next step is due, or 0
  cost          BIGINT NOT NULL, -- at most, while it has not ended
  owner         TEXT    NOT NULL, -- the server that works on it, or ''
  until         BIGINT NOT NULL, -- when the owner's claim ends
  data          TEXT    NOT NULL
);

CREATE INDEX automation_starts_due ON automation_starts (due_at) WHERE due_at > 0;
CREATE INDEX automation_starts_by_age ON automation_starts (automation_id, created_at, id);

-- Restrictions of agents that automations have started.
CREATE TABLE narrowings (
  agent_id TEXT NOT NULL PRIMARY KEY,
  data     TEXT NOT NULL
);
