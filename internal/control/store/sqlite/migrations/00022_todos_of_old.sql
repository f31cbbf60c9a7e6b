-- +goose Up

-- Agents from before 00019 have a list too: the events that hold it, as they have
-- been kept since, the newest hundred of those that were not taken back.
UPDATE agents SET todos = (
  SELECT json_group_array(seq) FROM (SELECT seq FROM (
    SELECT e.seq FROM events e
    WHERE e.agent_id = agents.id AND instr(e.data, '"todos":[') > 0
      AND (e.kind = 'call.done' AND json_type(CAST(e.data AS TEXT), '$.output.success.todos') = 'array' OR e.kind = 'agent.forked')
      AND NOT EXISTS (
        SELECT 1 FROM events r
        WHERE r.agent_id = e.agent_id AND r.seq > e.seq AND r.kind = 'agent.rewound' AND CAST(r.data AS TEXT) ->> '$.to' <= e.seq)
    ORDER BY e.seq DESC LIMIT 100) ORDER BY seq))
WHERE todos = '' AND EXISTS (SELECT 1 FROM events e WHERE e.agent_id = agents.id AND e.kind IN ('call.done', 'agent.forked') AND instr(e.data, '"todos":[') > 0);
