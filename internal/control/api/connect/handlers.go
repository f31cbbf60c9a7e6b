package connect

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

type serverJSON struct {
	_          struct{}        `json:"-" additionalProperties:"true"`
	Models     []modelJSON     `json:"models" nullable:"false" doc:"the first is the default"`
	GitServers []gitServerJSON `json:"gitServers" nullable:"false"`
	LocalModel *localModelJSON `json:"localModel,omitempty" doc:"a model server that answers on the server's host, if it is not in use"`
	Ignored    []string        `json:"ignored" nullable:"false" doc:"what is connected and yet not used, with the reason"`
}

type modelJSON struct {
	_        struct{} `json:"-" additionalProperties:"true"`
	ID       string   `json:"id"`
	Provider string   `json:"provider"`
	Name     string   `json:"name,omitempty"`
	BaseURL  string   `json:"baseUrl,omitempty"`
	Source   string   `json:"source" enum:"configuration,connected"`
}

type gitServerJSON struct {
	_      struct{} `json:"-" additionalProperties:"true"`
	Host   string   `json:"host"`
	URL    string   `json:"url"`
	Forge  string   `json:"forge,omitempty"`
	Source string   `json:"source" enum:"configuration,connected"`
}

type localModelJSON struct {
	_       struct{} `json:"-" additionalProperties:"true"`
	Name    string   `json:"name"`
	BaseURL string   `json:"baseUrl"`
}

type connectModelRequestJSON struct {
	_        struct{} `json:"-" additionalProperties:"true"`
	Provider string   `json:"provider" enum:"anthropic,openai,google"`
	API      string   `json:"api,omitempty" enum:"responses,chat" doc:"for openai; default responses, or chat with a baseUrl"`
	Name     string   `json:"name,omitempty" maxLength:"200" doc:"the provider's name of the model; default the id"`
	BaseURL  string   `json:"baseUrl,omitempty" maxLength:"2000" doc:"default the provider's own address"`
	APIKey   string   `json:"apiKey,omitempty" maxLength:"10000" doc:"stored encrypted, and never shown again"`
}

type connectGitServerRequestJSON struct {
	_        struct{} `json:"-" additionalProperties:"true"`
	Scheme   string   `json:"scheme,omitempty" enum:"https,http" default:"https"`
	Forge    string   `json:"forge,omitempty" enum:"github,gitlab,gitea,none" doc:"kind of the host's API; required unless the host is well known"`
	Username string   `json:"username,omitempty" maxLength:"200" doc:"for git; default what the forge expects with a token"`
	Token    string   `json:"token" minLength:"1" maxLength:"10000" doc:"stored encrypted, and never shown again"`
}

type connectedJSON struct {
	_     struct{} `json:"-" additionalProperties:"true"`
	ID    string   `json:"id"`
	Login string   `json:"login,omitempty" doc:"the token's user at the git server, if it tells"`
	Lacks []string `json:"lacks" nullable:"false" doc:"scopes that the token lacks for pushing and opening pull requests"`
}

func sourceOf(s Source) string {
	if s.Connected {
		return "connected"
	}
	return "configuration"
}

func (s *API) getServer(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	now := s.Server.Effective()
	out := serverJSON{Models: []modelJSON{}, GitServers: []gitServerJSON{}, Ignored: append([]string{}, now.Ignored...)}
	for _, m := range now.Models {
		out.Models = append(out.Models, modelJSON{ID: m.ID, Provider: m.Provider, Name: m.Name, BaseURL: m.URL, Source: sourceOf(m)})
	}
	for _, g := range now.GitServers {
		out.GitServers = append(out.GitServers, gitServerJSON{Host: g.ID, URL: g.URL, Forge: g.Forge, Source: sourceOf(g)})
	}
	local, ok := s.Server.LocalModel(r.Context())
	if ok && !slices.ContainsFunc(now.Models, func(m Source) bool { return m.URL == local.BaseURL }) {
		out.LocalModel = &localModelJSON{Name: local.Name, BaseURL: local.BaseURL}
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

func (s *API) export(w http.ResponseWriter, _ *http.Request, _ account.APIKey) error {
	text, err := s.Server.Export()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Set("Content-Disposition", `attachment; filename="aloft.yaml"`)
	_, err = io.WriteString(w, text)
	return err
}

func (s *API) connectModel(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	var in connectModelRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	m := Model{ID: r.PathValue("modelId"), Provider: in.Provider, API: in.API, Name: in.Name, BaseURL: strings.TrimRight(in.BaseURL, "/"), Key: strings.TrimSpace(in.APIKey)}
	if m.Name == "" {
		m.Name = m.ID
	}
	if m.API == "" && m.Provider == "openai" && m.BaseURL != "" {
		m.API = "chat" // the API that servers other than OpenAI's support
	}
	if err := m.check(); err != nil {
		return err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	if configured(s.Server.Effective().Models, m.ID) {
		return fault.Conflict("the model %s is in the server's configuration file", m.ID).Hint("choose another id, or change it in the file")
	}
	if err := s.Server.TryModel(r.Context(), m); err != nil {
		return err
	}
	if err := s.keep(r.Context(), ofModels, m.ID, m); err != nil {
		return err
	}
	s.Server.Reload()
	return rest.WriteJSON(w, http.StatusOK, connectedJSON{ID: m.ID, Lacks: []string{}})
}

// check validates the rules that the request's schema cannot express.
func (m Model) check() error {
	if m.ID == "" || len(m.ID) > 100 || strings.ContainsAny(m.ID, "[]/ \t\n") {
		return fault.Invalid("modelId: %q is not an id: at most 100 characters, without spaces, slashes and brackets", m.ID)
	}
	if !slices.Contains([]string{"anthropic", "openai", "google"}, m.Provider) {
		return fault.Invalid("provider: invalid value %q: must be anthropic, openai or google", m.Provider)
	}
	if !slices.Contains([]string{"", "responses", "chat"}, m.API) {
		return fault.Invalid("api: invalid value %q: must be responses or chat", m.API)
	}
	u, err := url.Parse(m.BaseURL)
	if m.BaseURL != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		return fault.Invalid("baseUrl: invalid address: use an address such as http://127.0.0.1:11434/v1")
	}
	if m.Key == "" && m.BaseURL == "" {
		return fault.Invalid("apiKey: the provider %s needs a key", m.Provider)
	}
	return nil
}

// configured reports whether the configuration file has the model or git server.
func configured(all []Source, id string) bool {
	return slices.ContainsFunc(all, func(s Source) bool { return !s.Connected && strings.EqualFold(s.ID, id) })
}

// CanonicalHost returns the one spelling of a git server's host: in lower case, without
// the scheme's default port, without leading zeros in the port, and without a dot at the
// end.
func CanonicalHost(scheme, host string) string {
	host = strings.ToLower(host)
	name, port := host, ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") { // the end of an IPv6 address without a port
		name, port = host[:i], strings.TrimLeft(host[i+1:], "0")
	}
	name = strings.TrimSuffix(name, ".")
	if port == "" || scheme == "https" && port == "443" || scheme == "http" && port == "80" {
		return name
	}
	return name + ":" + port
}

func (s *API) connectGitServer(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	var in connectGitServerRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	host := strings.ToLower(r.PathValue("host"))
	if in.Scheme == "" {
		in.Scheme = "https"
	}
	if in.Scheme != "https" && in.Scheme != "http" {
		return fault.Invalid("scheme: invalid value %q: must be https or http", in.Scheme)
	}
	if !slices.Contains([]string{"", "github", "gitlab", "gitea", "none"}, in.Forge) {
		return fault.Invalid("forge: invalid value %q: must be github, gitlab, gitea or none", in.Forge)
	}
	u, err := url.Parse(in.Scheme + "://" + host)
	if err != nil || u.Host != host || strings.Trim(u.Hostname(), ".") == "" {
		return fault.Invalid("host: %q is not a host: use a name such as github.com or git.example.com:3000", host)
	}
	host = CanonicalHost(in.Scheme, host)
	u.Host = host
	g := GitServer{Host: host, URL: u.String(), Forge: in.Forge, Username: in.Username, Token: strings.TrimSpace(in.Token)}
	s.changing.Lock()
	defer s.changing.Unlock()
	if configured(s.Server.Effective().GitServers, host) {
		return fault.Conflict("the git server %s is in the server's configuration file", host).Hint("change its credential there")
	}
	grant, err := s.Server.TryGitServer(r.Context(), g)
	if err != nil {
		return err
	}
	if err := s.keep(r.Context(), ofGitServers, host, g); err != nil {
		return err
	}
	s.Server.Reload()
	return rest.WriteJSON(w, http.StatusOK, connectedJSON{ID: host, Login: grant.Login, Lacks: append([]string{}, grant.Lacks...)})
}

// disconnect returns the handler that removes the connection named in the path.
func (s *API) disconnect(owner secret.Owner, param, noun string) rest.Handler {
	return func(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
		id := r.PathValue(param)
		s.changing.Lock()
		defer s.changing.Unlock()
		if err := s.Values.Drop(r.Context(), owner, id); fault.Is(err, fault.KindNotFound) {
			return fault.NotFound("no %s of that name is connected", noun).Hint("entries of the configuration file can only be removed there")
		} else if err != nil {
			return err
		}
		s.Server.Reload()
		return rest.WriteJSON(w, http.StatusOK, rest.IDResponseJSON{ID: id})
	}
}
