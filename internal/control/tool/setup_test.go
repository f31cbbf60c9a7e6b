package tool

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/conversation"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

// kept stores scripts, or returns an error.
type kept struct {
	script string
	err    error
}

func (k *kept) KeepScript(_ context.Context, _ agent.Agent, callID, script string) (environment.Saved, error) {
	if k.err == nil {
		k.script = callID + ": " + script
	}
	return environment.Saved{ID: "env-1", VersionID: "envv-1"}, k.err
}

func TestSetupVmEnvironment(t *testing.T) {
	call := func(k Scripts, args string) (out struct {
		Success struct {
			EnvironmentID string `json:"environment_id"`
			VersionID     string `json:"version_id"`
		}
		Error struct{ Code, Message string }
	}, event agent.Body, text string) {
		t.Helper()
		r, event := Run(t.Context(), conversation.ToolCall{ID: "c1", Name: "SetupVmEnvironment", Args: json.RawMessage(args)}, &agent.State{}, k)
		if err := json.Unmarshal(r.Output, &out); err != nil {
			t.Fatal(err)
		}
		if r.Error != (out.Error.Code != "") || r.Error != (event == nil) {
			t.Errorf("%s: %+v with the event %v", args, r, event)
		}
		return out, event, r.Text
	}
	k := &kept{}
	out, event, _ := call(k, `{"update_script": "npm ci\nmake\n"}`)
	if k.script != "c1: npm ci\nmake" || out.Success.EnvironmentID != "env-1" || out.Success.VersionID != "envv-1" {
		t.Errorf("kept %q, said %+v", k.script, out)
	}
	if e, ok := event.(*agent.ScriptKept); !ok || *e != (agent.ScriptKept{EnvironmentID: "env-1", VersionID: "envv-1", Script: "npm ci\nmake"}) {
		t.Errorf("the event is %+v", event)
	}
	k.err = fault.Denied("not here").Named("agent_may_not_save").Hint("ask the user")
	if out, _, text := call(k, `{"update_script": "x"}`); out.Error.Code != "agent_may_not_save" || text != "Not stored: not here. To fix this: ask the user" {
		t.Errorf("a refusal: %+v, %q", out, text)
	}
	for _, args := range []string{`{}`, `{"update_script": " \n"}`, `{"update_script": 5}`, `{"update_script": "x", "more": 1}`, `{"update_script": "` + strings.Repeat("x", environment.MaxScript+1) + `"}`} {
		k := &kept{}
		if out, _, _ := call(k, args); out.Error.Code == "" || k.script != "" {
			t.Errorf("%.60s: %+v, and kept %q", args, out, k.script)
		}
	}
	if out, _, _ := call(nil, `{"update_script": "x"}`); out.Error.Code == "" {
		t.Error("kept by nobody")
	}
}
