package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"aloft/internal/control/api/connect"
	"aloft/internal/control/forge"
	"aloft/internal/control/model"
	"aloft/internal/conversation"
	"aloft/internal/fault"
	"aloft/internal/server/gitserver"
)

// ErrReload is the error of [Server.Run] after [Server.Reload].
var ErrReload = errors.New("reload")

// Reload makes Run stop and return [ErrReload], so that its caller can open the server
// again. It returns at once.
func (s *Server) Reload() {
	select {
	case s.reload <- struct{}{}:
	default: // a reload was already requested
	}
}

// Listener returns a listener at the server's address for the next server, after Run
// has returned [ErrReload]. Clients that connect in between wait.
func (s *Server) Listener() net.Listener { return s.next }

// reloading waits for Reload.
func (s *Server) reloading(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.reload:
	}
	tcp, ok := s.listener.(*net.TCPListener)
	if !ok {
		return ErrReload
	}
	f, err := tcp.File()
	if err != nil {
		return err
	}
	defer f.Close()
	if s.next, err = net.FileListener(f); err != nil {
		return err
	}
	return ErrReload
}

// connector implements [connect.Server].
type connector struct {
	*assembly

	connected map[string]bool // ids of models and URLs of git servers that do not come from the configuration
	ignored   []string
}

// openConnected adds to the configuration the models and git servers that
// admins have connected. The configuration's own entries take precedence. The
// server starts even if it cannot use a connection.
func (a *assembly) openConnected(ctx context.Context) error {
	a.connector = &connector{assembly: a, connected: map[string]bool{}}
	models, servers, err := connect.Load(ctx, a.vault)
	if err != nil {
		a.logger.Error("cannot read the connected models and git servers", "error", err)
		a.connector.ignored = []string{"all: " + fault.Of(err).Message}
		return nil
	}
	for _, m := range models {
		a.addModel(m)
	}
	for _, g := range servers {
		a.addGitServer(g)
	}
	a.secrets = a.config.SecretValues()
	if a.options.Secrets != nil {
		a.options.Secrets(a.secrets)
	}
	return nil
}

func (a *assembly) addModel(m connect.Model) {
	mc := modelConfig(m)
	if slices.ContainsFunc(a.config.Models, func(c ModelConfig) bool { return c.ID == mc.ID }) {
		a.ignore("model "+mc.ID, errors.New("the configuration file has one with this id"))
		return
	}
	if _, err := newModel(mc, mc.info(), nil); err != nil {
		a.ignore("model "+mc.ID, err)
		return
	}
	a.config.Models = append(slices.DeleteFunc(slices.Clone(a.config.Models), ModelConfig.placeholder), mc)
	a.connector.connected[mc.ID] = true
}

func (a *assembly) addGitServer(g connect.GitServer) {
	cred := gitserver.Credential{URL: g.URL, Username: g.Username, Token: g.Token, Forge: g.Forge}
	git := a.config.Git
	if slices.ContainsFunc(git.Credentials, func(c gitserver.Credential) bool { return hostOf(c.URL) == hostOf(g.URL) }) {
		a.ignore("git server "+g.Host, errors.New("the configuration file has a credential for this host"))
		return
	}
	git.Credentials = append(slices.Clone(git.Credentials), cred)
	if _, err := git.GatewayCredentials(); err != nil {
		a.ignore("git server "+g.Host, err)
		return
	}
	a.config.Git = git
	a.connector.connected[g.URL] = true
}

func (a *assembly) ignore(what string, why error) {
	a.logger.Warn("a connected "+what+" is not used", "error", why)
	a.connector.ignored = append(a.connector.ignored, what+": "+why.Error())
}

// placeholder reports whether c is the only model of a server without configuration.
func (c ModelConfig) placeholder() bool { return c.Provider == "scripted" && c.Script == "" }

func modelConfig(m connect.Model) ModelConfig {
	return ModelConfig{ID: m.ID, Provider: m.Provider, API: m.API, Name: m.Name, BaseURL: m.BaseURL, APIKey: m.Key}
}

func hostOf(credentialURL string) string {
	host, _, _ := strings.Cut(gitserver.BareURL(credentialURL), "/")
	scheme, _, _ := strings.Cut(credentialURL, "://")
	return connect.CanonicalHost(strings.ToLower(scheme), host)
}

// withoutUser returns a credential's URL without user, password and query.
func withoutUser(credentialURL string) string {
	scheme, _, ok := strings.Cut(credentialURL, "://")
	if !ok {
		return gitserver.BareURL(credentialURL)
	}
	return scheme + "://" + gitserver.BareURL(credentialURL)
}

// Effective implements [connect.Server].
func (c *connector) Effective() connect.Effective {
	out := connect.Effective{Ignored: c.ignored}
	for _, m := range c.config.Models {
		if !m.placeholder() {
			out.Models = append(out.Models, connect.Source{ID: m.ID, Provider: m.Provider, Name: m.Name, URL: m.BaseURL, Connected: c.connected[m.ID]})
		}
	}
	slices.SortStableFunc(out.Models, func(a, b connect.Source) int {
		return cmp.Compare(rank(a.ID == c.models.fallback), rank(b.ID == c.models.fallback))
	})
	hosts, _ := c.config.Git.Hosts() // the gateway has already accepted the credentials
	for _, g := range c.config.Git.Credentials {
		host := hostOf(g.URL)
		out.GitServers = append(out.GitServers, connect.Source{ID: host, URL: withoutUser(g.URL), Forge: cmp.Or(g.Forge, string(hosts[host].Kind)), Connected: c.connected[g.URL]})
	}
	return out
}

func rank(first bool) int {
	if first {
		return 0
	}
	return 1
}

// tryTime is the timeout for a model's first, short reply. Local model servers
// may have to load the model first.
const tryTime = 2 * time.Minute

// TryModel implements [connect.Server].
func (c *connector) TryModel(ctx context.Context, m connect.Model) error {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	mc := modelConfig(m)
	made, err := newModel(mc, mc.info(), nil)
	if err != nil {
		return fault.Invalid("%v", err)
	}
	question := conversation.Message{Role: conversation.User, Blocks: []conversation.Block{{Text: "Reply with the word: ready"}}}
	for _, err := range made.Stream(ctx, model.Request{Messages: []conversation.Message{question}, MaxTokens: 1024}) {
		if err != nil {
			return refusal(m, err)
		}
	}
	return nil
}

// refusal explains why a model does not answer.
func refusal(m connect.Model, err error) error {
	message := err.Error()
	if e, ok := errors.AsType[*model.Error](err); ok && e.Message != "" {
		message = e.Message
	}
	if m.Key != "" {
		message = strings.ReplaceAll(message, m.Key, "[key]")
	}
	f := fault.Invalid("the model did not answer: %.500s", message).Named("invalid_model")
	switch model.ReasonOf(err) {
	case model.Unauthorized:
		return f.Hint("check the API key")
	case model.NotFound:
		return f.Hint("check the model's name: it is the provider's, such as claude-sonnet-4-5")
	case model.Unreachable:
		return f.Hint("check the address, and that the server of Aloft can reach it")
	case model.RateLimited, model.Overloaded:
		return f.Hint("the provider is busy or the account has no credit: try again later")
	}
	return f
}

// TryGitServer implements [connect.Server].
func (c *connector) TryGitServer(ctx context.Context, g connect.GitServer) (connect.Grant, error) {
	hosts, err := gitserver.Config{Credentials: []gitserver.Credential{{URL: g.URL, Username: g.Username, Token: g.Token, Forge: g.Forge}}}.Hosts()
	if err != nil {
		return connect.Grant{}, fault.Invalid("%v", strings.TrimPrefix(err.Error(), "git.credentials[0]."))
	}
	host, known := hosts[g.Host]
	if !known {
		if g.Forge == gitserver.NoForge {
			return connect.Grant{}, nil
		}
		return connect.Grant{}, fault.Invalid("forge: the kind of %s is not known", g.Host).Hint("choose github, gitlab or gitea, or none for a host without pull requests")
	}
	f, err := host.Open(g.Host, forge.Token(g.Token))
	if err != nil {
		return connect.Grant{}, fault.Invalid("%v", err)
	}
	examining, ok := f.(forge.Examining)
	if !ok {
		return connect.Grant{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, gitserver.ProbeTimeout)
	defer cancel()
	r, err := forge.ParseURL(g.URL + "/owner/name")
	if err != nil {
		return connect.Grant{}, err
	}
	grant, err := examining.Examine(ctx, r)
	if err != nil {
		return connect.Grant{}, fault.Invalid("%s", strings.ReplaceAll(fault.Of(err).Message, r.String(), g.Host)).
			Hint("check the token and the address").Because(err)
	}
	return connect.Grant{Login: grant.Login, Lacks: grant.Lacks}, nil
}

// LocalModel implements [connect.Server].
func (c *connector) LocalModel(ctx context.Context) (connect.Model, bool) {
	m, ok := LocalModel(ctx, LocalModels)
	return connect.Model{ID: m.ID, Provider: m.Provider, API: m.API, Name: m.Name, BaseURL: m.BaseURL}, ok
}

// Export implements [connect.Server].
func (c *connector) Export() (string, error) {
	type modelYAML struct {
		ID        string `yaml:"id"`
		Provider  string `yaml:"provider"`
		API       string `yaml:"api,omitempty"`
		Name      string `yaml:"name,omitempty"`
		BaseURL   string `yaml:"base_url,omitempty"`
		APIKeyEnv string `yaml:"api_key_env,omitempty"`
	}
	type credentialYAML struct {
		URL      string `yaml:"url"`
		Username string `yaml:"username,omitempty"`
		Forge    string `yaml:"forge,omitempty"`
		TokenEnv string `yaml:"token_env,omitempty"`
	}
	var out struct {
		Models       []modelYAML `yaml:"models"`
		DefaultModel string      `yaml:"default_model"`
		Git          struct {
			Credentials []credentialYAML `yaml:"credentials"`
		} `yaml:"git"`
	}
	for _, m := range c.config.Models {
		y := modelYAML{ID: m.ID, Provider: m.Provider, API: m.API, Name: m.Name, BaseURL: m.BaseURL}
		if m.APIKey != "" {
			y.APIKeyEnv = cmp.Or(m.APIKeyEnv, variable("MODEL_KEY", m.ID))
		}
		out.Models = append(out.Models, y)
	}
	out.DefaultModel = c.models.fallback
	for _, g := range c.config.Git.Credentials {
		y := credentialYAML{URL: withoutUser(g.URL), Username: g.Username, Forge: g.Forge}
		if g.Token != "" {
			y.TokenEnv = cmp.Or(g.TokenEnv, variable("GIT_TOKEN", hostOf(g.URL)))
		}
		out.Git.Credentials = append(out.Git.Credentials, y)
	}
	text, err := yaml.Marshal(out)
	return fmt.Sprintf("# The models and git servers of this server. Set the variables that end in _env.\n%s", text), err
}

// variable returns a name for the environment variable of a secret.
func variable(prefix, of string) string {
	return prefix + "_" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z' || r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, of)
}
