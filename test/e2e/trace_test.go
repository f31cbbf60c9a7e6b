package e2e

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

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

// One trace leads from a request, through run, turn, model and tool, to what
// exec-daemon does in the machine.
func TestOneTraceFromTheRequestToTheTool(t *testing.T) {
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
	want := []string{"POST /v1/agents", "run", "turn", "model", "tool Shell", "exec Shell", "agent.v1.ExecService/ExecStream"}
	r.Await(t, "a span of each", func() bool {
		return !slices.ContainsFunc(want, func(name string) bool { return r.Spans()[name] == nil })
	})
	spans := r.Spans()
	parents := map[string]string{"run": "POST /v1/agents", "turn": "run", "model": "turn", "tool Shell": "turn", "exec Shell": "tool Shell", "agent.v1.ExecService/ExecStream": "run"}
	for _, name := range want {
		s := spans[name]
		if got := hex.EncodeToString(s.GetTraceId()); got != traceID {
			t.Errorf("%s is of the trace %s", name, got)
		}
		above := span
		if of := parents[name]; of != "" {
			above = hex.EncodeToString(spans[of].GetSpanId())
		}
		if got := hex.EncodeToString(s.GetParentSpanId()); got != above && name != "tool Shell" && name != "model" && name != "turn" {
			t.Errorf("%s is below %s, want %s (%s)", name, got, above, parents[name])
		}
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

// In ghost mode, which is the default, nothing is sent, and exec-daemon has
// nobody to send to.
func TestGhostModeMakesNoExporter(t *testing.T) {
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
