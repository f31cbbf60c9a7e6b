package pod

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/fault"
	"aloft/internal/wire/podv1"
)

// Bounds on what a machine may say in a step, in bytes.
const (
	maxWord   = 256
	maxDetail = 8 << 10
)

// Bounds of a boot. Progress beyond them is dropped; a machine that exceeds another
// of them does not boot.
const (
	maxSteps    = 128                    // news that is no progress: steps that begin and end
	maxProgress = 256 << 10              // bytes of progress
	progressGap = 500 * time.Millisecond // between two pieces of progress
)

// unready is the fault of a machine that does not boot as pod-daemon does.
func unready(format string, args ...any) *fault.Error {
	return fault.Unavailable(format, args...).Named("machine_failed").Hint("look at the boot steps with `aloft agent logs`")
}

// errBootLimit is why a boot ends that takes too long.
var errBootLimit = unready("the machine was not ready in time")

// pace lets through what a machine tells of its boot, as far as its bounds allow.
type pace struct {
	steps    int
	progress int       // bytes
	step     string    // that was told of last
	told     time.Time // when it was
}

// admit reports whether the step is to be told. Its error says that there were too
// many.
func (p *pace) admit(s Step, now time.Time) (bool, error) {
	if s.State == StepRunning && s.Name == p.step {
		if now.Sub(p.told) < progressGap || p.progress+len(s.Detail) > maxProgress {
			return false, nil
		}
		p.progress += len(s.Detail) + maxWord
		p.told = now
		return true, nil
	}
	if p.steps++; p.steps > maxSteps {
		return false, &StepError{Step: s.Name, Code: CodeInternal, Detail: fmt.Sprintf("the machine told of more than %d steps", maxSteps)}
	}
	p.step, p.told = s.Name, now
	return true, nil
}

// Boot says how a machine is to be made ready.
type Boot struct {
	Checkout      Checkout
	Others        []Checkout        // of an agent with several repositories, each with a path beside the first's
	Hosts         []string          // of what it may fetch besides: git's short form leads to the gateway for them
	Env           map[string]string // for every process of the agent
	ExecToken     string            // 64 hex digits, asked by exec-daemon of its callers
	GitCredential string            // with which git in the machine reaches the gateway
	User          string            // of the agent's processes; "" is the machine's default
	Trace         bool              // exec-daemon sends spans over this connection
}

// Checkout says what is to be in the workspace.
type Checkout struct {
	RepoURL     string // as the repository's users write it
	Ref         string // branch, tag or commit; "" is the default branch
	Branch      string // to work on, made at Ref; "" or Ref works on Ref itself
	Path        string // absolute; "" is /workspace
	AuthorName  string
	AuthorEmail string
	Resume      bool   // Branch may be on the remote, and is then continued
	Owner       string // whom it is for; one for another that is on the disk becomes this one's
	Continues   string // an owner whose checkout on the disk goes on as it is, with Branch made where it stands
}

// A StepState is how far a step of the boot is.
type StepState string

// States of a step.
const (
	StepRunning StepState = "running"
	StepDone    StepState = "done"
	StepFailed  StepState = "failed"
)

// Step is news of one step of the boot: user, network, checkout, terminals, exec-daemon.
type Step struct {
	Name     string
	State    StepState
	Duration time.Duration // since the step began
	Detail   string        // progress, or why it failed; from the machine
	Code     string        // of a failure
}

// Codes of a step, commit or push that failed.
const (
	CodeRepoNotFound = "repo_not_found"
	CodeRefNotFound  = "ref_not_found"
	CodeBranchTaken  = "branch_taken"
	CodeNoCommit     = "no_commit"
	CodeDenied       = "denied"
	CodeUnavailable  = "unavailable"
	CodeDiskFull     = "disk_full"
	CodeSecretInPush = "secret_in_push"
	CodeHookFailed   = "hook_failed"
	CodeInternal     = "internal"
)

// code is what a machine gave as a code, if it is one.
func code(s string) string {
	switch s {
	case CodeRepoNotFound, CodeRefNotFound, CodeBranchTaken, CodeNoCommit,
		CodeDenied, CodeUnavailable, CodeDiskFull, CodeSecretInPush, CodeHookFailed:
		return s
	}
	return CodeInternal
}

// Ready says what the machine is ready with.
type Ready struct {
	BootID     string // changes with each start of the machine
	BaseCommit string // checked out first; "" where the repository had no commit
	Branch     string // checked out now; "" where HEAD is detached
	Others     []CheckedOut
	Notes      []string // what the agent ought to know: the machine's words
	User       string   // whom the agent's processes run as; "" where the machine did not say
}

// CheckedOut is what is checked out of a repository that is not the first.
type CheckedOut struct {
	BaseCommit, Branch string // as in [Ready]
}

// maxNotes bounds the notes of a boot.
const maxNotes = 20

// StepError is a boot that failed, and where. The detail is the machine's.
type StepError struct {
	Step, Code, Detail string
}

func (e *StepError) Error() string {
	return fmt.Sprintf("boot step %s: %s: %s", e.Step, e.Code, e.Detail)
}

// Boot makes the machine ready. Each step is told to onStep, in order, from
// this goroutine, as it begins, goes on and ends; onStep may be nil. Booting
// again does what is missing and no more. A step that fails is a [*StepError], and
// so is one too many. Progress that comes too fast is left out.
func (c *Conn) Boot(ctx context.Context, b Boot, onStep func(Step)) (Ready, error) {
	var others []*podv1.Checkout
	for _, o := range b.Others {
		others = append(others, checkoutOf(o))
	}
	limited, cancel := context.WithTimeout(ctx, c.boot)
	defer cancel()
	stream, err := c.pod.Boot(limited, connect.NewRequest(&podv1.BootRequest{
		Checkout:      checkoutOf(b.Checkout),
		Others:        others,
		Hosts:         b.Hosts,
		Env:           b.Env,
		ExecToken:     b.ExecToken,
		GitCredential: b.GitCredential,
		User:          b.User,
		Trace:         b.Trace,
	}))
	if overdue(ctx, err) {
		return Ready{}, errBootLimit
	}
	if err != nil {
		return Ready{}, fmt.Errorf("boot: %w", c.rpcError(err))
	}
	defer func() { _ = stream.Close() }()
	var user string
	var told pace
	for stream.Receive() {
		switch event := stream.Msg().GetEvent().(type) {
		case *podv1.BootResponse_Step:
			step := stepOf(event.Step)
			pass, err := told.admit(step, time.Now())
			if err != nil {
				return Ready{}, err
			}
			if pass && onStep != nil {
				onStep(step)
			}
			if step.Name == "user" && step.State == StepDone {
				user = userOf(step.Detail)
			}
			if step.State == StepFailed {
				return Ready{}, &StepError{Step: step.Name, Code: step.Code, Detail: step.Detail}
			}
		case *podv1.BootResponse_Ready:
			ready, err := readyOf(event.Ready, len(b.Others))
			ready.User = user
			return ready, err
		}
	}
	err = stream.Err()
	if err == nil {
		err = unready("the machine ended the boot without a word")
	}
	if overdue(ctx, err) {
		return Ready{}, errBootLimit
	}
	return Ready{}, fmt.Errorf("boot: %w", c.rpcError(err))
}

var userName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,31}$`)

// userOf returns the name with which the detail of the step user begins, "" if
// that is no name of a user.
func userOf(detail string) string {
	name, _, _ := strings.Cut(detail, ":")
	if !userName.MatchString(name) {
		return ""
	}
	return name
}

func checkoutOf(c Checkout) *podv1.Checkout {
	return &podv1.Checkout{
		RepoUrl: c.RepoURL, Ref: c.Ref, Branch: c.Branch, Path: c.Path,
		AuthorName: c.AuthorName, AuthorEmail: c.AuthorEmail, Resume: c.Resume, Owner: c.Owner, Continues: c.Continues,
	}
}

// readyOf reads what a machine says that it is ready with.
func readyOf(r *podv1.BootReady, others int) (Ready, error) {
	if len(r.GetOthers()) != others {
		return Ready{}, unready("the machine has checked out %d repositories beside the first, and not %d", len(r.GetOthers()), others)
	}
	ready := Ready{
		BootID:     bounded(r.GetBootId(), maxWord),
		BaseCommit: bounded(r.GetBaseCommit(), maxWord),
		Branch:     bounded(r.GetBranch(), maxWord),
	}
	for _, o := range r.GetOthers() {
		ready.Others = append(ready.Others, CheckedOut{bounded(o.GetBaseCommit(), maxWord), bounded(o.GetBranch(), maxWord)})
	}
	for _, note := range r.GetNotes()[:min(len(r.GetNotes()), maxNotes)] {
		ready.Notes = append(ready.Notes, bounded(note, maxDetail))
	}
	return ready, nil
}

func stepOf(s *podv1.BootStep) Step {
	step := Step{
		Name:     bounded(s.GetName(), maxWord),
		Duration: took(s.GetDurationMs()),
		Detail:   bounded(s.GetDetail(), maxDetail),
	}
	switch s.GetState() {
	case podv1.BootStep_STATE_DONE:
		step.State = StepDone
	case podv1.BootStep_STATE_FAILED:
		step.State, step.Code = StepFailed, code(s.GetCode())
	default:
		step.State = StepRunning
	}
	return step
}

// longest is more than anything in a machine takes.
const longest = 1000 * 24 * time.Hour

// took is how long a machine says that something took.
func took(ms int64) time.Duration {
	return time.Duration(min(max(0, ms), longest.Milliseconds())) * time.Millisecond
}

// bounded cuts s to n bytes and leaves out what is not UTF-8.
func bounded(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "")
}

// lastMoment is how long a machine's connection may outlive the stream of a call
// that broke, when the machine stops.
const lastMoment = 2 * time.Second

// rpcError says plainly what a call's error is: the end of ctx, the loss of
// the connection, or the machine's own words, bounded.
func (c *Conn) rpcError(err error) error {
	if e, ok := errors.AsType[*connect.Error](err); ok {
		switch e.Code() {
		case connect.CodeCanceled:
			err = fmt.Errorf("%w: %s", context.Canceled, bounded(e.Message(), maxDetail))
		case connect.CodeDeadlineExceeded:
			err = fmt.Errorf("%w: %s", context.DeadlineExceeded, bounded(e.Message(), maxDetail))
		case connect.CodeUnavailable:
			// A machine that stops ends its streams a moment before its connection.
			select {
			case <-c.mux.Done():
			case <-time.After(lastMoment):
			}
			fallthrough
		default:
			err = fmt.Errorf("%s: %s", e.Code(), bounded(e.Message(), maxDetail))
		}
	}
	return c.lost(err)
}
