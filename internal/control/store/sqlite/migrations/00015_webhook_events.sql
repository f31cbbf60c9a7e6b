-- +goose Up

-- What is told: the end of a run, or that a question waits.
ALTER TABLE webhook_deliveries ADD COLUMN event TEXT NOT NULL DEFAULT 'statusChange';
ALTER TABLE webhook_deliveries ADD COLUMN seq INTEGER NOT NULL DEFAULT 0; -- of the journal's event that says it; 0 in rows from before
