-- +goose Up

ALTER TABLE agents ADD COLUMN machine TEXT NOT NULL DEFAULT ''; -- booting, ready, hibernated, lost; '' is none
