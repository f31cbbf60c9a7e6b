package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/build"
	"aloft/internal/control/execclient"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/pod"
	"aloft/internal/environment"
	"aloft/internal/fault"
	"aloft/internal/policy/sandbox"
	"aloft/internal/terminal"
)

// Environments determines the base of machines. [build.Builder] implements it.
type Environments interface {
	Plan(ctx context.Context, a agent.Agent, ref string) (build.Plan, error)
	Prepare(ctx context.Context, p build.Plan, tell func(string)) (build.Base, error)
}

// SetUp holds time limits for an environment's commands. Zero means the
// default.
type SetUp struct {
	InstallLimit time.Duration // default 1 h
	StartLimit   time.Duration // default 2 min; the start command has to return
}

// maxSetUpOutput limits the stored output of install and start, in bytes.
const maxSetUpOutput = 8 << 10

// plan returns the build plan of the agent's machine at the commit from which
// the agent started.
func (f *Fleet) plan(ctx context.Context, state *agent.State) (p build.Plan, err error) {
	if f.Environments != nil && len(state.Agent.Repos) > 0 {
		p, err = f.Environments.Plan(ctx, state.Agent, cmp.Or(state.Agent.Origin, state.Agent.Repos[0].StartingRef))
	}
	if state.Agent.Env.Preset == agent.SetUp {
		p = bare(p, state.Agent.Env.Image)
	}
	return p, err
}

// prepare returns the base of a new machine, and reports problems with the
// repository's environment.
func (w *Work) prepare(ctx context.Context, p build.Plan, record journal.Record) (build.Base, error) {
	base := build.Base{Image: w.fleet.Image}
	if w.fleet.Environments == nil || p.Where == "" {
		return base, nil
	}
	begun := time.Now()
	step := func(state pod.StepState, detail string) *agent.BootStep {
		return &agent.BootStep{Name: "environment", State: string(state), DurationMS: time.Since(begun).Milliseconds(), Detail: detail}
	}
	var recordErr error
	base, err := w.fleet.Environments.Prepare(ctx, p, func(news string) {
		if recordErr == nil {
			recordErr = record(ctx, step(pod.StepRunning, news))
		}
	})
	if err != nil {
		last, cancel := journal.Outliving(ctx)
		defer cancel()
		return base, errors.Join(err, recordErr, record(last, step(pod.StepFailed, err.Error())))
	}
	lines := []string{p.Where}
	for _, f := range p.Findings {
		lines = append(lines, f.String())
	}
	bodies := []agent.Body{step(pod.StepDone, strings.Join(append(lines, base.Notes...), "\n"))}
	notes := base.Notes
	if p.Findings.Worst() == environment.Error {
		notes = append([]string{"The environment's file has errors; the invalid parts are ignored:\n" + strings.Join(lines[1:], "\n")}, notes...)
	}
	for _, note := range notes {
		bodies = append(bodies, &agent.Notice{Text: note})
	}
	return base, errors.Join(recordErr, record(ctx, bodies...))
}

// setUpRequest returns the request to set up a machine that has just booted.
type setUpRequest struct {
	conn        *pod.Conn
	machineID   string
	agent       agent.Agent
	environment environment.Environment
	install     bool // whether no build has run the install command
	record      journal.Record
}

// setUpStep is a command that sets up a machine.
type setUpStep struct {
	name, command string
	limit         time.Duration
	around        *sandbox.Policy // nil means no sandbox
}

// setUp sets up a machine that has just booted: it runs install (if no build
// has done so), start and the terminals. It journals and returns failures, and
// continues after each. The error means that the machine is gone.
func (f *Fleet) setUp(ctx context.Context, r setUpRequest) (failures []string, err error) {
	e := r.environment
	around, err := f.sandboxPolicy(ctx, r.agent, SandboxStart)
	if err != nil {
		return nil, err
	}
	for _, step := range []setUpStep{
		{"install", e.Install, cmp.Or(f.SetUp.InstallLimit, time.Hour), nil},
		{"start", e.Start, cmp.Or(f.SetUp.StartLimit, 2*time.Minute), around},
	} {
		if step.command == "" || step.name == "install" && !r.install {
			continue
		}
		failure, err := setUpCommand(ctx, r.conn, step, r.record)
		if err != nil {
			return nil, err
		}
		if failure != "" {
			failures = append(failures, failure)
		}
	}
	if len(e.Terminals) == 0 {
		return failures, nil
	}
	if around, err = f.sandboxPolicy(ctx, r.agent, SandboxTerminals); err != nil {
		return nil, err
	}
	terminals := execclient.NewTerminals(r.conn, f.token("exec", r.machineID))
	defer terminals.Close()
	names := terminalNames(e.Terminals)
	for i, t := range e.Terminals {
		begun := time.Now()
		step := &agent.BootStep{Name: "terminal " + names[i], State: string(pod.StepDone), Detail: t.Description}
		if _, _, err := terminals.Create(ctx, terminal.New{Name: names[i], Command: t.Command, Sandbox: around}); err != nil {
			if errors.Is(err, pod.ErrLost) || ctx.Err() != nil {
				return nil, lostError(err)
			}
			step.State, step.Detail = string(pod.StepFailed), fault.Of(err).Message
			failures = append(failures, fmt.Sprintf("The terminal %s could not be started: %s", names[i], step.Detail))
		}
		step.DurationMS = time.Since(begun).Milliseconds()
		if err := r.record(ctx, step); err != nil {
			return nil, err
		}
	}
	return failures, nil
}

// aboutTerminals tells the agent which terminals are running.
func aboutTerminals(terminals []environment.Terminal) string {
	names := terminalNames(terminals)
	var b strings.Builder
	b.WriteString("These run in tmux sessions of the machine, shared with the user (`tmux capture-pane -p -t NAME` shows one):")
	for i, t := range terminals {
		fmt.Fprintf(&b, "\n- %s: %s", names[i], cmp.Or(t.Description, strings.Join(strings.Fields(t.Command), " ")))
		if b.Len() > maxSetUpOutput {
			fmt.Fprintf(&b, "\nand %d more", len(terminals)-i-1)
			break
		}
	}
	return b.String()
}

// setUpCommand runs one command and journals its progress. failure is "" on
// success.
func setUpCommand(ctx context.Context, conn *pod.Conn, c setUpStep, record journal.Record) (failure string, err error) {
	begun := time.Now()
	out := &pod.Tail{Limit: maxSetUpOutput}
	step := func(state pod.StepState, detail string) *agent.BootStep {
		return &agent.BootStep{Name: c.name, State: string(state), DurationMS: time.Since(begun).Milliseconds(), Detail: detail}
	}
	if err := record(ctx, step(pod.StepRunning, "")); err != nil {
		return "", err
	}
	var recordErr error
	out.News = func(line string) {
		if recordErr == nil {
			recordErr = record(ctx, step(pod.StepRunning, line))
		}
	}
	var exit pod.Exit
	if c.around == nil {
		exit, err = conn.RunCommand(ctx, c.command, c.limit, out)
	} else {
		exit, err = conn.RunSandboxed(ctx, *c.around, c.command, c.limit, out)
	}
	if err := errors.Join(err, recordErr); err != nil {
		last, cancel := journal.Outliving(ctx)
		defer cancel()
		return "", errors.Join(lostError(err), record(last, step(pod.StepFailed, out.Text())))
	}
	if exit.Code == 0 && !exit.TimedOut {
		return "", record(ctx, step(pod.StepDone, out.Text()))
	}
	how := fmt.Sprintf("ended with status %d", exit.Code)
	if exit.TimedOut {
		how = fmt.Sprintf("was ended after %s", c.limit)
		if c.name == "start" {
			how += ": start must return; put long-running programs in terminals"
		}
	}
	words := strings.TrimSuffix(fmt.Sprintf("%s %s\n%s", c.name, how, out.Text()), "\n")
	return "The environment's " + words, record(ctx, step(pod.StepFailed, words))
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// terminalNames returns distinct tmux session names for the terminals.
func terminalNames(terminals []environment.Terminal) []string {
	const longest = 60
	names := make([]string, len(terminals))
	taken := map[string]bool{}
	for i, t := range terminals {
		name := strings.Trim(notInName.ReplaceAllString(t.Name, "-"), "-")
		name = cmp.Or(name[:min(len(name), longest)], "terminal")
		names[i] = name
		for n := 2; taken[names[i]]; n++ {
			names[i] = name + "-" + strconv.Itoa(n)
		}
		taken[names[i]] = true
	}
	return names
}
