-- +goose Up

-- What agents have written down about repositories.
CREATE TABLE memories (
  id         TEXT   NOT NULL PRIMARY KEY,
  repo       TEXT   NOT NULL, -- host/path
  created_at BIGINT NOT NULL,
  revision   BIGINT NOT NULL,
  data       TEXT   NOT NULL  -- JSON of memory.Memory
);

CREATE INDEX memories_repo ON memories (repo, created_at, id);
