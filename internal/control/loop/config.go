package loop

import (
	"context"
	"log/slog"

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/live"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/loop/memo"
	"aloft/internal/control/loop/offer"
	"aloft/internal/control/loop/proof"
	"aloft/internal/control/loop/pullrequest"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	controltool "aloft/internal/control/tool"
	"aloft/internal/redact"
	"aloft/internal/rule"
	"aloft/internal/tool"
)

// Config configures a loop.
type Config struct {
	Journal store.Journal
	Owner   string // holder of the lease on the agent
	Models  Models
	// Machine returns the agent's machine, ready for calls. It creates,
	// restarts or boots the machine if necessary, and records what it did.
	Machine func(ctx context.Context, s *agent.State, record journal.Record) (remote.Machine, error)
	// Shortages returns the shortages of the agent's machine that s does not
	// record yet: [agent.MachineOutOfMemory] and [agent.MachineDiskFull]. If it
	// is nil, nothing is reported.
	Shortages func(ctx context.Context, s *agent.State) []Shortage
	// Review decides which calls may run. If it is nil, all calls may run.
	Review Reviewer
	Tools  Tools
	Team   Team
	// Live shows clients the arguments of calls while the model writes them;
	// nil shows none.
	Live *live.Board
	// Secrets returns the redactor for the arguments in Live; nil redacts nothing.
	Secrets func(s *agent.State) *redact.Redactor
	// Checks configures the checks of runs.
	Checks proof.Checks
	Limits Limits
	// Diff returns at most limit bytes of the agent's pushed changes in all
	// repositories. If it is nil, goals are judged without a diff.
	Diff func(ctx context.Context, s *agent.State, limit int) (diff string, truncated bool, err error)
	// Pulls opens pull requests; nil if there is no forge.
	Pulls  pullrequest.Pulls
	Logger *slog.Logger
}

// Models are the models that a loop asks.
type Models struct {
	Model model.Model // the agent's
	Info  model.Info
	// Named returns the configured model with the given id, for subagents. If
	// it is nil, subagents use the agent's model.
	Named func(id string) (model.Model, model.Info, error)
	Fast  string // id of the model for small tasks; "" is the agent's model
}

// Tools holds the dependencies of the control plane's tools.
type Tools struct {
	// Scripts stores install scripts that agents propose for later machines;
	// nil stores none.
	Scripts controltool.Scripts
	// MCP provides the agents' MCP servers; nil means there are none.
	MCP offer.Servers
	// Web searches the web; nil if no provider is configured.
	Web Web
	// Memories stores what agents write down; nil stores nothing.
	Memories memo.Memories
	// Images generates images; nil if no model for images is configured.
	Images    model.ImageModel
	ImageInfo model.ImageInfo
	// Permits reports whether the agent may use a tool. If it is nil, the agent
	// may use all tools.
	Permits func(name string) bool
	// Patches returns the changes that another agent of the same owner has
	// pushed to the agent's repositories. Its faults are for the model. If it
	// is nil, an agent cannot apply such changes.
	Patches func(ctx context.Context, s *agent.State, otherID string) ([]tool.Patch, error)
	// Attribution says which runs wrote lines that have been pushed; nil if the
	// server does not know.
	Attribution controltool.Attributor
}

// Team holds the settings of the team and the agent's owner for a run.
type Team struct {
	// Allowed returns the limits that the team and the server set for each run
	// of the agent. If it is nil, there are none.
	Allowed func(ctx context.Context, a agent.Agent) (allowance.Amount, error)
	// Privacy reports whether the run is in privacy mode. If it is nil, no run
	// is.
	Privacy func(ctx context.Context, r agent.Run) (bool, error)
	// Rules returns the rules and skills of the team and of the agent's owner. If
	// it is nil, there are none.
	Rules func(ctx context.Context, a agent.Agent) ([]rule.Rule, error)
}

// Limits are the server's limits for a run.
type Limits struct {
	// Repeats is how many times an identical call may have an identical result,
	// with no change in between, before the model is warned. After the same number
	// of further repetitions, the run ends. 0 means no limit.
	Repeats int
	// JournalQuota limits the journal's growth by events that the machine
	// causes, in bytes per run; 0 means 1 GiB.
	JournalQuota int64
}
