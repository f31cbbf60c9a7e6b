package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// provider is a Chat Completions server that responds at once: with a call of Shell
// `true` in each turn, and with a final message after the last turn.
type provider struct {
	turns int

	mu       sync.Mutex
	asked    []time.Time // when each request had been read
	answered []time.Time // when each response had been written
	last     []byte      // the newest request
	first    [][]byte    // the first requests, at most maxFirst
}

const maxFirst = 50

// chunks returns the events of a response that calls Shell with that id, or of
// the final message.
func chunks(id string) string {
	delta := `{"content":"Done."}`
	finish := "stop"
	if id != "" {
		delta = `{"tool_calls":[{"index":0,"id":"` + id + `","type":"function","function":{"name":"Shell","arguments":"{\"command\":\"true\"}"}}]}`
		finish = "tool_calls"
	}
	var b strings.Builder
	for _, choices := range []string{
		`[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]`,
		`[{"index":0,"delta":` + delta + `,"finish_reason":null}]`,
		`[{"index":0,"delta":{},"finish_reason":"` + finish + `"}],"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}`,
	} {
		b.WriteString(`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"bench","choices":` + choices + "}\n\n")
	}
	b.WriteString("data: [DONE]\n\n")
	return b.String()
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	id := ""
	counted := r.URL.Query().Get("bare") == ""
	p.mu.Lock()
	if n := len(p.asked); n < p.turns || !counted {
		id = fmt.Sprintf("call_of_bench_%d", n)
	}
	if counted {
		p.asked, p.last = append(p.asked, time.Now()), body
		if len(p.first) < maxFirst {
			p.first = append(p.first, body)
		}
	}
	p.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, chunks(id)) // if the client is gone, the run fails
	if counted {
		p.mu.Lock()
		p.answered = append(p.answered, time.Now())
		p.mu.Unlock()
	}
}

// turns measures the time of a turn when the model responds at once, from one
// request at its server to the next, and the parts of that time.
func turns() (rows []row, err error) {
	const n, few = 1000, 50
	fmt.Fprintln(os.Stderr, "measuring turns")
	dir, err := os.MkdirTemp("", "aloft-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p := &provider{turns: n}
	models := httptest.NewServer(p)
	defer models.Close()
	s, err := serveWith(dir, once, "  - {id: bench, provider: openai, api: chat, base_url: "+models.URL+"/v1, api_key: none}\n")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	id, err := s.work("bench")
	if err != nil {
		return nil, err
	}
	if len(p.asked) != n+1 {
		return nil, fmt.Errorf("the run has ended after %d requests to the model", len(p.asked))
	}
	written, err := s.appends(id)
	if err != nil {
		return nil, err
	}
	var none any
	if err := s.do(http.MethodDelete, "/v1/agents/"+id, nil, &none); err != nil {
		return nil, err
	}
	bare, err := p.bare(dir, models.URL+"/v1/chat/completions?bare=1")
	if err != nil {
		return nil, err
	}
	first, last := p.between(1, few), p.between(n-few, n)
	rows = []row{
		{"a turn of Shell `true`, request to request, turns 1–50", ms(median(first)), ms(bare.sum()), times(median(first), bare.sum()) + " its parts, bare", "≤ 4 ms"},
		{"the same, 90 of 100 within", ms(percentile(first, 90)), "", "", ""},
		{fmt.Sprintf("the same, turns %d–%d", n-few+1, n), ms(median(last)), ms(median(first)), times(median(last), median(first)) + " the first ones", "flat"},
	}
	hits, err := hitRate(p.first)
	if err != nil {
		return nil, err
	}
	rows = append(rows, row{fmt.Sprintf("prompt cache: share of the prompts that hits, turns 2–%d", len(p.first)), fmt.Sprintf("%.1f%%", 100*hits), "", "", "≥ 95%"})
	return append(rows, p.parts(written, few, bare)...), nil
}

// hitRate returns the share of the prompts' bytes that a provider can read from
// its cache: the tools if they have not changed, and then the messages up to the
// first one that differs from the previous request. The first request is not
// counted.
func hitRate(requests [][]byte) (float64, error) {
	type prompt struct{ Tools, Messages []json.RawMessage }
	var before prompt
	hits, all := 0, 0
	for n, body := range requests {
		var now prompt
		if err := json.Unmarshal(body, &now); err != nil {
			return 0, err
		}
		same := true
		count := func(was, is []json.RawMessage) {
			for i, part := range is {
				same = same && i < len(was) && bytes.Equal(was[i], part)
				if n > 0 {
					all += len(part)
				}
				if n > 0 && same {
					hits += len(part)
				}
			}
		}
		count(before.Tools, now.Tools)
		same = same && len(before.Tools) == len(now.Tools)
		count(before.Messages, now.Messages)
		before = now
	}
	if all == 0 {
		return 0, errors.New("there is no second prompt")
	}
	return float64(hits) / float64(all), nil
}

// work runs an agent with the model until the run ends.
func (s *server) work(model string) (id string, err error) {
	var made struct {
		Agent struct{ ID string }
		Run   struct{ ID string }
	}
	body := map[string]any{"prompt": map[string]string{"text": "go"}, "model": map[string]string{"id": model}}
	if err := s.do(http.MethodPost, "/v1/agents", body, &made); err != nil {
		return "", err
	}
	path := "/v1/agents/" + made.Agent.ID + "/runs/" + made.Run.ID
	for {
		var run struct{ Status string }
		if err := s.do(http.MethodGet, path, nil, &run); err != nil {
			return "", err
		}
		switch run.Status {
		case "FINISHED":
			return made.Agent.ID, nil
		case "CREATING", "RUNNING":
			time.Sleep(100 * time.Millisecond) // poll, because a stream would add load to the server
		default:
			return "", fmt.Errorf("the run ended %s", run.Status)
		}
	}
}

// between returns the times between consecutive requests. from and to are request
// numbers, counted from 1.
func (p *provider) between(from, to int) (out []float64) {
	for i := from; i < to; i++ {
		out = append(out, float64(p.asked[i].Sub(p.asked[i-1])))
	}
	return out
}

// appends returns the times at which the server's store wrote to the agent's journal.
// Each write is a transaction with one fsync. All events of one append have the same
// time.
func (s *server) appends(agentID string) (at []time.Time, err error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.dir, "data", "aloft.db")+"?mode=ro")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.Query("SELECT DISTINCT time FROM events WHERE agent_id = ? ORDER BY time", agentID)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var nanos int64
		if err := rows.Scan(&nanos); err != nil {
			return nil, err
		}
		at = append(at, time.Unix(0, nanos))
	}
	return at, rows.Err()
}

// parts breaks down the time of the first few turns.
func (p *provider) parts(written []time.Time, few int, bare bareTurn) []row {
	var reply, machine, request, count []float64
	for i := range few {
		begun, end := p.answered[i], p.asked[i+1]
		var within []time.Time
		for _, at := range written {
			if at.After(p.asked[i]) && at.Before(end) {
				within = append(within, at)
			}
		}
		if count = append(count, float64(len(within))); len(within) == 0 {
			continue
		}
		reply = append(reply, float64(within[0].Sub(begun)))
		machine = append(machine, float64(within[len(within)-1].Sub(within[0])))
		request = append(request, float64(end.Sub(within[len(within)-1])))
	}
	return []row{
		{"of which: the reply, until it is journaled", ms(median(reply)), ms(bare.model), times(median(reply), bare.model) + " a POST of the last request", ""},
		{"of which: fsync, hooks, the call in the machine", ms(median(machine)), ms(bare.fsync + bare.process), times(median(machine), bare.fsync+bare.process) + " an INSERT and fork+exec", ""},
		{"of which: fsync, the next request", ms(median(request)), ms(bare.fsync), times(median(request), bare.fsync) + " an INSERT", ""},
		{"appends of a turn, an fsync each", fmt.Sprintf("%.0f", median(count)), "", "", "2"},
	}
}

// bareTurn holds the baseline costs of a turn's parts in nanoseconds.
type bareTurn struct{ model, fsync, process float64 }

// sum returns the baseline of a turn: a request, two commits and a process.
func (b bareTurn) sum() float64 { return b.model + 2*b.fsync + b.process }

// bare measures the baseline costs: a POST of the newest request with its
// response, a durable INSERT, and a process running `true`.
func (p *provider) bare(dir, url string) (b bareTurn, err error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "bare.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.Exec("CREATE TABLE t (n INTEGER PRIMARY KEY, data BLOB)"); err != nil {
		return b, err
	}
	for work, into := range map[*float64]func() error{
		&b.model: func() error {
			resp, err := http.Post(url, "application/json", bytes.NewReader(p.last))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			_, err = io.Copy(io.Discard, resp.Body)
			return err
		},
		&b.fsync: func() error {
			_, err := db.Exec("INSERT INTO t (data) VALUES (?)", make([]byte, 400))
			return err
		},
		&b.process: func() error { return exec.Command("true").Run() },
	} {
		var took []float64
		for range 100 {
			begun := time.Now()
			if err := into(); err != nil {
				return b, err
			}
			took = append(took, float64(time.Since(begun)))
		}
		*work = median(took)
	}
	return b, nil
}

func median(of []float64) float64 { return percentile(of, 50) }

// percentile returns the given percentile, or 0 for no values.
func percentile(of []float64, percent int) float64 {
	if len(of) == 0 {
		return 0
	}
	of = slices.Sorted(slices.Values(of))
	return of[min(len(of)*percent/100, len(of)-1)]
}
