package sqlite

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

func TestSecondServerIsRefused(t *testing.T) {
	dir := t.TempDir()
	first := openTest(t, dir)
	_, err := Open(t.Context(), filepath.Join(dir, "aloft.db"), slog.New(slog.DiscardHandler))
	if f := fault.Of(err); f.Code != "data_in_use" || f.Advice == "" || !strings.Contains(f.Message, dir) {
		t.Errorf("error is %v; want one that names %s and what to do", err, dir)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	openTest(t, dir)
}

func TestNewerSchemaIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir)
	if _, err := s.writer.conn.ExecContext(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), filepath.Join(dir, "aloft.db"), slog.New(slog.DiscardHandler))
	if f := fault.Of(err); f.Code != "store_too_new" || !strings.Contains(f.Message, "9999") {
		t.Errorf("error is %v; want one that names both versions", err)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	s := openTest(t, t.TempDir())
	agentID, runID := newTestAgent(t, s)
	done := make(chan error, 1)
	go func() { done <- s.Wait(t.Context(), agentID, 2) }()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-done; err == nil {
		t.Error("Wait returned nil from a closed store")
	}
	_, err := s.Append(t.Context(), store.Append{AgentID: agentID, Events: []agent.Event{{RunID: runID, Body: delta}}})
	if !errors.Is(err, store.ErrClosed) {
		t.Errorf("Append to a closed store = %v", err)
	}
	if err := s.Wait(t.Context(), agentID, 0); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Wait for a closed store = %v", err)
	}
}

func TestNobodyIsRememberedAfterWaiting(t *testing.T) {
	s := openTest(t, t.TempDir())
	agentID, runID := newTestAgent(t, s)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if err := s.Wait(t.Context(), agentID, 2); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := s.Append(t.Context(), store.Append{AgentID: agentID, Events: []agent.Event{{RunID: runID, Body: delta}}}); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if n := len(s.watch.Waited(nil)); n != 0 {
		t.Errorf("%d agents are watched though nobody waits", n)
	}
}

// TestTenThousandAgents measures the first queries of a server with much data.
// [TestPlansUseIndexes] fails if an index is missing.
func TestTenThousandAgents(t *testing.T) {
	const agents, bound = 10_000, 2 * time.Minute // generous, since the host may be busy
	dir := t.TempDir()
	s := openTest(t, dir)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range agents / 50 {
				newTestAgent(t, s)
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	timed := func(what string, do func() error) {
		start := time.Now()
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		took := time.Since(start)
		t.Logf("%-22s %v", what, took)
		if took > bound {
			t.Errorf("%s took %v", what, took)
		}
	}
	timed("open", func() error { s = openTest(t, dir); return nil })
	var page []agent.Agent
	timed("first page", func() (err error) {
		page, err = s.ListAgents(t.Context(), store.AgentQuery{UserID: 1, Page: store.Page{Limit: 100}})
		return err
	})
	timed("page after that", func() error {
		last := page[len(page)-1]
		_, err := s.ListAgents(t.Context(), store.AgentQuery{Page: store.Page{Limit: 100, BeforeTime: last.CreatedAt, BeforeID: last.ID}})
		return err
	})
	timed("open runs", func() error {
		runs, err := s.OpenRuns(t.Context())
		if len(runs) != agents {
			return fmt.Errorf("%d open runs", len(runs))
		}
		return err
	})
}

// TestPlansUseIndexes checks that lists use an index and do not scan the table.
func TestPlansUseIndexes(t *testing.T) {
	s := openTest(t, t.TempDir())
	for sql, index := range map[string]string{
		"SELECT * FROM agents WHERE archived <= 0 AND created_at <= 5 AND (created_at < 5 OR id < 'x') ORDER BY created_at DESC, id DESC LIMIT 3":                 "agents_by_age",
		"SELECT * FROM agents WHERE user_id = 1 AND archived <= 0 AND created_at <= 5 AND (created_at < 5 OR id < 'x') ORDER BY created_at DESC, id DESC LIMIT 3": "agents_of_user_by_age",
		"SELECT * FROM runs WHERE agent_id = 'a' AND created_at <= 5 AND (created_at < 5 OR id < 'x') ORDER BY created_at DESC, id DESC LIMIT 3":                  "runs_by_age",
		"SELECT * FROM runs WHERE ended_at = 0 ORDER BY created_at, agent_id, id":                                                                                 "runs_open",
		"SELECT * FROM events WHERE agent_id = 'a' AND seq > 4 ORDER BY seq LIMIT 3":                                                                              "PRIMARY KEY",
	} {
		rows, err := s.db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+sql)
		if err != nil {
			t.Fatal(err)
		}
		var plan []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, detail)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
		if all := strings.Join(plan, "; "); !strings.Contains(all, index) || strings.Contains(all, "TEMP B-TREE") {
			t.Errorf("%s\nis planned as %s; want %s and no sorting", sql, all, index)
		}
	}
}
