package loop_test

import (
	"slices"
	"strings"
	"testing"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/conversation"
	"aloft/internal/policy/permit"
	"aloft/internal/tool"
)

// plan starts a run in plan mode.
func (r *rig) plan() {
	r.record(&agent.RunEnded{Status: agent.Finished})
	r.run = agent.NewRunID()
	r.record(&agent.RunCreated{Prompt: conversation.Text(conversation.User, "plan it"), Mode: agent.ModePlan})
}

// In plan mode every tool either only reads, or affects only the conversation,
// or is refused, whoever calls it.
func TestPlanModeChangesNothing(t *testing.T) {
	harmless := []string{"TodoWrite", "AskQuestion", "CreatePlan", "SwitchMode", "McpAuth"} // these tools ask a person, or write the agent's own list
	args := map[string]string{
		"Task":             `{"description":"x","prompt":"x","subagent_type":"generalPurpose"}`,
		"CallMcpTool":      `{"server":"tickets","tool_name":"search","arguments":{}}`,
		"PrManagement":     `{"action":"create"}`,
		"FetchMcpResource": `{"server":"tickets","uri":"ticket://1","downloadPath":"notes/1.txt"}`,
	}
	for _, spec := range tool.Catalogue() {
		if spec.ReadOnly || slices.Contains(harmless, spec.Name) {
			continue
		}
		t.Run(spec.Name, func(t *testing.T) {
			r := newRig(t, true)
			servers := r.connected()
			r.paints()
			r.remembers(account.MemoryOn)
			r.pulls = &pulls{}
			r.reviewed(permit.RunEverything, "") // even without a person's answer the tool is refused
			r.plan()
			given := args[spec.Name]
			if given == "" {
				given = `{"path":"a","command":"touch a","contents":"x","target_notebook":"a"}`
			}
			r.model.steps = []step{use(spec.Name + " " + given), say("done")}
			if run := r.work(t.Context()); run.Status != agent.Finished {
				t.Fatalf("got %+v", run)
			}
			done := bodies[*agent.CallDone](r)
			why := "plan mode allows no changes"
			if spec.Name == "ComputerUse" {
				why = "use Task" // "use Task": the tool is refused
			}
			if len(done) != 1 || !done[0].Error || !strings.Contains(done[0].Text, why) {
				t.Errorf("%d results, the first %+v", len(done), *done[0])
			}
			if slices.Contains(r.machine.asked, spec.Name) || len(servers.calls()) > 0 || len(bodies[*agent.TaskBegan](r)) > 0 {
				t.Errorf("asked %q, %q", r.machine.asked, servers.calls())
			}
		})
	}
}

// In plan mode a read-only subagent cannot change anything either.
func TestPlanModeOfASubagent(t *testing.T) {
	r := newRig(t, false)
	r.reviewed(permit.RunEverything, "")
	r.plan()
	r.model.steps = []step{
		use(`Task {"description":"look","prompt":"look","subagent_type":"explore"}`),
		use(`Write {"path":"a","contents":"x"}`, `Shell {"command":"touch a"}`, `SwitchMode {"target_mode":"agent"}`), say("seen"), say("done"),
	}
	r.work(t.Context())
	for _, d := range within[*agent.CallDone](r) {
		if !d.Error || !strings.Contains(d.Text, "not available") {
			t.Errorf("got %q", d.Text)
		}
	}
	if len(r.machine.asked) > 0 {
		t.Errorf("asked %q", r.machine.asked)
	}
}

// TestSwitchMode checks how an agent can change its mode.
func TestSwitchMode(t *testing.T) {
	write := `Write {"path":"a","contents":"x"}`
	for _, c := range []struct {
		name   string
		plan   bool
		call   string
		answer agent.Decision // "" if no person is asked
		want   string         // the result
		writes bool           // whether the agent may write afterwards
	}{
		{"ToPlan", false, `SwitchMode {"target_mode":"plan","explanation":"it is large"}`, "", "You are in plan mode", false},
		{"ToAgentAllowed", true, `SwitchMode {"target_mode":"agent","explanation":"it is one line"}`, agent.AllowOnce, "You are in agent mode", true},
		{"ToAgentDenied", true, `SwitchMode {"target_mode":"agent"}`, agent.Deny, "the user denied it", false},
		{"WhereItIs", true, `SwitchMode {"target_mode":"plan"}`, "", "You are in plan mode", false},
		{"Nowhere", true, `SwitchMode {"target_mode":"yolo"}`, "", "must be plan or agent", false},
		{"NoArguments", true, `SwitchMode {}`, "", "must be plan or agent", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, false)
			r.reviewed(permit.RunEverything, "")
			if c.plan {
				r.plan()
			}
			if c.answer != "" {
				r.answer(c.answer, "")
			}
			r.model.steps = []step{use(c.call), use(write), say("done")}
			if run := r.work(t.Context()); run.Status != agent.Finished {
				t.Fatalf("got %+v", run)
			}
			if got := results(r); !strings.Contains(got[0], c.want) {
				t.Errorf("got %q", got[0])
			}
			if wrote := slices.Contains(r.machine.asked, "Write"); wrote != c.writes {
				t.Errorf("it wrote: %v", wrote)
			}
			asked := bodies[*agent.ApprovalAsked](r)
			if (len(asked) > 0) != (c.answer != "") {
				t.Errorf("it asked %d times", len(asked))
			}
			state := agent.Fold(r.id, r.events())
			if plans := state.Mode == agent.ModePlan; plans == c.writes {
				t.Errorf("the mode is %q", state.Mode)
			}
		})
	}
}

// If a server restarts while a person is asked to end plan mode, it does not
// ask again.
func TestSwitchModeOverARestart(t *testing.T) {
	r := newRig(t, false)
	r.reviewed(permit.RunEverything, "")
	r.plan()
	r.model.steps = []step{use(`SwitchMode {"target_mode":"agent"}`), say("done")}
	r.restart(func() { r.asked() })
	r.answer(agent.AllowOnce, "")
	r.work(t.Context())
	if n := len(bodies[*agent.ApprovalAsked](r)); n != 1 || len(bodies[*agent.ModeSwitched](r)) != 1 {
		t.Errorf("it asked %d times", n)
	}
}
