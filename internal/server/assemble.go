package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/atomicfile"
	"aloft/internal/control/api"
	"aloft/internal/control/api/accounts"
	agentapi "aloft/internal/control/api/agents"
	"aloft/internal/control/api/approvals"
	"aloft/internal/control/api/automations"
	"aloft/internal/control/api/connect"
	environmentapi "aloft/internal/control/api/environments"
	machineapi "aloft/internal/control/api/machines"
	"aloft/internal/control/api/mcpservers"
	memoryapi "aloft/internal/control/api/memories"
	"aloft/internal/control/api/modelchoice"
	"aloft/internal/control/api/pulls"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/api/stream"
	"aloft/internal/control/dashboard"
	"aloft/internal/control/disk"
	"aloft/internal/control/fleet"
	"aloft/internal/control/gateway"
	"aloft/internal/control/hostd"
	"aloft/internal/control/identity"
	"aloft/internal/control/inbound"
	"aloft/internal/control/ledger"
	"aloft/internal/control/live"
	"aloft/internal/control/loop"
	"aloft/internal/control/mcp"
	"aloft/internal/control/memories"
	"aloft/internal/control/observe"
	"aloft/internal/control/outbound"
	"aloft/internal/control/preview"
	"aloft/internal/control/pull"
	"aloft/internal/control/pullthrough"
	"aloft/internal/control/review"
	"aloft/internal/control/safe"
	"aloft/internal/control/schedule"
	"aloft/internal/control/signin"
	"aloft/internal/control/team"
	"aloft/internal/control/webhook"
	"aloft/internal/policy"
	"aloft/internal/redact"
	"aloft/internal/server/adapter"
	"aloft/internal/server/database"
	"aloft/internal/telemetry"
)

// An assembly is a server while its parts are created. It holds values that
// several steps need and the server itself does not.
type assembly struct {
	*Server

	options    Options
	secret     []byte // the server's secret, from which tokens and links derive
	team       *team.Policy
	secrets    map[string]string // values of the configuration that are redacted everywhere
	vault      *safe.Safe
	models     *models
	network    policy.Network // network policy of machines
	reviewer   *review.Reviewer
	outbound   *outbound.Client // client for connections that users cause
	servers    *mcp.Servers
	issuer     *identity.Issuer
	pulls      *pull.Desk
	registries *pullthrough.Server // nil if machines pull with no credential
	inbox      *inbound.Inbox      // nil if there are no connections
	live       *live.Board
	previews   *preview.Previews // nil without a domain for previews

	embeddings fleet.Embeddings // nil without a model for embeddings

	connector *connector
}

// assemble creates the parts of the server. A step may use what the steps
// before it have created; its closures may use all parts, because they are
// called only when the server runs.
func (s *Server) assemble(ctx context.Context, o Options, c Config) error {
	s.config = c
	a := &assembly{Server: s, options: o, live: new(live.Board)}
	for _, step := range []func(context.Context) error{
		a.openData, a.openConnected, a.openTelemetry, a.openModels, a.openHost, a.openGateway, a.openBuilder, a.openMCP,
		a.openPulls, a.openEmbeddings, a.openFleet, a.openScheduler, a.openDisk, a.openLedger, a.openPreviews, a.openSignIn, a.openAutomations, a.openEvents, a.openAPI, a.openHTTP,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// dataFile returns the path of a file in the data folder.
func (a *assembly) dataFile(name string) string { return filepath.Join(a.options.Data, name) }

// publicURL returns the address that people open. The address changes while the
// server starts.
func (a *assembly) publicURL() string { return cmp.Or(a.config.PublicURL, a.URL) }

// openData opens what the data folder holds: the store, the first key, the server's
// secret, the vault of people's secrets, and the artifacts.
func (a *assembly) openData(ctx context.Context) (err error) {
	if err := privateFolder(a.options.Data); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if a.store, err = database.Open(ctx, a.config.Store, a.options.Data, a.logger); err != nil {
		return err
	}
	a.team = &team.Policy{
		Store: a.store, Limit: a.config.Limits.amount(), Retention: a.config.Machine.retention(), Sandboxed: a.config.Policy.SandboxAlso,
	}
	if err := a.firstKey(ctx); err != nil {
		return err
	}
	if a.secret, err = readSecret(a.dataFile("secret.key")); err != nil {
		return err
	}
	if a.vault, err = newSafe(ctx, a.options.Data, a.config.Secrets, a.store); err != nil {
		return err
	}
	a.artifacts, err = openArtifacts(ctx, a.options.Data, a.config.Artifacts)
	return err
}

// openTelemetry opens the sender of traces, metrics and logs. The logger sends its
// records to it from then on.
func (a *assembly) openTelemetry(context.Context) (err error) {
	c := a.config.Telemetry
	a.telemetry, err = telemetry.Open(telemetry.Config{
		Ghost: c.GhostMode, Endpoint: c.Endpoint, Token: c.Token, Insecure: c.Insecure,
		Service: "aloft", Version: a.options.Version, Logger: a.logger,
	})
	if err != nil {
		return UsageError{fmt.Errorf("telemetry: %w", err)}
	}
	a.logger = slog.New(a.telemetry.Handler(a.logger.Handler()))
	a.observer, err = observe.New(observe.Config{Journal: a.store, Agents: a.store, Telemetry: a.telemetry, Privacy: a.team.Private, Logger: a.logger})
	return err
}

func (a *assembly) openModels(context.Context) (err error) {
	if short := redact.New(a.secrets).Short(); len(short) > 0 {
		a.logger.Warn("secrets are too short to be redacted", "names", short, "bytes", redact.MinLength)
	}
	a.models, err = newModels(a.config)
	return err
}

// openGateway opens the client of addresses that users name, the git gateway, and the
// issuer of the tokens by which machines identify themselves.
func (a *assembly) openGateway(context.Context) error {
	c := a.config.Git
	credentials, err := c.GatewayCredentials()
	if err != nil {
		return UsageError{err}
	}
	if a.outbound, err = outbound.New(a.config.Outbound.Network()); err != nil {
		return UsageError{fmt.Errorf("outbound: %w", err)}
	}
	a.gateway, err = gateway.New(gateway.Config{
		Dir: a.dataFile("mirrors"), Credentials: credentials, Host: a.host.Git,
		Network: a.outbound, LFSHosts: c.LFSHosts, Environ: os.Environ(), Logger: a.logger,
		Room: func() error { return a.disk.Room() },
		Hold: func(agentID string, bytes int64) (release func()) {
			return a.ledger.Tally.Hold(ledger.Holding{Kind: ledger.Push, AgentID: agentID}, bytes)
		},
		Notes: c.Notes,
	})
	if err != nil {
		return err
	}
	a.issuer, err = identity.Open(a.dataFile(IdentityFile), a.publicURL)
	return err
}

// openHost opens the part of the host that the server uses. Without machines,
// the server starts and its runs fail.
func (a *assembly) openHost(ctx context.Context) (err error) {
	if open := a.config.Host; open != nil {
		a.host, err = open(ctx)
	} else {
		var opened *hostd.Opened
		if opened, err = OpenHost(a.options, a.config, os.Geteuid(), a.logger); err == nil {
			a.host = &opened.Host
		}
	}
	if err != nil {
		return err
	}
	if a.host.NoMachines != "" {
		a.logger.Warn("cannot create machines: runs will fail", "error", a.host.NoMachines)
	} else if a.config.Host == nil && os.Geteuid() != 0 {
		a.logger.Warn("cannot create machines without root: runs will fail", "fix", "sudo -E aloft serve")
	}
	a.network = a.config.Machine.Egress.Network()
	if a.host.NoNetwork != "" && a.config.Machine.Egress.Mode == "" {
		a.logger.Warn("machines have no network", "error", a.host.NoNetwork)
		a.network = policy.Network{}
	}
	return nil
}

// openBuilder opens the builder of environments. The vault asks it for the variables
// of an environment.
func (a *assembly) openBuilder(context.Context) error {
	a.builder = a.newBuilder(a.options, a.config, a.network, a.secrets)
	a.vault.Environment = a.builder.EnvironmentOf
	a.builder.Variables, a.builder.MayReach = a.vault.ForBuild, a.team.MayReach
	a.registries = a.config.pullThrough(a.logger)
	a.builder.Registries = a.registries
	a.reviewer = newReviewer(a.config.Policy, a.store, a.gateway, a.models, a.models.fast(a.config.FastModel, a.store))
	return nil
}

// openMCP opens the client of remote MCP servers.
func (a *assembly) openMCP(context.Context) (err error) {
	a.servers, err = mcp.New(mcp.Config{
		Vault: a.vault, Reach: a.outbound, PublicURL: a.publicURL, Version: a.options.Version,
		Foreign: foreignReach(a.config.Outbound.Network(), func(e agent.Egress) (policy.Network, error) { return a.fleet.NetworkFor(e) }),
	})
	if err != nil {
		return err
	}
	a.agentMCP = mcp.NewAgents(mcp.AgentsConfig{
		Servers: a.servers, File: projectFiles(a.gateway), Plugins: pluginsOf(a.gateway), Environment: a.builder.Declared, Variables: a.vault.ForAgent,
	})
	return nil
}

// openPulls creates the [pull.Desk], which opens pull requests on forges.
func (a *assembly) openPulls(context.Context) error {
	forges, err := a.config.Git.Forges(a.gateway)
	if err != nil {
		return UsageError{err}
	}
	if a.team.Reviewers, err = a.config.Git.Reviewers(); err != nil {
		return UsageError{err}
	}
	asApp, err := a.config.Git.AppForges()
	if err != nil {
		return UsageError{err}
	}
	a.pulls = pull.New(pull.Config{
		Forges: forges, App: asApp, Git: a.gateway, Journal: a.observer.Journal(), Secrets: a.configured,
		Link:  func(id string) string { return strings.TrimSuffix(localhostName(a.publicURL()), "/") + "/agents/" + id },
		Shown: a.team.ShownOutside, Privacy: a.team.Private, Reviewers: a.team.ReviewersOf, Mark: a.mark, Artifacts: a.artifactNames, FailOn: agent.Severity(a.config.Reviews.FailOn), Logger: a.logger,
	})
	return nil
}

// artifactNames returns the names of an agent's stored artifacts.
func (a *assembly) artifactNames(ctx context.Context, agentID string) ([]string, error) {
	files, err := a.artifacts.List(ctx, agentID)
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name
	}
	return names, err
}

// configured returns the secrets of the configuration, which apply to every
// agent.
func (a *assembly) configured(string) map[string]string { return a.secrets }

// openFleet opens the fleet, which gives agents their machines.
func (a *assembly) openFleet(context.Context) error {
	c := a.config
	a.fleet = fleet.New(fleet.Config{
		Journal: a.observer.Journal(), Agents: a.store, Leases: a.store, Owner: a.store.ServerID(), Logger: a.logger,

		Runtime: a.host.Machines, Layers: a.host.Layers, Image: c.Machine.Image, Class: c.Machine.Class,
		Limits:   c.Machine.limits(),
		Idle:     time.Duration(c.Machine.IdleMinutes * float64(time.Minute)),
		DiskOnly: c.Machine.Sleep == "disk",
		Room:     func() error { return a.disk.Room() },
		SetUp:    fleet.SetUp{InstallLimit: duration(c.Environments.InstallLimit), StartLimit: duration(c.Environments.StartLimit)},

		Network: a.network, ConnectionLogs: a.host.Logs,
		Gateway: a.gateway, Registries: a.registries, Dependencies: c.Git.Dependencies, Author: fleet.Author{Name: c.Git.AuthorName, Email: c.Git.AuthorEmail},

		Environments: a.builder, Pulls: a.pulls,
		Secret: a.secret, Secrets: a.configured, Variables: a.vault.ForAgent, Identity: a.issuer, Artifacts: a.artifacts, Spans: a.telemetry, Embeddings: a.embeddings,

		Sandbox: sandboxHolds(), SandboxPolicy: a.sandboxPolicy, Hooks: a.hooks,
		Privacy: a.team.Private, MayReach: a.team.MayReach, Retention: a.team.MachineRetention, TeamEgress: a.team.Egress, Narrowed: a.narrowed,
	})
	return nil
}

// openScheduler opens the scheduler, which runs agents in the machines of the fleet.
func (a *assembly) openScheduler(context.Context) error {
	c := a.config
	web, err := c.WebSearch.open()
	if err != nil {
		return UsageError{err}
	}
	images, imageInfo, err := c.ImageModel.open()
	if err != nil {
		return UsageError{err}
	}
	kept := &memories.Keeper{Store: a.store, Forges: a.pulls.Forges, Logger: a.logger}
	a.schedule = schedule.New(schedule.Config{
		Journal: a.observer.Journal(), Agents: a.store, Leases: a.store, Owner: a.store.ServerID(), Live: a.live, Logger: a.logger,

		Fleet: a.fleet, Gateway: a.gateway, Pulls: a.pulls,
		Model: a.models.find, FastModel: a.models.fast(c.FastModel, a.store),
		Tools:  loop.Tools{Scripts: a.builder, MCP: a.agentMCP, Web: web, Memories: kept, Images: images, ImageInfo: imageInfo},
		Review: a.reviewer, Rules: ownRules(a.team, kept),
		Checks: c.Checks.checks(), Repeats: c.Limits.repeats(), Allowed: a.team.Limits, Privacy: a.team.Private, Permits: a.permits,
	})
	return nil
}

// openDisk opens the guard of the data folder's disk, and the removal of unused images.
func (a *assembly) openDisk(context.Context) (err error) {
	a.disk, err = disk.New(disk.Config{
		Dir: a.options.Data, Limit: a.config.Machine.DiskBytes, Machines: a.diskHolders, Stop: a.stopHolder, Outside: a.outside, Logger: a.logger,
	})
	if err != nil {
		return err
	}
	if store, ok := a.store.(interface{ OnFull(makeRoom func() bool) }); ok { // a file store is on the same disk
		store.OnFull(a.disk.Full)
	}
	a.tendImages = func(ctx context.Context) error {
		return a.pruneImages(ctx, a.config.Images)
	}
	return nil
}

func (a *assembly) openPreviews(context.Context) (err error) {
	c := a.config.Preview
	if c.Domain == "" {
		return nil
	}
	a.previews, err = preview.New(preview.Config{
		Domain: c.Domain, HTTPS: c.HTTPS, Secret: a.secret, Dial: a.fleet.DialPort, May: machineapi.MayReach(a.store, a.store), Logger: a.logger,
	})
	if err != nil {
		return UsageError{err}
	}
	return nil
}

// openSignIn creates the [signin.Desk], with which people sign in, and the
// sender of webhooks.
func (a *assembly) openSignIn(context.Context) (err error) {
	a.webhooks = webhook.New(webhook.Config{
		Store: a.store, Owner: a.store.ServerID(), Webhook: a.vault.Webhook, Shown: a.team.ShownOutside, Post: a.outbound.Post, PublicURL: a.publicURL, Logger: a.logger,
	})
	a.desk, err = signin.New(signin.Config{
		Store: a.store, PublicURL: func() string { return localhostName(a.publicURL()) }, Provider: a.config.SignIn.OIDC.provider(), Logger: a.logger,
	})
	return err
}

func (a *assembly) openAPI(context.Context) error {
	c := a.config
	catalog, err := c.Git.Catalog(a.logger)
	if err != nil {
		return UsageError{err}
	}
	proxies, err := trustedProxies(c.TrustedProxies)
	if err != nil {
		return UsageError{err}
	}
	kept := adapter.Artifacts{Store: a.artifacts, Fleet: a.fleet}
	config := api.Config{
		Shared: rest.Shared{
			Journal: a.observer.Journal(), Agents: a.store, Accounts: a.store, Rules: a.store, Saved: a.store, AuditLog: a.store,
			Secrets: a.vault, Work: adapter.Work{Scheduler: a.schedule, Fleet: a.fleet}, Quotas: a.quotas(), AllowFile: len(c.Git.AllowFile) > 0,
			URLSecret: append([]byte("urls "), a.secret...), TrustedProxies: proxies, PublicURL: a.publicURL, Logger: a.logger,
		},
		Models:     modelchoice.Config{Models: a.models.infos, DefaultModel: a.models.fallback, Limit: c.Limits.amount()},
		Approvals:  approvals.Config{Review: a.reviewer},
		Pulls:      pulls.Config{Pulls: a.pulls},
		MCPServers: mcpservers.Config{MCP: a.servers, AgentMCP: a.agentMCP},
		Machines:   machineapi.Config{Machines: adapter.Machines{Fleet: a.fleet}, Artifacts: kept},
		Environments: environmentapi.Config{
			Builds: a.store, Snapshots: a.store, Builder: adapter.Builds{Builder: a.builder}, SetUps: adapter.SetUps{Fleet: a.fleet, Builder: a.builder}, Disks: a.builder,
		},
		Accounts: accounts.Config{SignIn: a.desk, Usage: a.store, Disk: a.ledger, DiskQuota: c.Quotas.size(), MachineRetention: c.Machine.retention(), CheckHooks: checkHooks},
		Agents: agentapi.Config{
			Artifacts: kept, Forks: a.fleet, Repositories: catalog, Outbound: a.outbound, Inherit: a.inherit, Deliveries: a.store,
			ProjectFile: originFiles(a.gateway), Ports: a.builder.Ports,
		},
		Automations: automations.Config{Store: a.store, Desk: a.automations, Event: a.receivedEvent},

		Stream:  stream.Config{Live: a.live},
		Connect: connect.Config{Values: a.vault, Server: a.connector}, Memories: memoryapi.Config{Memories: a.store},

		Replies: a.store, Inbox: a.store, Identity: a.issuer, Tracer: a.telemetry.Tracer(), Metrics: a.observer.Metrics,
		PerMinute: c.API.RequestsPerMinute, Tally: &a.ledger.Tally, Version: a.options.Version,
		Ready: func() error {
			if !a.ready.Load() {
				return errors.New("starting")
			}
			return nil
		},
	}
	if a.inbox != nil {
		config.Hooks = a.inbox
	}
	if a.previews != nil {
		config.Machines.Previews = a.previews
	}
	a.api, err = api.New(config)
	return err
}

// openHTTP starts to listen.
func (a *assembly) openHTTP(ctx context.Context) error {
	files, err := fs.Sub(a.options.Embedded, "web")
	if err != nil {
		return err
	}
	handler, err := dashboard.Handler(files, a.api)
	if err != nil {
		return err
	}
	if a.previews != nil {
		handler = a.previews.Handler(handler)
	}
	if a.listener = a.options.Listener; a.listener == nil {
		if a.listener, err = Listen(ctx, a.options.Listen); err != nil {
			return err
		}
	}
	a.URL = urlOf(a.listener)
	if err := atomicfile.WriteUnsynced(a.dataFile("server.url"), []byte(a.URL+"\n"), 0o600); err != nil {
		return err
	}
	a.http = &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(a.logger.Handler(), slog.LevelDebug),
	}
	return nil
}
