package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"aloft/internal/control/mirror"
	"aloft/internal/control/repourl"
	"aloft/internal/fault"
	"aloft/internal/redact"
)

// Grant lists the git operations that a run may perform.
type Grant struct {
	AgentID string
	RunID   string
	Repos   []string          // URLs that the run may fetch
	Push    map[string]string // URL → the only branch that the run may push; it may fetch these URLs too
	// Existing allows pushes to branches that the agent did not create, because
	// the agent works on somebody's branch. Otherwise the agent's first push
	// must create the branch, and an existing branch counts as taken. Branches
	// created by an earlier push belong to the agent even after a restart,
	// because a file next to the mirror records them. If a caller knows of such
	// a push from elsewhere (another server, or a mirror since deleted), it
	// lists the repository in Pushed.
	Existing   bool
	Pushed     []string // URLs in Push whose branch the agent is known to have created
	AllowForce bool     // the run may force-push its branch
	// Secrets are values by name. A push must not contain them in file
	// contents, file names or commit messages, even in an encoding that package
	// redact knows. Content that the repository already has is not checked.
	Secrets map[string]string
	// Credential is the credential of an earlier grant, to be reused: 64 hex
	// digits. If it is empty, Grant generates a credential.
	Credential string
}

// session is an active grant.
type session struct {
	grant   Grant
	secrets *redact.Redactor
	repos   map[string]access // by repourl.Repo.Key
	slots   chan struct{}     // limits concurrent requests
	queue   atomic.Int64      // number of running and waiting requests
	large   chan struct{}     // held during a large fetch request
	push    chan struct{}     // held during a push: pushes run one at a time to save disk space
	ctx     context.Context   // ends when the grant is revoked
	end     context.CancelFunc
}

// access says what a session may do with one repository: fetch, or also push.
type access struct {
	repo   repourl.Repo // as spelled in the grant, not as by the machine
	mirror *mirror.Mirror
	branch string // the branch that may be pushed; "" for none
	exists bool   // the agent need not have created the branch
	made   bool   // the agent is known to have created the branch
}

var credentialPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Grant activates a grant and returns its credential for the machine. Grants
// are kept in memory only: after a restart, the server activates them again
// with the same credentials, so running machines are not affected.
func (g *Gateway) Grant(grant Grant) (credential string, err error) {
	s := &session{grant: grant, repos: map[string]access{}, slots: make(chan struct{}, g.maxRequests), large: make(chan struct{}, 1), push: make(chan struct{}, 1)}
	s.secrets = redact.New(grant.Secrets)
	s.grant.Secrets = nil // keep the secrets out of logs
	for _, u := range grant.Repos {
		if err := g.allow(s, u, ""); err != nil {
			return "", err
		}
	}
	for u, branch := range grant.Push {
		if !mirror.ValidBranch(branch) {
			return "", fault.Invalid("branch %q: not a valid branch name", branch).Named("branch_invalid")
		}
		if err := g.allow(s, u, branch); err != nil {
			return "", err
		}
	}
	credential = grant.Credential
	s.grant.Credential = "" // keep the credential out of logs
	switch {
	case credential == "":
		var b [32]byte
		_, _ = rand.Read(b[:]) // never fails: crypto/rand crashes the process instead
		credential = hex.EncodeToString(b[:])
	case !credentialPattern.MatchString(credential):
		return "", fault.Invalid("git credential: it is not 64 hex digits")
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sessions[sha256.Sum256([]byte(credential))] = s
	return credential, nil
}

func (g *Gateway) allow(s *session, repoURL, branch string) error {
	r, m, err := g.open(repoURL)
	if err != nil {
		return err
	}
	if old := s.repos[r.Key()].branch; old != "" && old != branch {
		return fault.Invalid("repository %s is granted with two branches, %s and %s", r, old, branch).Named("branch_invalid")
	}
	s.repos[r.Key()] = access{r, m, branch, branch != "" && s.grant.Existing, branch != "" && slices.Contains(s.grant.Pushed, repoURL)}
	return nil
}

// Revoke ends a grant and its running requests. Revoking an inactive grant is a
// no-op.
func (g *Gateway) Revoke(credential string) {
	key := sha256.Sum256([]byte(credential))
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.sessions[key]; s != nil {
		s.end()
		delete(g.sessions, key)
	}
}

// session returns the grant of the credential in a request, or nil. The
// credential is a bearer token or the password of basic authentication.
// Credentials are looked up by hash, so timing reveals nothing about them. If
// session returns a grant, the caller must call g.serving.Done when the request
// ends.
func (g *Gateway) session(r *http.Request) *session {
	var credential string
	var ok bool
	if _, password, basic := r.BasicAuth(); basic {
		credential, ok = password, true
	} else {
		scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		credential, ok = strings.TrimSpace(rest), strings.EqualFold(scheme, "Bearer")
	}
	if !ok || !credentialPattern.MatchString(credential) {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.sessions[sha256.Sum256([]byte(credential))]
	if of, ok := r.Context().Value(machineOf{}).(string); s == nil || ok && of != s.grant.AgentID {
		return nil
	}
	g.serving.Add(1)
	return s
}

// machineOf is the context key for the id of the agent or build whose machine
// sends a request.
type machineOf struct{}

// Of returns a handler for the machine of one agent or build. It refuses
// credentials of other agents and builds, which may have leaked through a log
// or a transcript.
func Of(gateway http.Handler, agentID string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		gateway.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), machineOf{}, agentID)))
	})
}

// access returns what a session may do with a repository. The protocol does not
// matter: a submodule may use the URL git@host:o/r although the grant contains
// https://host/o/r. The result has the grant's URL.
func (s *session) access(r repourl.Repo) (access, bool) {
	if a, ok := s.repos[r.Key()]; ok {
		return a, true
	}
	var found access
	n := 0
	for _, a := range s.repos {
		if a.repo.Scheme() != r.Scheme() && a.repo.SameElsewhere(r) {
			found = a
			n++
		}
	}
	return found, n == 1
}

// list lists the repositories that a session may fetch, for error messages.
func (s *session) list() string {
	if len(s.repos) == 0 {
		return "no repository"
	}
	return strings.Join(slices.Sorted(maps.Keys(s.repos)), ", ")
}
