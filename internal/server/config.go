package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/jackc/pgx/v5"

	"aloft/internal/control/artifact"
	"aloft/internal/control/disk"
	"aloft/internal/control/dockerfile"
	"aloft/internal/control/hostd"
	"aloft/internal/control/machine"
	"aloft/internal/control/machine/container"
	"aloft/internal/control/safe"
	"aloft/internal/policy"
	"aloft/internal/server/gitserver"
)

// Config is the file that `aloft serve --config` reads. The keys are
// documented in docs/reference/config.md; a test compares that page with this type.
type Config struct {
	// Host opens the part of the host that the server uses with root's rights,
	// as this configuration says. If it is nil, the server's own process does
	// that.
	Host func(ctx context.Context) (*hostd.Host, error) `yaml:"-"`

	PublicURL string `yaml:"public_url"` // the server's public address; default http:// and the listen address
	// TrustedProxies are ranges of addresses of reverse proxies, whose
	// X-Forwarded-For header is trusted.
	TrustedProxies []string         `yaml:"trusted_proxies"`
	Store          string           `yaml:"store"` // address of a PostgreSQL database; default a file in the data folder
	Models         []ModelConfig    `yaml:"models"`
	DefaultModel   string           `yaml:"default_model"`
	FastModel      string           `yaml:"fast_model"`
	ImageModel     imageConfig      `yaml:"image_model"`     // model for the tool GenerateImage
	EmbeddingModel embeddingConfig  `yaml:"embedding_model"` // model with which SemSearch ranks code
	Git            gitserver.Config `yaml:"git"`
	Machine        machineConfig    `yaml:"machine"`
	Artifacts      artifactsConfig  `yaml:"artifacts"`
	Images         imagesConfig     `yaml:"images"`
	Telemetry      telemetryConfig  `yaml:"telemetry"`
	Secrets        secretsConfig    `yaml:"secrets"`
	Preview        previewConfig    `yaml:"preview"`
	Policy         policyConfig     `yaml:"policy"`
	API            limitsConfig     `yaml:"api"`
	Limits         runLimits        `yaml:"limits"` // limits of each run
	Quotas         quotasConfig     `yaml:"quotas"` // quotas of each person
	SignIn         signInConfig     `yaml:"sign_in"`
	Outbound       egressConfig     `yaml:"outbound"` // hosts to which the server itself may connect for users
	Environments   buildsConfig     `yaml:"environments"`
	Checks         checksConfig     `yaml:"checks"` // configuration of each run's checks
	WebSearch      searchConfig     `yaml:"web_search"`

	Connections  []connectionConfig `yaml:"connections"` // senders of events
	PullRequests pullRequestsConfig `yaml:"pull_requests"`
	Mentions     mentionsConfig     `yaml:"mentions"`
	Reviews      reviewsConfig      `yaml:"reviews"`
	Automations  automationsConfig  `yaml:"automations"`
}

// secretsConfig configures how machines' secrets are encrypted.
type secretsConfig struct {
	Keeper   string    `yaml:"keeper"`   // local (default) or the URL of a key management service
	Previous []string  `yaml:"previous"` // keepers for decrypting older secrets
	AWS      awsConfig `yaml:"aws"`
}

// awsConfig configures how machines' AWS roles are assumed.
type awsConfig struct {
	Region   string `yaml:"region"`   // region of STS
	Endpoint string `yaml:"endpoint"` // endpoint of STS, if not AWS's own
	Profile  string `yaml:"profile"`  // profile in the AWS CLI's configuration files
}

// artifactsConfig configures the storage of artifacts: files that outlive machines.
type artifactsConfig struct {
	URL      string `yaml:"url"`       // s3://bucket?region=… or file:///folder; default artifacts in the data folder
	MaxBytes int64  `yaml:"max_bytes"` // limit per agent
}

// previewConfig configures previews: browsers' access to ports in machines.
type previewConfig struct {
	Domain string `yaml:"domain"` // parent domain of previews; "" turns previews off
	HTTPS  bool   `yaml:"https"`  // a proxy in front of the server terminates TLS
}

// ModelConfig is one model that agents can use.
type ModelConfig struct {
	ID            string       `yaml:"id"`             // used by --model and the API's model.id
	Provider      string       `yaml:"provider"`       // anthropic, openai, google, scripted
	API           string       `yaml:"api"`            // API for openai: responses (default) or chat
	Name          string       `yaml:"name"`           // the provider's name of the model; default the id
	BaseURL       string       `yaml:"base_url"`       // default the provider's own address
	APIKey        string       `yaml:"api_key"`        // the key itself
	APIKeyEnv     string       `yaml:"api_key_env"`    // or the environment variable with the key
	Script        string       `yaml:"script"`         // for scripted: path of a script file; default the built-in demonstration
	ScriptText    []byte       `yaml:"-"`              // text of the file, if it was already read
	ContextWindow int          `yaml:"context_window"` // tokens; default from the known models
	MaxOutput     int          `yaml:"max_output"`     // tokens per reply
	Price         *priceConfig `yaml:"price"`          // nil if unknown
	Description   string       `yaml:"description"`    // shown to people who choose a model
	// Fallback is the model that replaces this one for the rest of a run if
	// this one's provider is overloaded. It may include parameters in brackets.
	Fallback      string `yaml:"fallback"`
	FallbackAfter int    `yaml:"fallback_after"` // failed attempts before the fallback is used; default 3
	// ParallelToolCalls is false if a reply may have at most one tool call.
	ParallelToolCalls *bool `yaml:"parallel_tool_calls"`

	Params         map[string]any      `yaml:"params"`          // default parameter values; a request can override them
	Offers         map[string][]string `yaml:"offers"`          // values that a request may set, by parameter; an empty list removes the parameter
	ThinkingBudget int                 `yaml:"thinking_budget"` // tokens, for Claude models with a thinking budget
}

// machineConfig configures machines.
type machineConfig struct {
	Image       string  `yaml:"image"`        // host (default), rootfs:DIR, oci:DIR, local:NAME, or a reference such as debian:12
	Runtime     string  `yaml:"runtime"`      // path of an OCI runtime; default the embedded one
	Strong      string  `yaml:"strong"`       // path of runsc
	Class       string  `yaml:"class"`        // strong: run every agent under runsc
	Docker      bool    `yaml:"docker"`       // allow Docker in machines whose image has dockerd
	MemoryBytes int64   `yaml:"memory_bytes"` // limit per machine; 0 means no limit
	CPUs        float64 `yaml:"cpus"`         // limit per machine; 0 means no limit

	GuaranteedMemoryBytes int64   `yaml:"guaranteed_memory_bytes"` // part of the host's memory for each running machine; 0 means none
	GuaranteedCPUs        float64 `yaml:"guaranteed_cpus"`         // share while all CPUs are busy; 0 means an equal share

	PIDs          int64   `yaml:"pids"`
	DiskBytes     int64   `yaml:"disk_bytes"`     // measured limit per machine and build; 0 means no limit
	IdleMinutes   float64 `yaml:"idle_minutes"`   // idle time before a machine sleeps; default 30, 0 means never
	Sleep         string  `yaml:"sleep"`          // live (default): keep processes if the class supports it; disk: keep only the disk, so that no memory is written to disk
	RetentionDays float64 `yaml:"retention_days"` // idle time before a machine and its disk are deleted; the team's setting can shorten it; default 30, 0 means never

	Egress egressConfig `yaml:"egress"`
}

// limits returns the resource limits of each machine.
func (c machineConfig) limits() machine.Limits {
	return machine.Limits{
		MemoryBytes: c.MemoryBytes, CPUs: c.CPUs, PIDs: c.PIDs, GuaranteedMemoryBytes: c.GuaranteedMemoryBytes, GuaranteedCPUs: c.GuaranteedCPUs,
	}
}

// retention returns how long an unused machine is kept; 0 means forever.
func (c machineConfig) retention() time.Duration {
	return time.Duration(c.RetentionDays * 24 * float64(time.Hour))
}

// egressConfig configures the hosts that machines may connect to.
type egressConfig struct {
	Mode  string   `yaml:"mode"`  // allow_all (default), list, none, off
	Allow []string `yaml:"allow"` // domains, *.domains, addresses, CIDR ranges
	Deny  []string `yaml:"deny"`  // takes precedence over allow
	Open  []string `yaml:"open"`  // addresses and ranges that are exempt from the default block list
}

// egressOff is the mode in which machines have no network device.
const egressOff = "off"

// Network returns the network policy of machines. The zero value means no
// network.
func (c egressConfig) Network() policy.Network {
	if c.Mode == egressOff {
		return policy.Network{}
	}
	return policy.Network{Mode: cmp.Or(policy.Mode(c.Mode), policy.AllowAll), Allow: c.Allow, Deny: c.Deny, Open: c.Open}
}

// telemetryConfig configures where traces, metrics and logs are sent.
type telemetryConfig struct {
	Endpoint  string `yaml:"endpoint"`   // https://host:4317 of an OTLP receiver (gRPC)
	Token     string `yaml:"token"`      // bearer token for the receiver
	TokenEnv  string `yaml:"token_env"`  // or the environment variable with the token
	Insecure  bool   `yaml:"insecure"`   // without TLS
	GhostMode bool   `yaml:"ghost_mode"` // send nothing, regardless of the other keys
}

// DefaultConfig returns the configuration of a server without a file. Its only model is
// the scripted one, which needs no key.
func DefaultConfig() Config {
	return Config{
		Models:    []ModelConfig{{ID: "scripted", Provider: "scripted"}},
		Git:       gitserver.Config{AuthorName: "Aloft", AuthorEmail: "aloft@localhost", Notes: true},
		Machine:   machineConfig{Image: "host", PIDs: 4096, MemoryBytes: container.DefaultMemory(), DiskBytes: disk.Half, IdleMinutes: 30, RetentionDays: 30},
		Artifacts: artifactsConfig{MaxBytes: artifact.DefaultLimits.Size},
		Images:    imagesConfig{Recheck: "1h", Unused: "168h", Builder: "auto", BuildNetwork: dockerfile.Machine},
		Environments: buildsConfig{StaleAfter: "24h", InstallLimit: "1h", StartLimit: "2m", WatchEvery: "15m", RebuildEvery: "24h",
			KeepBuilds: 2, KeepFor: "720h", SnapshotFor: "0s", FailedBuildsFor: "24h", FailedBuildsBytes: 10 << 30},
		API:          limitsConfig{RequestsPerMinute: 6000},
		PullRequests: pullRequestsConfig{Poll: "2m", Gather: "1m"},
		Mentions:     mentionsConfig{Handle: "aloft"},
		Automations:  automationsConfig{Poll: "5m"},
		Reviews:      reviewsConfig{Authors: "writers"},
		Quotas:       quotasConfig{Agents: 10_000, Running: 200, Snapshots: 200},
		Telemetry:    telemetryConfig{GhostMode: true},
		Secrets:      secretsConfig{Keeper: safe.LocalKeeper},
		Preview:      previewConfig{Domain: "preview.localhost"},
	}
}

// UsageError is a usage error; the exit status is 2.
type UsageError struct{ error }

// LoadConfig reads the file at path, or returns the default configuration if path is
// "". Errors are one line that begins with the file and the line number.
func LoadConfig(path string, getenv func(string) string) (Config, error) {
	data, err := ReadConfig(path)
	if err != nil {
		return DefaultConfig(), err
	}
	return ParseConfig(path, data, getenv)
}

// ReadConfig returns the text of the file at path, or nothing if path is "".
func ReadConfig(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("%s does not exist: create an example with `aloft serve --example > %[1]s`", path)
		}
		return nil, UsageError{fmt.Errorf("read the configuration: %w", err)}
	}
	return data, nil
}

// ParseConfig returns the configuration that a file at path contains, or the default
// configuration if path is "". Relative paths in it start at its folder.
func ParseConfig(path string, data []byte, getenv func(string) string) (Config, error) {
	c := DefaultConfig()
	if path == "" {
		return c, nil
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // byte order mark, as Windows editors write it
	c.Models = nil
	// Skip an empty document, because decoding it would clear the defaults.
	if strings.TrimSpace(string(data)) != "" {
		if err := yaml.UnmarshalWithOptions(data, &c, yaml.Strict()); err != nil {
			return c, UsageError{yamlError(path, err)}
		}
	}
	if len(c.Models) == 0 {
		c.Models = DefaultConfig().Models
	}
	if err := c.check(filepath.Dir(path), getenv); err != nil {
		return c, UsageError{fmt.Errorf("%s: %w", path, err)}
	}
	return c, nil
}

// yamlError turns a decoder's error into one line.
func yamlError(path string, err error) error {
	y, ok := errors.AsType[yaml.Error](err)
	if !ok {
		return fmt.Errorf("%s: %w", path, err)
	}
	line := 1
	if t := y.GetToken(); t != nil {
		line = t.Position.Line
	}
	message, _, _ := strings.Cut(strings.ReplaceAll(y.GetMessage(), "unknown field", "unknown key"), "\n")
	return fmt.Errorf("%s:%d: %s", path, line, message)
}

// check applies the rules that the YAML types cannot express, and reads the
// environment variables with secrets.
func (c *Config) check(dir string, getenv func(string) string) error {
	seen := map[string]bool{}
	for i := range c.Models {
		m := &c.Models[i]
		at := fmt.Sprintf("models[%d]", i)
		if m.ID == "" {
			return fmt.Errorf("%s.id is missing: it is the value for --model", at)
		}
		if seen[m.ID] {
			return fmt.Errorf("%s.id: duplicate model id %q", at, m.ID)
		}
		seen[m.ID] = true
		if m.Name == "" {
			m.Name = m.ID
		}
		switch m.Provider {
		case "anthropic", "openai", "google", "scripted":
		case "":
			return fmt.Errorf("%s.provider is missing: must be anthropic, openai, google or scripted", at)
		default:
			return fmt.Errorf("%s.provider: invalid value %q: must be anthropic, openai, google or scripted", at, m.Provider)
		}
		switch m.API {
		case "", "responses", "chat":
		default:
			return fmt.Errorf("%s.api: invalid value %q: must be responses or chat", at, m.API)
		}
		if strings.ContainsAny(m.ID, "[]") {
			return fmt.Errorf("%s.id: %q must not contain brackets, which enclose parameters in a model reference", at, m.ID)
		}
		if err := m.checkParams(at); err != nil {
			return err
		}
		if m.ParallelToolCalls != nil && m.Provider != "anthropic" && m.Provider != "openai" {
			return fmt.Errorf("%s.parallel_tool_calls: provider %s cannot limit the calls in a reply", at, m.Provider)
		}
		if err := m.Price.check(); err != nil {
			return fmt.Errorf("%s.%w", at, err)
		}
		if err := fromEnv(&m.APIKey, m.APIKeyEnv, at+".api_key", getenv); err != nil {
			return err
		}
		if m.Script != "" && !filepath.IsAbs(m.Script) {
			m.Script = filepath.Join(dir, m.Script)
		}
	}
	if c.Machine.DiskBytes < 0 && c.Machine.DiskBytes != disk.Half {
		return fmt.Errorf("machine.disk_bytes: %d must not be negative (0 is no limit)", c.Machine.DiskBytes)
	}
	if err := checkFallbacks(c.Models); err != nil {
		return err
	}
	if c.DefaultModel != "" && !seen[c.DefaultModel] {
		return fmt.Errorf("default_model: no model has the id %q", c.DefaultModel)
	}
	if c.FastModel != "" && !seen[c.FastModel] {
		return fmt.Errorf("fast_model: no model has the id %q", c.FastModel)
	}
	if err := c.ImageModel.check(getenv); err != nil {
		return err
	}
	if err := c.EmbeddingModel.check(getenv); err != nil {
		return err
	}
	for i := range c.Git.Credentials {
		cred := &c.Git.Credentials[i]
		at := fmt.Sprintf("git.credentials[%d]", i)
		if cred.URL == "" {
			return fmt.Errorf("%s.url is missing", at)
		}
		if err := fromEnv(&cred.Token, cred.TokenEnv, at+".token", getenv); err != nil {
			return err
		}
		if err := fromFile(&cred.Token, dir, cred.TokenFile, at+".token"); err != nil {
			return err
		}
		if err := fromEnv(&cred.App.Key, cred.App.KeyEnv, at+".app.key", getenv); err != nil {
			return err
		}
		if err := fromFile(&cred.App.Key, dir, cred.App.KeyFile, at+".app.key"); err != nil {
			return err
		}
	}
	if err := c.Git.Check(); err != nil {
		return err
	}
	if u, err := url.Parse(c.PublicURL); c.PublicURL != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		return fmt.Errorf("public_url: invalid address %q: use an address such as https://aloft.example.com", c.PublicURL)
	}
	c.PublicURL = strings.TrimRight(c.PublicURL, "/")
	if _, err := trustedProxies(c.TrustedProxies); err != nil {
		return err
	}
	if err := fromEnv(&c.Telemetry.Token, c.Telemetry.TokenEnv, "telemetry.token", getenv); err != nil {
		return err
	}
	if c.Artifacts.MaxBytes < 0 {
		return errors.New("artifacts.max_bytes: must not be negative")
	}
	if err := c.Images.check(getenv); err != nil {
		return err
	}
	if err := c.Policy.check(seen); err != nil {
		return err
	}
	if err := c.Environments.check(); err != nil {
		return err
	}
	if err := c.Limits.check(c.Models); err != nil {
		return err
	}
	if c.Machine.IdleMinutes < 0 || c.Machine.RetentionDays < 0 {
		return errors.New("machine.idle_minutes, machine.retention_days: must not be negative (0 is never)")
	}
	switch c.Machine.Sleep {
	case "", "live", "disk":
	default:
		return fmt.Errorf("machine.sleep: invalid value %q: must be live or disk", c.Machine.Sleep)
	}
	switch c.Machine.Class {
	case "", "strong":
	default:
		return fmt.Errorf("machine.class: invalid value %q: must be strong or absent", c.Machine.Class)
	}
	if _, err := c.Machine.Egress.Network().Compile(); err != nil {
		return fmt.Errorf("machine.egress: %w", err)
	}
	if err := c.WebSearch.check(dir, getenv); err != nil {
		return err
	}
	if err := c.SignIn.check(getenv); err != nil {
		return err
	}
	if err := c.Checks.check(); err != nil {
		return err
	}
	if err := c.Quotas.check(); err != nil {
		return err
	}
	if err := c.checkConnections(dir, getenv); err != nil {
		return err
	}
	if err := c.PullRequests.check(); err != nil {
		return err
	}
	if err := c.Automations.check(); err != nil {
		return err
	}
	if err := c.Mentions.check(duration(c.PullRequests.Poll)); err != nil {
		return err
	}
	if err := c.Reviews.check(c.connected); err != nil {
		return err
	}
	if c.API.RequestsPerMinute < 0 {
		return errors.New("api.requests_per_minute: must not be negative (0 is no limit)")
	}
	if c.Outbound.Mode == egressOff {
		return errors.New("outbound.mode: must be allow_all, list or none")
	}
	if _, err := c.Outbound.Network().Compile(); err != nil {
		return fmt.Errorf("outbound: %w", err)
	}
	return nil
}

// SecretValues returns the secret values of the configuration, by key. They must never leave
// a machine.
func (c *Config) SecretValues() map[string]string {
	secrets := map[string]string{}
	add := func(at, value string) {
		if value != "" {
			secrets[at] = value
		}
	}
	for i, m := range c.Models {
		add(fmt.Sprintf("models[%d].api_key", i), m.APIKey)
	}
	for i, cred := range c.Git.Credentials {
		add(fmt.Sprintf("git.credentials[%d].token", i), cred.Token)
		add(fmt.Sprintf("git.credentials[%d].app.key", i), cred.App.Key)
	}
	for i, conn := range c.Connections {
		add(fmt.Sprintf("connections[%d].secret", i), conn.Secret)
	}
	for i, r := range c.Images.Credentials {
		add(fmt.Sprintf("images.credentials[%d].token", i), r.Token)
	}
	if store, err := pgx.ParseConfig(c.Store); c.Store != "" && err == nil {
		add("store", store.Password)
	}
	add("image_model.api_key", c.ImageModel.APIKey)
	add("embedding_model.api_key", c.EmbeddingModel.APIKey)
	add("telemetry.token", c.Telemetry.Token)
	add("web_search.key", c.WebSearch.Key)
	add("sign_in.oidc.client_secret", c.SignIn.OIDC.ClientSecret)
	return secrets
}
