package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/atomicfile"
	"aloft/internal/control/api"
	"aloft/internal/control/artifact"
	"aloft/internal/control/build"
	"aloft/internal/control/dashboard"
	"aloft/internal/control/disk"
	"aloft/internal/control/gateway"
	"aloft/internal/control/identity"
	"aloft/internal/control/live"
	"aloft/internal/control/machine"
	"aloft/internal/control/machine/container"
	"aloft/internal/control/mcp"
	"aloft/internal/control/observe"
	"aloft/internal/control/outbound"
	"aloft/internal/control/preview"
	"aloft/internal/control/pull"
	"aloft/internal/control/schedule"
	"aloft/internal/control/signin"
	"aloft/internal/control/webhook"
	"aloft/internal/fault"
	"aloft/internal/policy"
	"aloft/internal/redact"
	"aloft/internal/telemetry"
)

// server holds the parts of a running aloft serve.
type server struct {
	URL     string // address that it listens on
	KeyFile string // file with the admin API key

	store       database
	kept        *artifact.Store
	gateway     *gateway.Gateway
	runtime     machine.Runtime
	schedule    *schedule.Scheduler
	builder     *build.Builder
	dockerfiles *dockerfiles // nil if this host cannot create machines
	disk        *disk.Guard
	tendImages  func(ctx context.Context) error
	webhooks    *webhook.Sender
	desk        *signin.Desk
	agentMCP    *mcp.Agents
	api         *api.API
	sent        *telemetry.Telemetry
	observer    *observe.Observer
	listener    net.Listener
	http        *http.Server
	ready       atomic.Bool
	logger      *slog.Logger
}

// openServer returns a server that listens but does not serve yet.
func openServer(ctx context.Context, o serveOptions, c serverConfig, logger *slog.Logger) (_ *server, err error) {
	// Private files are created with a private mode. Other files must be readable by the
	// users of machines, whatever umask the server inherits.
	syscall.Umask(0o022)
	// What the server starts (machines, gateways) has other working directories.
	if o.Data, err = filepath.Abs(o.Data); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	s := &server{logger: logger, KeyFile: filepath.Join(o.Data, "admin.key")}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err := privateFolder(o.Data); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if s.store, err = openStore(ctx, c.Store, o.Data, logger); err != nil {
		return nil, err
	}
	if err := s.firstKey(ctx); err != nil {
		return nil, err
	}
	secret, err := readSecret(filepath.Join(o.Data, "secret.key"))
	if err != nil {
		return nil, err
	}
	locked, err := newSafe(ctx, o.Data, c.Secrets, s.store)
	if err != nil {
		return nil, err
	}
	sent, err := telemetry.Open(telemetry.Config{
		Ghost: c.Telemetry.GhostMode, Endpoint: c.Telemetry.Endpoint, Token: c.Telemetry.Token, Insecure: c.Telemetry.Insecure,
		Service: "aloft", Version: version, Logger: logger,
	})
	if err != nil {
		return nil, usageError{fmt.Errorf("telemetry: %w", err)}
	}
	s.sent, logger = sent, slog.New(sent.Handler(logger.Handler()))
	s.logger = logger
	secrets := c.secrets()
	if short := redact.New(secrets).Short(); len(short) > 0 {
		logger.Warn("secrets are too short to be redacted", "names", short, "bytes", redact.MinLength)
	}
	models, err := newModels(c)
	if err != nil {
		return nil, err
	}
	credentials, err := gitCredentials(c.Git)
	if err != nil {
		return nil, usageError{err}
	}
	reach, err := outbound.New(c.Outbound.network())
	if err != nil {
		return nil, usageError{fmt.Errorf("outbound: %w", err)}
	}
	s.gateway, err = gateway.New(gateway.Config{
		Dir: filepath.Join(o.Data, "mirrors"), Credentials: credentials, Files: c.Git.AllowFile, Private: []string{o.Data},
		Network: reach, LFSHosts: c.Git.LFSHosts, Environ: os.Environ(), Logger: logger,
	})
	if err != nil {
		return nil, err
	}
	if s.runtime, err = newRuntime(o.Data, c, logger); err != nil {
		logger.Warn("cannot create machines: runs will fail", "error", err)
		s.runtime = noRuntime{err}
	} else if os.Geteuid() != 0 {
		logger.Warn("cannot create machines without root: runs will fail", "fix", "sudo -E aloft serve")
	}
	if s.observer, err = observe.New(observe.Config{Journal: s.store, Agents: s.store, Telemetry: sent, Privacy: privacyOf(s.store), Logger: logger}); err != nil {
		return nil, err
	}
	// The issuer signs machines' tokens. Its name is the server's address.
	publicURL := func() string { return cmp.Or(c.PublicURL, s.URL) }
	issuer, err := identity.Open(filepath.Join(o.Data, identityFile), publicURL)
	if err != nil {
		return nil, err
	}
	if s.kept, err = openArtifacts(ctx, o.Data, c.Artifacts); err != nil {
		return nil, err
	}
	network := c.Machine.Egress.network()
	if err := container.CanLink(); err != nil && c.Machine.Egress.Mode == "" {
		logger.Warn("machines have no network", "error", err)
		network = policy.Network{}
	}
	s.builder = s.newBuilder(o.Data, c, network, secrets, logger)
	locked.Environment = s.builder.EnvironmentOf
	s.builder.Variables, s.builder.MayReach = locked.ForBuild, mayReach(s.store)
	reviewer := newReviewer(c.Policy, s.store, s.gateway, models)
	servers, err := mcp.New(mcp.Config{
		Vault: locked, Reach: reach, PublicURL: publicURL, Version: version,
		Foreign: foreignReach(c.Outbound.network(), func(e agent.Egress) (policy.Network, error) { return s.schedule.NetworkFor(e) }),
	})
	if err != nil {
		return nil, err
	}
	s.agentMCP = mcp.NewAgents(mcp.AgentsConfig{
		Servers: servers, File: projectFiles(s.gateway), Environment: s.builder.Declared, Variables: locked.ForAgent,
	})
	forges, err := newForges(c.Git, s.gateway)
	if err != nil {
		return nil, err
	}
	catalog, err := newCatalog(c.Git, logger)
	if err != nil {
		return nil, err
	}
	reviewers, err := reviewersOf(c.Git, s.store)
	if err != nil {
		return nil, err
	}
	asApp, err := appForges(c.Git)
	if err != nil {
		return nil, err
	}
	pulls := pull.New(pull.Config{
		Forges: forges, App: asApp, Git: s.gateway, Journal: s.observer.Journal(), Secrets: func(string) map[string]string { return secrets },
		Link:  func(id string) string { return strings.TrimSuffix(named(publicURL()), "/") + "/agents/" + id },
		Shown: shownOutside(s.store), Privacy: privacyOf(s.store), Reviewers: reviewers, Logger: logger,
	})
	var layers schedule.Layers
	if r, ok := s.runtime.(*container.Runtime); ok {
		layers = r.Layers()
	}
	written := new(live.Board)
	s.schedule = schedule.New(schedule.Config{
		Live:    written,
		Layers:  layers,
		Journal: s.observer.Journal(), Agents: s.store, Leases: s.store, Owner: s.store.ServerID(),
		Runtime: s.runtime, Network: network, ConnectionLogs: filepath.Join(o.Data, "connections"), Gateway: s.gateway, Model: models.find, FastModel: c.FastModel, Secret: secret,
		Image: c.Machine.Image, Class: c.Machine.Class,
		Limits:       machine.Limits{MemoryBytes: c.Machine.MemoryBytes, CPUs: c.Machine.CPUs, PIDs: c.Machine.PIDs},
		Idle:         time.Duration(c.Machine.IdleMinutes * float64(time.Minute)),
		DiskOnly:     c.Machine.Sleep == "disk",
		Allowed:      allowedOf(s.store, c.Limits.amount()),
		Privacy:      privacyOf(s.store),
		MayReach:     mayReach(s.store),
		Retention:    retentionOf(s.store, c.Machine.retention()),
		TeamEgress:   teamEgress(s.store),
		Dependencies: c.Git.Dependencies,
		Author:       schedule.Author{Name: c.Git.AuthorName, Email: c.Git.AuthorEmail},
		Secrets:      func(string) map[string]string { return secrets }, Variables: locked.ForAgent, Identity: issuer, Artifacts: s.kept, Spans: sent,
		Room:          func() error { return s.disk.Room() },
		Logger:        logger,
		Environments:  s.builder,
		Review:        reviewer,
		MCP:           s.agentMCP,
		Pulls:         pulls,
		Sandbox:       sandboxHolds(),
		SandboxPolicy: sandboxPolicyOf(c.Policy, reviewer),
		Hooks:         hooksOf(s.store, s.store),
		SetUp:         schedule.SetUp{InstallLimit: duration(c.Environments.InstallLimit), StartLimit: duration(c.Environments.StartLimit)},
	})
	if s.disk, err = disk.New(disk.Config{
		Dir: o.Data, Limit: c.Machine.DiskBytes, Machines: s.diskHolders, Stop: s.stopHolder, Logger: logger,
	}); err != nil {
		return nil, err
	}
	if kept, ok := s.store.(interface{ OnFull(makeRoom func() bool) }); ok { // the store is on the same disk
		kept.OnFull(s.disk.Full)
	}
	s.tendImages = func(ctx context.Context) error { return s.pruneImages(ctx, o.Data, c.Images, c.Machine.Image) }
	var previews *preview.Previews
	if c.Preview.Domain != "" {
		previews, err = preview.New(preview.Config{
			Domain: c.Preview.Domain, HTTPS: c.Preview.HTTPS, Secret: secret, Dial: s.schedule.DialPort,
			May: api.MayReach(s.store, s.store), Logger: logger,
		})
		if err != nil {
			return nil, usageError{err}
		}
	}
	s.webhooks = webhook.New(webhook.Config{
		Store: s.store, Owner: s.store.ServerID(), Webhook: locked.Webhook, Shown: shownOutside(s.store), Post: reach.Post, PublicURL: publicURL, Logger: logger,
	})
	desk, err := signin.New(signin.Config{Store: s.store, PublicURL: func() string { return named(publicURL()) }, Provider: c.SignIn.OIDC.provider(), Logger: logger})
	if err != nil {
		return nil, err
	}
	s.desk = desk
	proxies, err := trustedProxies(c.TrustedProxies)
	if err != nil {
		return nil, usageError{err}
	}
	apiConfig := api.Config{
		MCP: servers, AgentMCP: s.agentMCP, Live: written,
		SignIn: desk, AuditLog: s.store, Usage: s.store, TrustedProxies: proxies,
		Repositories: catalog, Outbound: reach, Deliveries: s.store, Replies: s.store, PerMinute: c.API.RequestsPerMinute, MachineRetention: c.Machine.retention(),
		Journal: s.observer.Journal(), Agents: s.store, Accounts: s.store, Saved: s.store, Builds: s.store, Builder: builds{s.builder}, Pulls: pulls, Secrets: locked, Work: s.schedule, Forks: s.schedule, Machines: machines{s.schedule},
		SetUps: setups{s.schedule, s.builder}, Snapshots: s.store, Disks: s.builder, Metrics: s.observer.Metrics,
		Models: models.infos, DefaultModel: models.fallback, Limit: c.Limits.amount(), AllowFile: len(c.Git.AllowFile) > 0,
		Tracer: sent.Tracer(), Artifacts: artifacts{s.kept, s.schedule}, URLSecret: append([]byte("urls "), secret...), Identity: issuer,
		Rules: s.store, Review: reviewer, CheckHooks: checkHooks, ProjectFile: originFiles(s.gateway), Ports: s.builder.Ports,
		PublicURL: publicURL, Logger: logger, Version: version,
		Ready: func() error {
			if !s.ready.Load() {
				return errors.New("starting")
			}
			return nil
		},
	}
	if previews != nil {
		apiConfig.Previews = previews
	}
	if s.api, err = api.New(apiConfig); err != nil {
		return nil, err
	}
	files, err := fs.Sub(binaries(), "web")
	if err != nil {
		return nil, err
	}
	handler, err := dashboard.Handler(files, s.api)
	if err != nil {
		return nil, err
	}
	if previews != nil {
		handler = previews.Handler(handler)
	}
	if s.listener, s.URL, err = listen(o.Listen); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(o.Data, "server.url"), []byte(s.URL+"\n"), 0o600); err != nil {
		return nil, err
	}
	s.http = &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// stopTime is how long the server waits for open requests when it stops.
const stopTime = 2 * time.Second

// Run serves until ctx is done. It leaves every run in a state that the next start can
// resume.
func (s *server) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	s.http.BaseContext = func(net.Listener) context.Context { return ctx } // ends the streams
	group.Go(func() error {
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error { return s.schedule.Run(ctx) })
	group.Go(func() error { return s.builder.Run(ctx) })
	group.Go(func() error { return s.disk.Run(ctx) })
	group.Go(func() error { return s.tendImages(ctx) })
	group.Go(func() error { return s.webhooks.Run(ctx) })
	group.Go(func() error { return s.api.Run(ctx) })
	group.Go(func() error {
		<-ctx.Done()
		s.ready.Store(false)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		if s.http.Shutdown(last) != nil {
			return s.http.Close()
		}
		return nil
	})
	s.ready.Store(true)
	return errors.Join(group.Wait(), s.close())
}

func (s *server) close() error {
	var errs []error
	if s.listener != nil {
		if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if s.dockerfiles != nil {
		errs = append(errs, s.dockerfiles.Close())
	}
	if r, ok := s.runtime.(*container.Runtime); ok {
		errs = append(errs, r.Close())
	}
	if s.agentMCP != nil {
		s.agentMCP.Close()
	}
	if s.gateway != nil {
		errs = append(errs, s.gateway.Close())
	}
	if s.kept != nil {
		errs = append(errs, s.kept.Close())
	}
	s.lastSend()
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	return errors.Join(errs...)
}

// lastSend sends the pending telemetry while the store is still open. An unreachable
// receiver is not an error.
func (s *server) lastSend() {
	last, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if s.observer != nil {
		if err := s.observer.Close(last); err != nil {
			s.logger.Debug("the last metrics were not sent", "error", err)
		}
	}
	if err := s.sent.Shutdown(last); err != nil {
		s.logger.Debug("the last telemetry was not sent", "error", err)
	}
}

// firstKey creates the admin and an API key, if the store has no key yet.
func (s *server) firstKey(ctx context.Context) error {
	n, err := s.store.CountKeys(ctx)
	if err != nil || n > 0 {
		return err
	}
	key := account.NewKey()
	// Write the file before the store: a stored key that nobody can read is useless,
	// while the next start overwrites a file whose key was not stored.
	if err := os.WriteFile(s.KeyFile, []byte(key+"\n"), 0o600); err != nil {
		return err
	}
	admin, err := s.store.AddUser(ctx, account.User{FirstName: "Admin", Role: account.Owner})
	if err != nil {
		return err
	}
	_, err = s.store.AddKey(ctx, account.APIKey{Name: "admin", UserID: admin.ID, Hash: account.HashKey(key)})
	return err
}

// secretSize is the size of the server's secret, in bytes.
const secretSize = 32

// readSecret returns the secret in the file at path, and creates it if it does not
// exist.
func readSecret(path string) ([]byte, error) {
	secret, err := os.ReadFile(path)
	switch {
	case err == nil && len(secret) == secretSize:
		return secret, nil
	case err == nil:
		return nil, fmt.Errorf("%s: has %d bytes, want %d: restore it, or remove it to recreate the machines of running agents", path, len(secret), secretSize)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	secret = make([]byte, secretSize)
	_, _ = rand.Read(secret) // crypto/rand never returns an error
	return secret, atomicfile.Write(path, secret, 0o600)
}

// newRuntime returns the container runtime, with the binaries embedded in this program.
func newRuntime(data string, c serverConfig, logger *slog.Logger) (machine.Runtime, error) {
	bin, err := container.Install(binaries(), filepath.Join(data, "bin"))
	if err != nil {
		return nil, fmt.Errorf("install the machine binaries: %w", err)
	}
	for _, path := range []string{c.Machine.Runtime, c.Machine.Strong} {
		if path == "" {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("OCI runtime: %w", err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	images, err := openImages(data, c)
	if err != nil {
		return nil, err
	}
	return container.New(container.Config{
		Images:  images,
		Gateway: []string{self, "gateway"},
		Dir:     filepath.Join(data, "machines"), RuntimePath: cmp.Or(c.Machine.Runtime, bin.Runc),
		StrongRuntimePath: c.Machine.Strong, Docker: c.Machine.Docker, Binaries: bin.Dir, Logger: logger,
	})
}

// noRuntime is the runtime of a host that cannot create machines. Its errors say why.
type noRuntime struct{ why error }

func (r noRuntime) Create(context.Context, machine.Spec) (machine.Machine, error) {
	return nil, fault.Unavailable("this host cannot make machines: %v", r.why).Named("no_runtime").
		Hint("run `aloft doctor` on the server to see what is missing and how to fix it")
}

func (r noRuntime) Open(_ context.Context, id string) (machine.Machine, error) {
	return nil, fmt.Errorf("machine %s: %w", id, machine.ErrNotFound)
}

func (r noRuntime) List(context.Context) ([]string, error) { return nil, nil }

// privateFolder makes a folder that only this user can enter, or makes one that is
// there so.
func privateFolder(name string) error {
	if err := os.MkdirAll(name, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	return os.Chmod(name, info.Mode().Perm()&0o700)
}
