package pod

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/control/machinerpc"
	"aloft/internal/fault"
	"aloft/internal/text"
	"aloft/internal/wire/podv1"
)

// Limits on a machine's report of a boot step, in bytes.
const (
	maxWord   = 256
	maxDetail = 8 << 10
)

// Limits for a boot. Excess progress messages are dropped; exceeding another
// limit fails the boot.
const (
	maxSteps    = 128                    // messages about the begin or end of a step
	maxProgress = 256 << 10              // bytes of all progress messages
	progressGap = 500 * time.Millisecond // minimum time between progress messages
)

// unready returns the fault of a machine that does not follow the boot
// protocol.
func unready(format string, args ...any) *fault.Error {
	return fault.Unavailable(format, args...).Named("machine_failed").Hint("check the boot steps with `aloft agent logs`")
}

// errBootLimit is the cause of the end of a boot that takes too long.
var errBootLimit = unready("the machine was not ready in time")

// pace limits the messages of a boot.
type pace struct {
	steps    int
	progress int       // bytes of progress so far
	step     string    // the step of the last forwarded message
	told     time.Time // when that message was forwarded
}

// admit reports whether to forward the message. It returns an error if there
// were too many messages.
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
		return false, &StepError{Step: s.Name, Code: CodeInternal, Detail: fmt.Sprintf("the machine reported more than %d steps", maxSteps)}
	}
	p.step, p.told = s.Name, now
	return true, nil
}

// Boot is a request to make a machine ready.
type Boot struct {
	Checkout      Checkout
	Others        []Checkout        // further repositories of the agent, each with its own path
	Hosts         []string          // hosts of other repositories that the agent may fetch; their ssh-style URLs are redirected to the gateway
	Env           map[string]string // environment of every process of the agent
	ExecToken     string            // 64 hex digits that callers of exec-daemon must present
	GitCredential string            // credential of the machine's git for the gateway
	User          string            // user who runs the agent's processes; "" is the machine's default
	Registries    []string          // registries, as host or host:port, from which Docker pulls over this connection
	Trace         bool              // exec-daemon sends spans over this connection
	Embedding     string            // model of the embeddings that exec-daemon requests over this connection; "" for none
}

// Checkout describes a repository in the workspace.
type Checkout struct {
	RepoURL     string // URL as the user wrote it
	Ref         string // branch, tag or commit; "" is the default branch
	Branch      string // branch to work on, created at Ref; if it is "" or Ref, work on Ref itself
	Path        string // absolute path; "" is /workspace
	AuthorName  string
	AuthorEmail string
	Resume      bool   // if Branch exists on the remote, continue it
	Owner       string // owner of the checkout; a checkout of another owner on the disk is taken over
	Continues   string // an owner whose checkout on the disk is kept unchanged, except that Branch is created at its HEAD
}

// A StepState is the state of a boot step.
type StepState string

// States of a step.
const (
	StepRunning StepState = "running"
	StepDone    StepState = "done"
	StepFailed  StepState = "failed"
)

// Step is a message about a step of the boot: user, network, checkout,
// terminals or exec-daemon.
type Step struct {
	Name     string
	State    StepState
	Duration time.Duration // time since the step began
	Detail   string        // progress or error text from the machine
	Code     string        // code of a failure
}

// Codes for a failed step, commit or push.
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
	CodeNoPrograms   = "no_programs" // the detail names the programs that the machine lacks
	CodeInternal     = "internal"
)

// code returns s if it is a known code, and CodeInternal otherwise.
func code(s string) string {
	switch s {
	case CodeRepoNotFound, CodeRefNotFound, CodeBranchTaken, CodeNoCommit,
		CodeDenied, CodeUnavailable, CodeDiskFull, CodeSecretInPush, CodeHookFailed, CodeNoPrograms:
		return s
	}
	return CodeInternal
}

// Ready describes a machine that is ready.
type Ready struct {
	BootID     string // changes with each boot of the machine
	BaseCommit string // the first commit checked out; "" if the repository had no commits
	Branch     string // current branch; "" if HEAD is detached
	Others     []CheckedOut
	Notes      []string // messages for the agent, from the machine
	User       string   // user who runs the agent's processes; "" if the machine did not report it
	Facilities *Facilities
}

// Facilities describes what the agent's user can do on a machine.
type Facilities struct {
	System         string // name of the distribution; "" if unknown
	PackageManager string // such as apt-get or dnf; "" if there is none
	Root           bool   // the user is root or can become root without a password
	Docker         string // see agent.Facilities
	Desktop        bool   // a desktop is installed

	DockerHostNetwork bool // see agent.Facilities
}

// CheckedOut describes the checkout of a repository other than the first.
type CheckedOut struct {
	BaseCommit, Branch string // see [Ready]
}

// maxNotes is the maximum number of notes of a boot.
const maxNotes = 20

// StepError is the failure of a boot step. The detail comes from the machine.
type StepError struct {
	Step, Code, Detail string
}

func (e *StepError) Error() string {
	return fmt.Sprintf("boot step %s: %s: %s", e.Step, e.Code, e.Detail)
}

// Boot makes the machine ready. When a step begins, makes progress or ends, it
// calls onStep, which may be nil, in order and in this goroutine. Boot is
// idempotent: a second call does only the missing work. After a failed step or
// too many steps, it returns a [*StepError]. It drops progress messages that
// arrive too fast.
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
		Registries:    b.Registries,
		Env:           b.Env,
		ExecToken:     b.ExecToken,
		GitCredential: b.GitCredential,
		User:          b.User,
		Trace:         b.Trace,

		EmbeddingModel: b.Embedding,
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
		err = unready("the machine ended the boot without a result")
	}
	if overdue(ctx, err) {
		return Ready{}, errBootLimit
	}
	return Ready{}, fmt.Errorf("boot: %w", c.rpcError(err))
}

var userName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,31}$`)

// userOf returns the user name at the beginning of the detail of the step
// "user", or "" if it is not a valid name.
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

// readyOf validates the report of a machine that is ready.
func readyOf(r *podv1.BootReady, others int) (Ready, error) {
	if len(r.GetOthers()) != others {
		return Ready{}, unready("the machine has checked out %d additional repositories, want %d", len(r.GetOthers()), others)
	}
	ready := Ready{
		BootID:     text.Head(r.GetBootId(), maxWord),
		BaseCommit: text.Head(r.GetBaseCommit(), maxWord),
		Branch:     text.Head(r.GetBranch(), maxWord),
		Facilities: facilitiesOf(r.GetFacilities()),
	}
	for _, o := range r.GetOthers() {
		ready.Others = append(ready.Others, CheckedOut{text.Head(o.GetBaseCommit(), maxWord), text.Head(o.GetBranch(), maxWord)})
	}
	for _, note := range r.GetNotes()[:min(len(r.GetNotes()), maxNotes)] {
		ready.Notes = append(ready.Notes, text.Head(note, maxDetail))
	}
	return ready, nil
}

// systemName matches the valid names of a machine's distribution. The check is
// needed because the name becomes part of the model's instructions.
var systemName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 .()/_+-]{0,63}$`)

// packageManagers are the package managers that a machine may report.
var packageManagers = []string{"apt-get", "dnf", "microdnf", "yum", "apk", "zypper", "pacman"}

// facilitiesOf validates the facilities that a machine reports. It returns nil
// if the machine reports none.
func facilitiesOf(f *podv1.Facilities) *Facilities {
	if f == nil {
		return nil
	}
	out := &Facilities{Root: f.GetRoot(), Desktop: f.GetDesktop(), DockerHostNetwork: f.GetDockerHostNetwork(), Docker: "absent"}
	if systemName.MatchString(f.GetSystem()) {
		out.System = f.GetSystem()
	}
	if slices.Contains(packageManagers, f.GetPackageManager()) {
		out.PackageManager = f.GetPackageManager()
	}
	switch f.GetDocker() {
	case podv1.Facilities_DOCKER_INSTALLED:
		out.Docker = "installed"
	case podv1.Facilities_DOCKER_REFUSED:
		out.Docker = "refused"
	case podv1.Facilities_DOCKER_INSTALLABLE:
		out.Docker = "installable"
	}
	return out
}

func stepOf(s *podv1.BootStep) Step {
	step := Step{
		Name:     text.Head(s.GetName(), maxWord),
		Duration: machinerpc.Duration(s.GetDurationMs()),
		Detail:   text.Head(s.GetDetail(), maxDetail),
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

// rpcError converts the error of an RPC. The result is the cause of the ended
// context, the loss of the connection, or the machine's message, shortened.
func (c *Conn) rpcError(err error) error { return c.Lost(machinerpc.Error(err, c.Done())) }
