package observe

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/conversation"
	"aloft/internal/telemetry"
	"aloft/internal/telemetry/telemetrytest"
)

// private is the text of users and machines in these events. It must not be
// exported.
const private = "PRIVATE"

const upstream = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// lifecycle returns the events of a run, with every kind, one second apart.
func lifecycle(runID string) []agent.Event {
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	call := conversation.Block{Call: &conversation.ToolCall{ID: "c1", Name: "Shell", Args: json.RawMessage(`{"command":"` + private + `"}`)}}
	odd := conversation.Block{Call: &conversation.ToolCall{ID: "c2", Name: private, Args: json.RawMessage(`{}`)}}
	var events []agent.Event
	for i, b := range []agent.Body{
		&agent.RunCreated{Prompt: conversation.Text(conversation.User, private), Trace: upstream},
		&agent.RunStarted{},
		&agent.MachineMade{MachineID: "m"},
		&agent.BootStep{Name: "checkout", State: "running", Detail: private},
		&agent.BootStep{Name: "checkout", State: "done", DurationMS: 1000, Detail: private},
		&agent.BootStep{Name: private, State: "failed", DurationMS: 500, Detail: private},
		&agent.MachineReady{MachineID: "m", BootID: "b"},
		&agent.ModelRetry{Reason: "model_overloaded", Message: private, Attempt: 1},
		&agent.TextDelta{Text: private},
		&agent.TurnReplied{Message: conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{{Text: private}, call, odd}},
			Usage: conversation.Usage{Input: 10, Output: 5}, Model: "house"},
		&agent.CallSent{CallID: "c1", BootID: "b"},
		&agent.CallDelta{CallID: "c1", Stdout: private},
		&agent.CallDone{CallID: "c1", Text: private, DurationMS: 1500},
		&agent.CallDone{CallID: "c2", Text: private, Error: true},
		&agent.TurnReplied{Message: conversation.Text(conversation.Assistant, private), Usage: conversation.Usage{Input: 20, CacheRead: 7}, Model: "house"},
		&agent.Committed{Commit: "c", Message: private},
		&agent.Pushed{RepoURL: "https://" + private, Branch: private, Commit: "c"},
		&agent.RunEnded{Status: agent.Finished, Result: private},
	} {
		events = append(events, agent.Event{RunID: runID, Time: start.Add(time.Duration(i) * time.Second), Body: b})
	}
	return events
}

// observed returns an observer on a store.
func observed(t *testing.T, sent *telemetry.Telemetry) *Observer {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "db"), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	o, err := New(Config{Journal: s, Agents: s, Telemetry: sent, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// live appends the events of a run one by one, as a loop does.
func live(t *testing.T, o *Observer, agentID string, events []agent.Event) {
	t.Helper()
	var head int64
	_, err := o.Journal().Append(t.Context(), store.Append{AgentID: agentID, IfHead: &head, Events: []agent.Event{
		{Time: events[0].Time, Body: &agent.Created{Name: private, UserID: 1, Env: agent.Env{Type: "cloud"}}}, events[0],
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events[1:] {
		if _, err := o.Journal().Append(t.Context(), store.Append{AgentID: agentID, Events: []agent.Event{e}}); err != nil {
			t.Fatal(err)
		}
	}
}

// An ended run uses no memory, even if an event follows its end.
func TestRunsAreForgotten(t *testing.T) {
	o := observed(t, nil)
	id, runID := agent.NewID(), agent.NewRunID()
	live(t, o, id, lifecycle(runID))
	late := agent.Event{RunID: runID, Body: &agent.HookRan{Command: "x"}}
	if _, err := o.Journal().Append(t.Context(), store.Append{AgentID: id, Events: []agent.Event{late}}); err != nil {
		t.Fatal(err)
	}
	if n := len(o.runs); n != 0 {
		t.Errorf("%d runs are remembered", n)
	}
}

func TestMetrics(t *testing.T) {
	o := observed(t, nil)
	live(t, o, agent.NewID(), lifecycle(agent.NewRunID()))
	open := lifecycle(agent.NewRunID())
	live(t, o, agent.NewID(), open[:2])
	head := int64(99)
	if _, err := o.Journal().Append(t.Context(), store.Append{AgentID: "bc-none", IfHead: &head, Events: open[1:2]}); err == nil {
		t.Error("a write that cannot be was done")
	}
	text, err := o.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`aloft_runs_started_total 2`, `aloft_runs_ended_total{code="",status="FINISHED"} 1`,
		`aloft_runs_active{status="RUNNING"} 1`, `aloft_runs_active{status="CREATING"} 0`,
		`aloft_tool_calls_total{outcome="ok",tool="Shell"} 1`, `aloft_tool_calls_total{outcome="error",tool="unknown"} 1`,
		`aloft_tool_call_seconds_bucket{tool="Shell",le="5"} 1`, `aloft_tool_call_seconds_sum{tool="Shell"} 1.5`,
		`aloft_model_requests_total{model="house",outcome="ok"} 2`, `aloft_model_requests_total{model="",outcome="model_overloaded"} 1`,
		`aloft_tokens_total{kind="input",model="house"} 30`, `aloft_tokens_total{kind="cache_read",model="house"} 7`, `aloft_prompt_cache_hit_ratio{model="house"} 0.1891891891891892`,
		`aloft_machine_boot_seconds_bucket{le="2.5"} 0`, `aloft_machine_boot_seconds_bucket{le="5"} 1`, `aloft_machine_boot_seconds_sum 4`,
		`aloft_journal_appends_total{outcome="ok"} 20`, `aloft_journal_appends_total{outcome="error"} 1`, `aloft_journal_events_total{kind="run.created"} 2`,
		`aloft_event_latency_seconds_count 20`, `# TYPE aloft_event_latency_seconds histogram`, `# TYPE aloft_runs_active gauge`,
	} {
		if !slices.Contains(strings.Split(string(text), "\n"), want) {
			t.Errorf("no line %s", want)
		}
	}
	if strings.Contains(string(text), private) {
		t.Error("what was said is in the metrics")
	}
	if t.Failed() {
		t.Log(string(text))
	}
	if err := o.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTrace(t *testing.T) {
	r := telemetrytest.Start(t, "")
	sent, err := telemetry.Open(telemetry.Config{Endpoint: r.URL, Insecure: true, Service: "aloft"})
	if err != nil {
		t.Fatal(err)
	}
	o := observed(t, sent)
	runID := agent.NewRunID()
	live(t, o, agent.NewID(), lifecycle(runID))
	if err := o.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := sent.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	spans := r.Spans()
	traceID := telemetry.Parse(upstream).TraceID()
	for name, want := range map[string]struct {
		parent string
		took   time.Duration
	}{
		"run": {"", 17 * time.Second}, "boot checkout": {"run", time.Second}, "boot step": {"run", 500 * time.Millisecond},
		"turn": {"run", time.Second}, "model": {"turn", time.Second}, "tool Shell": {"turn", 2 * time.Second}, "commit": {"run", time.Second}, "push": {"run", time.Second},
	} {
		s := spans[name]
		if s == nil || string(s.GetTraceId()) != string(traceID[:]) {
			t.Errorf("%s: %v", name, s)
			continue
		}
		if took := time.Duration(s.GetEndTimeUnixNano() - s.GetStartTimeUnixNano()); took != want.took {
			t.Errorf("%s took %v, want %v", name, took, want.took)
		}
		if above := spans[want.parent]; above != nil && want.parent == "run" && string(s.GetParentSpanId()) != string(above.GetSpanId()) {
			t.Errorf("%s is not below %s", name, want.parent)
		}
	}
	if up := telemetry.Parse(upstream).SpanID(); string(spans["run"].GetParentSpanId()) != string(up[:]) {
		t.Error("the run is not below the request's span")
	}
	// exec-daemon derives the call's span from the call's id.
	call := telemetry.Span(telemetry.Run(runID, upstream), "call c1").SpanID()
	if string(spans["tool Shell"].GetSpanId()) != string(call[:]) {
		t.Error("the call's span has another id")
	}
	if n := r.Metric("aloft_runs_ended").GetSum().GetDataPoints(); len(n) != 1 || n[0].GetAsInt() != 1 {
		t.Errorf("runs ended: %v", n)
	}
	if strings.Contains(r.Text(), private) {
		t.Error("what was said has been sent")
	}
}
