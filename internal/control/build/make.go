package build

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"time"

	"aloft/internal/control/gateway"
	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
	"aloft/internal/control/pod"
	"aloft/internal/environment"
	"aloft/internal/fault"
	"aloft/internal/redact"
	"aloft/internal/secret"
)

// machineOf returns the machine id of a build; buildOf returns the build id of
// a machine.
func machineOf(id string) string { return "env-" + strings.TrimPrefix(id, layer.Build+"-") }

func buildOf(machine string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(machine, "env-")
	id = layer.Build + "-" + rest
	return id, ok && layer.ValidID(id)
}

// LogFile returns the path of a build's log: the output of all its steps and of
// install. The middle of a very long log is left out.
func (b *Builder) LogFile(id string) (string, error) {
	if !layer.ValidID(id) {
		return "", fault.Invalid("%q is not the id of a build", id)
	}
	return filepath.Join(b.Dir, id+".log"), nil
}

// make makes the build. It returns an error only if the store fails: a failed
// build is described in the record.
func (b *Builder) make(ctx context.Context, r environment.Record, p Plan, tell func(string)) (environment.Record, error) {
	r.MachineID = machineOf(r.ID)
	if err := b.Builds.AddBuild(ctx, r); err != nil {
		return r, err
	}
	b.step("recorded")
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	b.mu.Lock()
	b.ends[r.MachineID] = end
	b.mu.Unlock()
	log := b.Logger.With("build", r.ID, "environment", r.EnvironmentID)
	log.Info("build begins", "trigger", r.Trigger, "commit", p.Commit)
	code, err := b.work(ctx, &r, p, tell)
	last := context.WithoutCancel(ctx) // record the outcome even if ctx was cancelled
	now := time.Now().UTC()
	r.EndedAt, r.ExitCode, r.Status = &now, code, environment.Succeeded
	failed, install := errors.AsType[*installError](err)
	spent, full := errors.AsType[*spentError](context.Cause(ctx))
	switch {
	case err == nil:
	case full: // do not retry soon, even for another agent's machine
		install = false
		r.Status, r.FailureType, r.Message = environment.Failed, environment.InstallFailed, messageOf(spent.why)
	case errors.Is(context.Cause(ctx), errCancelled), errors.Is(context.Cause(ctx), errStopped):
		r.Status, r.Message = environment.Cancelled, context.Cause(ctx).Error()
	case install:
		r.Status, r.FailureType, r.Message = environment.Failed, environment.InstallFailed, failed.Error()
	default:
		r.Status, r.FailureType, r.Message = environment.Failed, environment.TerminalFailure, messageOf(err)
	}
	b.mu.Lock()
	delete(b.ends, r.MachineID) // from here on only destroy may act on the machine
	b.mu.Unlock()
	log.Info("build ended", "status", r.Status, "message", r.Message, "took", now.Sub(r.CreatedAt))
	if !install || r.Trigger == environment.AgentDraft {
		// The machine of a failed install is kept for inspection, except for
		// drafts, whose author has another machine. All other machines are
		// destroyed. A frozen layer is deleted unless the record counts as a
		// success.
		errs := []error{b.destroy(last, r.MachineID)}
		r.MachineID = ""
		if err != nil {
			errs = append(errs, b.drop(r.ID))
		}
		if err := errors.Join(errs...); err != nil {
			log.Error("cannot clean up after a build", "error", err)
		}
	}
	b.step("cleared")
	err = b.close(r, r.Status == environment.Succeeded && r.Trigger != environment.AgentDraft)
	b.step("activated")
	return r, err
}

// messageOf returns the text of an error for users.
func messageOf(err error) string {
	if f := fault.Of(err); f.Kind != fault.KindInternal {
		return f.Message
	}
	return err.Error()
}

// spentError means that the build's machine has exceeded one of its limits.
type spentError struct{ why error }

func (e *spentError) Error() string { return e.why.Error() }

// Stop ends the build in the given machine for the reason why, and stops the
// machine. ours is false if the machine does not belong to a build. Stop does
// not wait for the store.
func (b *Builder) Stop(ctx context.Context, machineID string, why error) (ours bool, err error) {
	if _, ours := buildOf(machineID); !ours {
		return false, nil
	}
	b.mu.Lock()
	end := b.ends[machineID]
	b.mu.Unlock()
	if end != nil {
		end(&spentError{why})
	}
	m, err := b.Runtime.Open(ctx, machineID)
	if errors.Is(err, machine.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return true, err
	}
	stops, ok := m.(machine.Snapshotter)
	if !ok {
		return true, errors.New("this runtime cannot stop a machine from outside")
	}
	return true, stops.Stop(ctx)
}

// variables returns the environment variables of install.
func (b *Builder) variables(ctx context.Context, environmentID string, repoURLs []string) (secret.Set, error) {
	if b.Variables == nil {
		return secret.Set{}, nil
	}
	return b.Variables(ctx, environmentID, repoURLs)
}

// redactorOf returns a redactor for the log of a build that received the given
// variables.
func (b *Builder) redactorOf(set secret.Set) *redact.Redactor {
	all := set.Values()
	for name, value := range b.Secrets {
		all[name+" of the server"] = value // variable names have no spaces
	}
	return redact.New(all)
}

// installError means that install failed.
type installError struct{ words string }

func (e *installError) Error() string { return e.words }

// work does the steps of a build up to the frozen layer.
func (b *Builder) work(ctx context.Context, r *environment.Record, p Plan, tell func(string)) (exit *int, err error) {
	file, err := b.LogFile(r.ID)
	if err != nil {
		return nil, err
	}
	log, err := openLog(file)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := log.close(); err != nil {
			b.Logger.Warn("the log of a build is incomplete", "build", r.ID, "error", err)
		}
	}()
	step := func(format string, args ...any) {
		words := fmt.Sprintf(format, args...)
		log.line("# " + words)
		tell(words)
	}
	set, err := b.variables(ctx, r.EnvironmentID, r.URLs())
	if err != nil {
		return nil, err
	}
	if r.Image == "" {
		step("base: the Dockerfile's image")
		log.news = tell
		if r.Image, err = b.image(ctx, p, set, log); err != nil {
			log.line("# " + fault.Of(err).Message)
			return nil, err
		}
		log.news = nil
	}
	of := r.Image
	if r.Base != "" {
		of = r.Base + " above " + of
	}
	step("base: %s", of)
	network, err := b.network(ctx, p.Environment)
	if err != nil {
		return nil, err
	}
	m, err := b.Runtime.Create(ctx, machine.Spec{ID: r.MachineID, Image: r.Image, Layer: r.Base, Class: b.Class, Limits: b.Limits, Network: network})
	if err != nil {
		return nil, err
	}
	b.step("made")
	saver, ok := m.(machine.Snapshotter)
	if !ok {
		return nil, fault.NotImplemented("this runtime cannot save machines")
	}
	conn, err := pod.Dial(ctx, m, gateway.Of(b.Gateway, r.ID), pod.Redact(b.redactorOf(set)), pod.Registries(b.Registries.For(pulls(r.ID, p.urls(), network))))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	credential, err := b.Gateway.Grant(gateway.Grant{AgentID: r.ID, RunID: r.ID, Repos: p.urls(), Secrets: set.Values()})
	if err != nil {
		return nil, err
	}
	defer b.Gateway.Revoke(credential)
	token := make([]byte, 32)
	_, _ = rand.Read(token)              // never fails
	env := maps.Clone(p.Environment.Env) // not secret, so variables from Secrets take precedence
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, set.Environ())
	boot := pod.Boot{
		User: p.Environment.User, Env: env,
		GitCredential: credential, ExecToken: hex.EncodeToString(token), Registries: b.Registries.Hosts(network),
	}
	boot.Checkout, boot.Others = checkouts(*r)
	if _, err := conn.Boot(ctx, boot, func(s pod.Step) {
		if s.State != pod.StepRunning {
			step("%s: %s", s.Name, s.Detail)
		}
	}); err != nil {
		return nil, err
	}
	b.step("booted")
	var ended pod.Exit
	if p.Environment.Install != "" {
		step("install")
		log.mark()
		log.news = tell
		if ended, err = conn.RunCommand(ctx, p.Environment.Install, b.InstallLimit, log); err != nil {
			return nil, err
		}
	}
	// The processes of install have ended; only its files on the disk are kept.
	b.step("installed")
	if err := saver.Stop(ctx); err != nil {
		return nil, err
	}
	b.step("stopped")
	if ended.TimedOut || ended.Code != 0 {
		how, end := fmt.Sprintf("install ended with status %d", ended.Code), log.end()
		if ended.TimedOut {
			how = fmt.Sprintf("install timed out after %s", b.InstallLimit)
		}
		step("%s", how)
		return &ended.Code, &installError{how + "\n" + end}
	}
	step("saving the disk")
	err = saver.Freeze(ctx, r.ID)
	b.step("frozen")
	return &ended.Code, err
}

// checkouts returns the repositories in the workspace of a build's machine.
func checkouts(r environment.Record) (first pod.Checkout, others []pod.Checkout) {
	var all []pod.Checkout
	folders := foldersOf(r.URLs())
	for i, c := range r.Commits {
		all = append(all, pod.Checkout{RepoURL: c.URL, Ref: c.Commit, Path: folders[i], Owner: r.ID})
	}
	return all[0], all[1:]
}

// destroy destroys a machine that may not exist.
func (b *Builder) destroy(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	m, err := b.Runtime.Open(ctx, id)
	if errors.Is(err, machine.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return m.Destroy(ctx)
}
