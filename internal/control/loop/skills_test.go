package loop_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/remote"
	"aloft/internal/conversation"
	"aloft/internal/rule"
	"aloft/internal/tool"
)

// TestSkillsOfTheServer checks that the team's and the owner's skills are files
// in the machine, and that the model and the journal get only their names and
// descriptions.
func TestSkillsOfTheServer(t *testing.T) {
	r := newRig(t, true)
	files := map[string]string{}
	r.machine.call = func(_ context.Context, c conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
		var in struct{ Path, Contents string }
		if c.Name != "Write" || json.Unmarshal(c.Args, &in) != nil {
			t.Errorf("the machine was asked for %s", c.Name)
		}
		files[in.Path] = in.Contents
		return tool.Result{Text: "written"}, nil
	}
	r.change = func(c *loop.Config) {
		c.Team.Rules = func(context.Context, agent.Agent) (rules []rule.Rule, err error) {
			for _, from := range []rule.From{rule.Team, rule.User} {
				skills, _, err := rule.ParseSkills(from, "---\nname: release\ndescription: How the "+string(from)+" releases\n---\nRun make "+string(from)+".")
				if err != nil {
					return nil, err
				}
				rules = append(rules, skills...)
			}
			return rules, nil
		}
	}
	r.model.steps = []step{say("done")}
	if run := r.work(t.Context()); run.Status != agent.Finished {
		t.Fatalf("%+v", run.Failure)
	}
	heard := heardAll(r.model.requests[0])
	for _, from := range []string{"team", "user"} {
		path := "/tmp/aloft-skills/" + from + "/release/SKILL.md"
		if !strings.HasSuffix(files[path], "Run make "+from+".\n") {
			t.Errorf("%s has %q", path, files[path])
		}
		if !strings.Contains(heard, path+"): How the "+from+" releases") || strings.Contains(heard, "Run make") {
			t.Errorf("the model was told:\n%s", heard)
		}
	}
	for _, b := range bodies[*agent.RulesFound](r) {
		for _, found := range b.Rules {
			if found.Text != "" {
				t.Errorf("the journal has the text of %s", found.Source)
			}
		}
	}
}
