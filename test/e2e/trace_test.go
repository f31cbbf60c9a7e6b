package e2e

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/telemetry/telemetrytest"
)

const traceScript = `
scripts:
  - turns:
      - calls:
          - {tool: Shell, args: {command: "echo PRIVATE-WORDS; env | grep -c EXEC_DAEMON"}}
      - text: Done.
`

// One trace links a request to its run, its turns, their model requests and
// tool calls, and exec-daemon's work in the machine.
func TestOneTraceFromTheRequestToTheTool(t *testing.T) {
	t.Parallel()
	r := telemetrytest.Start(t, "t0ken-of-the-receiver")
	git := gittest.New(t)
	url := git.Repo("r", map[string]string{"README.md": "r\n"})
	a := start(t, scripted(t, traceScript)+"telemetry:\n  endpoint: "+r.URL+"\n  insecure: true\n  ghost_mode: false\n  token: t0ken-of-the-receiver\n")
	const traceID, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	body, err := json.Marshal(object{"prompt": object{"text": "Say it"}, "repos": []object{{"url": url}}})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.URL+"/v1/agents", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.Key)
	req.Header.Set("traceparent", "00-"+traceID+"-"+span+"-01")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var made struct{ Agent, Run struct{ ID string } }
	if err := json.NewDecoder(res.Body).Decode(&made); err != nil || res.StatusCode != 201 {
		t.Fatalf("%d, %v", res.StatusCode, err)
	}
	done := a.finish(run{AgentID: made.Agent.ID, ID: made.Run.ID})
	// The kinds of spans, with the parent's kind and the number of spans; 0
	// means any number.
	kinds := map[string]struct {
		above string
		n     int
	}{
		"POST /v1/agents": {"", 1}, "run": {"POST /v1/agents", 1}, "turn": {"run", 2}, "model": {"turn", 2}, "tool Shell": {"turn", 1},
		"exec Shell": {"tool Shell", 1}, "agent.v1.ExecService/ExecStream": {"run", 1},
		"boot": {"run", 0}, "commit": {"run", 0}, "push": {"run", 0},
	}
	kind := func(s *tracepb.Span) string {
		if strings.HasPrefix(s.GetName(), "boot ") {
			return "boot"
		}
		return s.GetName()
	}
	var spans map[string]*tracepb.Span // the trace's spans by id
	r.Await(t, "a span of each", func() bool {
		spans = map[string]*tracepb.Span{}
		count := map[string]int{}
		for _, s := range r.AllSpans() {
			if hex.EncodeToString(s.GetTraceId()) == traceID {
				spans[hex.EncodeToString(s.GetSpanId())] = s
				count[kind(s)]++
			}
		}
		for name, k := range kinds {
			if count[name] < k.n {
				return false
			}
		}
		return count["boot"] > 0
	})
	belowTurns := map[string]int{}
	for id, s := range spans {
		k, known := kinds[kind(s)]
		parent := hex.EncodeToString(s.GetParentSpanId())
		switch {
		case !known:
			t.Errorf("a span of the name %q", s.GetName())
		case k.above == "" && parent != span:
			t.Errorf("%s is below %s, want the caller's span", s.GetName(), parent)
		case k.above != "" && (spans[parent] == nil || kind(spans[parent]) != k.above):
			t.Errorf("%s (%s) is below %s (%s), want %s", s.GetName(), id, parent, spans[parent].GetName(), k.above)
		}
		if k.above == "turn" {
			belowTurns[s.GetName()+parent]++
		}
	}
	if len(belowTurns) != 3 { // each turn has a model span, and the first also a tool span
		t.Errorf("below turns: %v", belowTurns)
	}
	r.Await(t, "what exec-daemon counts and logs", func() bool {
		return r.Metric("exec_daemon_tool_calls") != nil && slices.ContainsFunc(r.Logs(), func(l *logspb.LogRecord) bool {
			return l.GetBody().GetStringValue() == "listening"
		})
	})
	if n := r.Metric("exec_daemon_tool_calls").GetSum().GetDataPoints(); len(n) != 1 || n[0].GetAsInt() != 1 {
		t.Errorf("calls in the machine: %v", n)
	}
	for _, not := range []string{"PRIVATE-WORDS", "t0ken-of-the-receiver", "Say it", url} {
		if strings.Contains(r.Text(), not) {
			t.Errorf("%q was sent", not)
		}
	}
	if strings.Contains(a.events(done.AgentID), "t0ken-of-the-receiver") {
		t.Error("the receiver's token was in the machine")
	}
}

// In ghost mode, the default, the server sends no telemetry, and exec-daemon
// has no exporter.
func TestGhostModeMakesNoExporter(t *testing.T) {
	t.Parallel()
	r := telemetrytest.Start(t, "")
	git := gittest.New(t)
	url := git.Repo("r", map[string]string{"README.md": "r\n"})
	a := start(t, scripted(t, strings.Replace(traceScript, "env | grep -c EXEC_DAEMON", "cat /proc/[0-9]*/cmdline | tr '\\\\0' ' ' | grep -c '[-]-trace-endpoin[t]'", 1))+
		"telemetry:\n  endpoint: "+r.URL+"\n  insecure: true\n")
	done := a.finish(a.create(url, "Say it", nil))
	if got := a.events(done.AgentID); !strings.Contains(got, `PRIVATE-WORDS\n0\n`) {
		t.Errorf("exec-daemon has an endpoint: %s", got)
	}
	a.Stop()
	if n := r.Requests(); n != 0 {
		t.Errorf("%d requests", n)
	}
}
