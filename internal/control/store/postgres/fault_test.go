package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/control/store/postgres/postgrestest"
	"aloft/internal/control/store/table"
	"aloft/internal/control/store/table/query"
	"aloft/internal/conversation"
	"aloft/internal/fault"
)

var delta = &agent.TextDelta{Text: "a sentence or so of what a model has to say about the matter, as they come in one batch of deltas"}

// newTestAgent creates an agent with an open run.
func newTestAgent(t testing.TB, s *Store) (agentID, runID string) {
	t.Helper()
	agentID, runID = agent.NewID(), agent.NewRunID()
	var zero int64
	_, err := s.Append(t.Context(), store.Append{AgentID: agentID, IfHead: &zero, Events: []agent.Event{
		{Body: &agent.Created{Name: "Fix the parser", UserID: 1, Env: agent.Env{Type: "cloud"}}},
		{RunID: runID, Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, "fix the parser")}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return agentID, runID
}

func grow(t testing.TB, s *Store, agentID, runID string) error {
	t.Helper()
	e := agent.Event{RunID: runID, Body: delta}
	_, err := s.Append(t.Context(), store.Append{AgentID: agentID, Events: []agent.Event{e, e, e}})
	return err
}

// wantHead checks that the journal ends at head without gaps, and that the
// agent's row agrees.
func wantHead(t *testing.T, s *Store, agentID string, head int64) {
	t.Helper()
	events, err := s.Read(t.Context(), agentID, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range events {
		if e.Seq != int64(i+1) {
			t.Errorf("event %d has number %d", i+1, e.Seq)
		}
	}
	if int64(len(events)) != head {
		t.Errorf("the journal has %d events; want %d", len(events), head)
	}
	if a, err := s.Agent(t.Context(), agentID); err != nil || a.Head != head {
		t.Errorf("the agent's head is %d, %v; want %d", a.Head, err, head)
	}
}

// proxy is a TCP proxy between a store and its database that can cut
// connections.
type proxy struct {
	net.Listener
	socket string
	down   atomic.Bool
	onSent atomic.Pointer[func(sent []byte) cut]
	mu     sync.Mutex
	open   []net.Conn
}

// cut says when to cut the connection.
type cut int

const (
	nowhere cut = iota
	before      // before the commit reaches the database
	after       // after the database has replied, before the reply is forwarded
)

func newProxy(t *testing.T, url string) (*proxy, string) {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, socket: filepath.Join(config.Host, ".s.PGSQL.5432")}
	t.Cleanup(func() { _ = l.Close(); p.sever() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p, fmt.Sprintf("postgres://aloft@%s/%s?sslmode=disable&%s", l.Addr(), config.Database, postgrestest.Patience)
}

func (p *proxy) keep(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = append(p.open, c)
}

// sever cuts all connections.
func (p *proxy) sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		_ = c.Close()
	}
	p.open = nil
}

func (p *proxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	if p.down.Load() {
		return
	}
	server, err := net.Dial("unix", p.socket)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	p.keep(client)
	p.keep(server)
	var deaf atomic.Bool
	answered := make(chan struct{}, 1)
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if deaf.Load() {
				answered <- struct{}{}
				return
			}
			if err != nil {
				_ = client.Close()
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		where := nowhere
		if judge := p.onSent.Load(); judge != nil {
			where = (*judge)(buf[:n])
		}
		if where == before {
			return
		}
		deaf.Store(where == after)
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
		if where == after {
			<-answered
			return
		}
	}
}

// cutCommits cuts the connection at each of the next commits, as many as times
// says, and then calls done.
func (p *proxy) cutCommits(times int32, where cut, done func()) {
	left := times
	judge := func(sent []byte) cut {
		if !bytes.Contains(sent, []byte("commit\x00")) || atomic.AddInt32(&left, -1) < 0 {
			return nowhere
		}
		if atomic.LoadInt32(&left) == 0 && done != nil {
			done()
		}
		return where
	}
	p.onSent.Store(&judge)
}

func TestConnectionIsLostAmidACommit(t *testing.T) {
	t.Parallel()
	p, url := newProxy(t, newDatabase(t))
	s := openTest(t, url)
	id, run := newTestAgent(t, s)

	p.cutCommits(1, after, nil)
	if err := grow(t, s, id, run); err != nil {
		t.Errorf("a commit whose answer was lost: %v; want none, for the database can be asked", err)
	}
	wantHead(t, s, id, 5)

	p.cutCommits(1, before, nil)
	if err := grow(t, s, id, run); err != nil {
		t.Errorf("a commit that never came to the database: %v; want it to be tried again", err)
	}
	wantHead(t, s, id, 8)

	p.cutCommits(attempts, before, nil)
	if err := grow(t, s, id, run); !errors.Is(err, store.ErrUnreachable) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("commits that never came: %v; want ErrUnreachable", err)
	}
	wantHead(t, s, id, 8)

	s.settleWithin = 1 // do not wait for the outcome
	for i, where := range []cut{after, before} {
		p.cutCommits(1, where, func() { p.down.Store(true) })
		if err := grow(t, s, id, run); !errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrUnreachable) {
			t.Errorf("%d: a commit whose answer was lost, with nobody to ask: %v; want ErrUnknown", i, err)
		}
		p.down.Store(false)
		wantHead(t, s, id, 11) // the first commit was written, the second was not
	}
}

func TestConnectionIsLostAmidATransaction(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	s := openTest(t, url)
	id, run := newTestAgent(t, s)
	calls := 0
	err := s.Write(t.Context(), "key", func(tx *table.Tx) error {
		calls++
		if err := tx.Q.PutRule(tx.Ctx, query.PutRuleParams{Owner: "team", Name: "rule", Text: fmt.Sprint(calls)}); err != nil {
			return err
		}
		if calls == 1 {
			terminate(t, url, "query LIKE '%PutRule%' AND pid != pg_backend_pid()")
		}
		return nil
	})
	if text, _ := s.Rule(t.Context(), "team", "rule"); err != nil || calls != 2 || text != "2" {
		t.Errorf("%v after %d calls, and the rule is %q; want the second to be kept", err, calls, text)
	}
	if err := grow(t, s, id, run); err != nil {
		t.Error(err)
	}
}

// terminate makes the database end connections.
func terminate(t *testing.T, url, which string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }()
	var n int
	const end = "SELECT count(*) FROM (SELECT pg_terminate_backend(pid, 60000) AS gone FROM pg_stat_activity WHERE datname = current_database() AND "
	if err := c.QueryRow(t.Context(), end+which+") x WHERE gone").Scan(&n); err != nil || n == 0 {
		t.Fatalf("%d connections were ended, %v", n, err)
	}
}

func TestListenerThatIsLostMissesNothing(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	p, proxied := newProxy(t, url)
	one, two := openTest(t, url), openTest(t, proxied)
	id, run := newTestAgent(t, one)
	for n := range int64(3) {
		done := make(chan error, 1)
		go func() { done <- two.Wait(t.Context(), id, 2+3*n) }()
		p.down.Store(true)
		p.sever()
		if err := grow(t, one, id, run); err != nil { // the other server gets no notification
			t.Fatal(err)
		}
		p.down.Store(false)
		// If Wait has not started yet, it may return the error that the database is
		// unreachable.
		if err := <-done; err != nil && !errors.Is(err, store.ErrUnreachable) {
			t.Fatal(err)
		}
		if events, err := two.Read(t.Context(), id, 2+3*n, 10); err != nil || len(events) != 3 {
			t.Fatalf("%d events, %v; want 3", len(events), err)
		}
	}
}

func TestSerializationFailureIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := openTest(t, newDatabase(t))
	for _, code := range []string{serialization, deadlock} {
		calls := 0
		raise := func(tx *table.Tx) error {
			calls++
			if err := tx.Q.PutRule(tx.Ctx, query.PutRuleParams{Owner: "team", Name: code, Text: fmt.Sprint(calls)}); err != nil || calls == 3 {
				return err
			}
			_, err := s.db.ExecContext(tx.Ctx, "DO $$ BEGIN RAISE 'in the way' USING ERRCODE = '"+code+"'; END $$")
			return err
		}
		if err := s.Write(t.Context(), "", raise); err != nil {
			t.Error(err)
		}
		if text, err := s.Rule(t.Context(), "team", code); text != "3" || err != nil {
			t.Errorf("after %s the rule is %q, %v; want that of the third try", code, text, err)
		}
	}
	calls := 0
	err := s.Write(t.Context(), "", func(tx *table.Tx) error {
		calls++
		_, err := s.db.ExecContext(tx.Ctx, "SELECT 1/0")
		return err
	})
	if err == nil || calls != 1 {
		t.Errorf("an error that would come again: %v after %d calls; want one call", err, calls)
	}
}

// If two transactions wait for each other's rows, PostgreSQL aborts one of
// them, and the store retries it.
func TestDeadlockEnds(t *testing.T) {
	t.Parallel()
	s := openTest(t, newDatabase(t))
	for _, name := range []string{"a", "b"} {
		if err := s.SetRule(t.Context(), "team", name, ""); err != nil {
			t.Fatal(err)
		}
	}
	var met sync.WaitGroup
	met.Add(2)
	var wg sync.WaitGroup
	for _, names := range [][2]string{{"a", "b"}, {"b", "a"}} {
		wg.Go(func() {
			first := true
			err := s.Write(t.Context(), names[0], func(tx *table.Tx) error {
				for i, name := range names {
					if i == 1 && first {
						first = false
						met.Done()
						met.Wait()
					}
					if err := tx.Q.PutRule(tx.Ctx, query.PutRuleParams{Owner: "team", Name: name, Text: names[0]}); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestStatementThatTakesTooLong(t *testing.T) {
	t.Parallel()
	s := openTest(t, strings.NewReplacer("statement_timeout=0", "statement_timeout=50", "lock_timeout=0", "lock_timeout=50").Replace(newDatabase(t)))
	_, err := s.db.ExecContext(t.Context(), "SELECT pg_sleep(600)")
	if !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("a statement that takes too long: %v; want ErrUnreachable", err)
	}
	held := make(chan error)
	go func() {
		held <- s.Write(t.Context(), "busy", func(*table.Tx) error {
			_, err := s.Acquire(t.Context(), "busy", "me", time.Hour)
			if !errors.Is(err, store.ErrUnreachable) {
				return fmt.Errorf("a change that waits for another for too long: %w; want ErrUnreachable", err)
			}
			return nil
		})
	}()
	if err := <-held; err != nil {
		t.Error(err)
	}
}

func TestSchemaIsMadeByManyAtOnce(t *testing.T) {
	t.Parallel()
	url := postgrestest.Shared(t).Database(t, "")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := Open(t.Context(), url, "server-"+uuid.NewString(), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := s.CountKeys(t.Context()); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	s := openTest(t, url)
	discard := slog.New(slog.DiscardHandler)
	want := func(url, serverID, code string) {
		t.Helper()
		if other, err := Open(t.Context(), url, serverID, discard); fault.Of(err).Code != code || fault.Of(err).Advice == "" {
			t.Errorf("Open = %v; want the fault %s with advice", err, code)
			if err == nil {
				_ = other.Close()
			}
		}
	}
	want("not an address", "a", "store_address")
	if _, err := s.db.ExecContext(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)"); err != nil {
		t.Fatal(err)
	}
	want(url, "a", "store_too_new")
	if _, err := s.db.ExecContext(t.Context(), "DELETE FROM goose_db_version WHERE version_id = 9999"); err != nil {
		t.Fatal(err)
	}
	want(url, s.ServerID(), "data_in_use")
	server := postgrestest.Shared(t)
	server.Exec(t, "postgres", "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
	want(server.URL("latin"), "a", "store_encoding")
	if _, err := Open(t.Context(), "postgres://aloft:pearl@127.0.0.1:1/aloft", "a", discard); !errors.Is(err, store.ErrUnreachable) || strings.Contains(err.Error(), "pearl") {
		t.Errorf("Open of nothing = %v; want ErrUnreachable, without the password", err)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	s := openTest(t, newDatabase(t))
	id, run := newTestAgent(t, s)
	done := make(chan error, 1)
	go func() { done <- s.Wait(t.Context(), id, 2) }()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-done; err == nil {
		t.Error("Wait returned nil from a closed store")
	}
	if err := grow(t, s, id, run); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Append to a closed store = %v", err)
	}
	if err := s.Wait(t.Context(), id, 0); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Wait for a closed store = %v", err)
	}
}

// TestQueriesAreTakenAsTheyAre has PostgreSQL check every query against the
// schema.
func TestQueriesAreTakenAsTheyAre(t *testing.T) {
	t.Parallel()
	s := openTest(t, newDatabase(t))
	q, err := query.Prepare(t.Context(), s.db)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
}

// TestSchemasAreOfOneAge checks that both dialects have the same migrations.
func TestSchemasAreOfOneAge(t *testing.T) {
	last := func(pattern string) string {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		number, _, _ := strings.Cut(filepath.Base(files[len(files)-1]), "_")
		return number
	}
	if ours, sqlite := last("migrations/*.sql"), last("../sqlite/migrations/*.sql"); ours != sqlite {
		t.Errorf("PostgreSQL's schema is %s and SQLite's %s; want a file of the same number in both, if only a comment", ours, sqlite)
	}
}
