package fleet

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/build"
	"aloft/internal/control/gateway"
	"aloft/internal/control/machine"
	"aloft/internal/control/pod"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

// bare returns the plan for a machine that a person sets up: the base of the
// plan, or the given image, without any commands.
func bare(p build.Plan, image string) build.Plan {
	e := &p.Environment
	if image != "" {
		*e = environment.Environment{Image: image}
		p.Where, p.Findings = "the image "+image, nil
	}
	e.Install, e.Start, e.Terminals = "", "", nil
	return p
}

// historyKept makes the shells in a machine that a person sets up write their
// history immediately, because the proposed environment is derived from it.
func historyKept(state *agent.State) map[string]string {
	if state.Agent.Env.Preset != agent.SetUp {
		return nil
	}
	return map[string]string{"PROMPT_COMMAND": "history -a"}
}

const (
	maxHistory   = 256 << 10 // bytes
	quickCommand = time.Minute
)

// SetUpHistory returns the lines that were typed in the machine's shells, or
// the last ones if there are many. The lines come from the machine, so they are
// untrusted.
func (f *Fleet) SetUpHistory(ctx context.Context, agentID string) ([]string, error) {
	a, err := f.Access(ctx, agentID)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	out := &pod.Tail{Limit: maxHistory}
	if _, err := a.Conn.RunCommand(ctx, "sync; tail -c 200000 ~/.bash_history 2>/dev/null", quickCommand, out); err != nil {
		return nil, visitFault(ctx, agentID, err)
	}
	return strings.Split(out.Text(), "\n"), nil
}

// Snapshot saves the disk of an agent's machine as the layer with the given id.
// It puts the machine to sleep and disconnects everyone in it; the next visitor
// wakes it.
func (f *Fleet) Snapshot(ctx context.Context, agentID, id string) error {
	state, err := f.State(ctx, agentID)
	if err != nil {
		return err
	}
	if state.Run.Status.Ended() {
		f.deserted(ctx, agentID, "") // wait for the worker; visitors are disconnected below
	}
	busy := f.workOn(agentID) != nil
	switch {
	case busy || !state.Run.Status.Ended():
		return fault.Conflict("the agent is working, so its machine cannot be saved").Named("agent_busy").Hint("wait until its run has ended")
	case state.MachineID == "":
		return noMachine()
	}
	m, err := f.Runtime.Open(ctx, state.MachineID)
	if errors.Is(err, machine.ErrNotFound) {
		return noMachine()
	}
	if err != nil {
		return machineFault(err)
	}
	saver, ok := m.(machine.Snapshotter)
	if !ok {
		return fault.NotImplemented("machines of this server cannot be saved")
	}
	l := f.machines.Use(m.ID())
	defer f.machines.Leave(m.ID(), l)
	l.Lock() // block others from booting it
	defer l.Unlock()
	l.Close()
	if sleeper, ok := m.(machine.Measured); ok {
		_, err = f.sleep(ctx, sleeper)
	} else {
		err = saver.Stop(ctx)
	}
	if err != nil {
		return machineFault(err)
	}
	if err := saver.Freeze(ctx, id); err != nil {
		return machineFault(err)
	}
	return nil
}

// CommitFile commits a single file to the agent's branch and pushes it. It is
// idempotent.
func (f *Fleet) CommitFile(ctx context.Context, agentID, name string, data []byte, message string) (branch, commit string, err error) {
	state, err := f.State(ctx, agentID)
	if err != nil {
		return "", "", err
	}
	if len(state.Agent.Repos) == 0 {
		return "", "", fault.Conflict("the agent has no repository to commit to").Named("repository_required")
	}
	a, err := f.Access(ctx, agentID)
	if err != nil {
		return "", "", err
	}
	defer a.Close()
	out := &pod.Tail{Limit: maxSetUpOutput}
	// All values are sent in base64, so that the shell does not interpret them.
	encoded := base64.StdEncoding.EncodeToString
	write := fmt.Sprintf(`set -e
f=$(echo %s | base64 -d)
mkdir -p -- "$(dirname -- "$f")"
echo %s | base64 -d >"$f"`, encoded([]byte(path.Clean(name))), encoded(data))
	add := fmt.Sprintf(`set -e
f=$(echo %s | base64 -d)
git add -f -- "$f"
git diff --cached --quiet -- "$f" || git commit -q -m "$(echo %s | base64 -d)" -- "$f"`, encoded([]byte(path.Clean(name))), encoded([]byte(message)))
	around, err := f.gitSandbox(ctx, state.Agent)
	if err != nil {
		return "", "", err
	}
	exit, err := a.Conn.RunCommand(ctx, write, quickCommand, out)
	switch {
	case err != nil || exit.Code != 0:
	case around == nil:
		exit, err = a.Conn.RunCommand(ctx, add, quickCommand, out)
	default:
		exit, err = a.Conn.RunSandboxed(ctx, *around, add, quickCommand, out)
	}
	if err != nil {
		return "", "", visitFault(ctx, agentID, err)
	}
	if exit.Code != 0 || exit.TimedOut {
		return "", "", fault.Conflict("%s cannot be committed: %s", name, strings.TrimSpace(out.Text())).Named("commit_failed").
			Hint("check the checkout with `aloft agent exec %s git status`", agentID)
	}
	url := state.Agent.Repos[0].URL
	branch = cmp.Or(state.Branch, "aloft/environment")
	credential, err := f.Gateway.Grant(gateway.Grant{
		AgentID: agentID, RunID: state.Run.ID, Credential: f.token("git", state.Run.ID), Repos: []string{url},
		Push: map[string]string{url: branch}, Existing: state.Agent.WorkOnCurrentBranch || state.Pushed, Secrets: f.SecretsOf(agentID),
	})
	if err != nil {
		return "", "", err
	}
	defer f.Gateway.Revoke(credential)
	done, err := a.Conn.Push(ctx, 0, branch, false, around)
	if err != nil {
		return "", "", gitFault(err, "")
	}
	commit = done.Commit
	_, err = f.Journal.Append(ctx, store.Append{AgentID: agentID, Events: []agent.Event{{Body: &agent.Pushed{RepoURL: url, Branch: branch, Commit: commit, Unhooked: done.Note}}}})
	return branch, commit, err
}

// PushedBranch returns the branch of the agent's first repository, or "" if it
// was not pushed.
func (f *Fleet) PushedBranch(ctx context.Context, agentID string) (string, error) {
	state, err := f.State(ctx, agentID)
	if err != nil || !state.Pushed {
		return "", err
	}
	return state.Branch, nil
}
