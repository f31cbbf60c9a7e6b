-- +goose Up

-- Issues and pull requests on which somebody has mentioned Aloft.
CREATE TABLE topics (
  repo       TEXT    NOT NULL, -- host/owner/name in lower case
  number     INTEGER NOT NULL,
  issue      INTEGER NOT NULL, -- 1 for an issue, 0 for a pull request
  repo_url   TEXT    NOT NULL,
  agent_id   TEXT    NOT NULL, -- the agent that works on it, or ''
  comment_id TEXT    NOT NULL, -- the comment that shows its state, or ''
  handled    TEXT    NOT NULL, -- ids of the comments that were acted on, one a line
  answer     TEXT    NOT NULL, -- reply to a comment that could not be acted on, or ''
  shown      TEXT    NOT NULL, -- hash of the text of the comment
  read       INTEGER NOT NULL, -- value of news at the last read
  news       INTEGER NOT NULL, -- how often an event has announced a change
  created_at INTEGER NOT NULL,
  due_at     INTEGER NOT NULL,
  owner      TEXT    NOT NULL, -- the server that works on it, or ''
  until      INTEGER NOT NULL, -- when the owner's claim ends
  attempts   INTEGER NOT NULL, -- failed ones in a row
  problem    TEXT    NOT NULL, -- of the last attempt
  PRIMARY KEY (repo, number, issue)
) STRICT, WITHOUT ROWID;

CREATE INDEX topics_due ON topics (due_at);
