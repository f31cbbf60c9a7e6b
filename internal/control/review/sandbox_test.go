package review

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/control/store"
	"aloft/internal/policy/permit"
	"aloft/internal/policy/sandbox"
)

// TestSandboxPolicy tests which sandbox.json takes effect.
func TestSandboxPolicy(t *testing.T) {
	type files map[string]string
	for _, c := range []struct {
		name             string
		project          files
		user, team       string
		hosts            sandbox.NetworkMode
		want             func(p *sandbox.Policy) // changes of the default policy
		treatment        permit.Treatment
		unreadable, says string
	}{
		{name: "Nobody", want: func(*sandbox.Policy) {}},
		{name: "Project", project: files{".cursor/sandbox.json": `{"additionalReadwritePaths": ["/cache"], "disableTmpWrite": true}`}, want: func(p *sandbox.Policy) {
			p.ReadWrite, p.DisableTmpWrite = []string{"/cache"}, true
		}},
		{name: "OwnFolderFirst", project: files{".aloft/sandbox.json": `{"type": "workspace_readonly"}`, ".cursor/sandbox.json": `{"disableTmpWrite": true}`}, want: func(p *sandbox.Policy) {
			p.Type = sandbox.ReadOnly
		}},
		{name: "ProjectOverUser", project: files{".cursor/sandbox.json": `{"readBoundary": "system", "additionalReadPaths": ["/a"]}`}, user: `{"readBoundary": "workspace", "additionalReadPaths": ["/b"]}`, want: func(p *sandbox.Policy) {
			p.Read = []string{"/b", "/a"}
		}},
		{name: "TeamNarrows", project: files{".cursor/sandbox.json": `{"type": "workspace_readwrite"}`}, team: `{"type": "workspace_readonly", "readBoundary": "workspace"}`, want: func(p *sandbox.Policy) {
			p.Type, p.ReadBoundary = sandbox.ReadOnly, sandbox.Workspace
		}},
		{name: "TeamTakesTheListOfHosts", user: `{"networkPolicy": {"allow": ["a.example.com"]}}`, team: `{"networkPolicy": {"allow": ["b.example.com"]}}`, want: func(p *sandbox.Policy) {
			p.Network.Allow = []string{"b.example.com"}
		}},
		{name: "OperatorTakesTheDefaultHosts", hosts: sandbox.FileOnly, want: func(p *sandbox.Policy) { p.Network.Mode, p.Network.Allow = "none", nil }},
		{name: "NoSandboxIsReviewed", project: files{".cursor/sandbox.json": `{"type": "insecure_none"}`}, treatment: permit.Classify, says: "insecure_none", want: func(p *sandbox.Policy) {
			p.Type = sandbox.InsecureNone
		}},
		{name: "TeamKeepsTheSandbox", project: files{".cursor/sandbox.json": `{"type": "insecure_none"}`}, team: `{"type": "workspace_readwrite"}`, want: func(*sandbox.Policy) {}},
		{name: "UnreadableIsAsked", project: files{".cursor/sandbox.json": `{"type": "none"}`}, treatment: permit.Ask, unreadable: ".cursor/sandbox.json", says: "could not be read"},
		{name: "UnreadableOfTheTeam", team: `[]`, treatment: permit.Ask, unreadable: "the team's sandbox.json", says: "could not be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, permit.AutoReview)
			r.Hosts = c.hosts
			r.project = c.project
			r.set(t, store.RulesOf(7), sandboxFile, c.user)
			r.set(t, store.TeamRules, sandboxFile, c.team)
			got, err := r.SandboxPolicy(t.Context(), r.state.Agent)
			if c.unreadable != "" {
				if !Unreadable(err) || !strings.Contains(err.Error(), c.unreadable) {
					t.Errorf("got %v", err)
				}
			} else if err != nil {
				t.Error(err)
			} else {
				want := sandbox.Layers{}.Merge()
				c.want(&want)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			}
			v, err := r.Check(t.Context(), r.state, call("Shell", `{"command":"rm x"}`), true)
			if err != nil {
				t.Fatal(err)
			}
			if c.treatment == "" {
				c.treatment = permit.Sandboxed
			}
			if v.Treatment != c.treatment || !strings.Contains(v.Why, c.says) {
				t.Errorf("treated %+v, want %s", v.Decision, c.treatment)
			}
		})
	}
}

// TestGitSandbox tests when the server's git hooks run in the sandbox, and how.
func TestGitSandbox(t *testing.T) {
	for _, c := range []struct {
		name   string
		mode   permit.Mode
		always bool
		user   string // sandbox.json
		want   *sandbox.Policy
	}{
		{name: "RunEverything", mode: permit.RunEverything, always: true},
		{name: "Allowlist", mode: permit.Allowlist},
		{name: "AllowlistInTheSandbox", mode: permit.Allowlist, always: true, want: new(sandbox.Layers{}.Merge())},
		{name: "AutoReview", mode: permit.AutoReview, want: new(sandbox.Layers{}.Merge())},
		{name: "ReadOnlyCannotCommit", mode: permit.AutoReview, user: `{"type": "workspace_readonly"}`, want: new(sandbox.Layers{}.Merge())},
		{name: "NoSandbox", mode: permit.AutoReview, user: `{"type": "insecure_none"}`},
		{name: "Unreadable", mode: permit.AutoReview, user: `[]`, want: new(sandbox.Default())},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.mode)
			r.Sandbox = c.always
			r.set(t, store.RulesOf(7), sandboxFile, c.user)
			got, err := r.GitSandbox(t.Context(), r.state.Agent)
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}
