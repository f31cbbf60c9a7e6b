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
	"aloft/internal/fault"
	"aloft/internal/redact"
)

// Grant is what one run may do with git.
type Grant struct {
	AgentID string
	RunID   string
	Repos   []string          // URLs that it may fetch
	Push    map[string]string // URL → the one branch that it may push there; it may fetch these too
	// Existing says that the branches may be there already without the agent
	// having made them: it works on somebody's branch. Otherwise the first push
	// of the agent must make the branch, and a branch that is there already is
	// taken. What the agent made by an earlier push is its own, also after a
	// restart: a mark beside the mirror says so. A caller that knows of such a
	// push from elsewhere (another server's, a mirror since removed) names the
	// repository in Pushed. What the agent made is its own to rewrite while it stands
	// as the agent's last push left it; where somebody else has moved it, or has made it
	// again after it was deleted, the agent may only add to it.
	Existing   bool
	Pushed     []string // URLs of Push whose branch the agent is known to have made
	AllowForce bool     // it may rewrite its branch
	// Secrets are values, by their names, that no push may bring: not in a file,
	// a file's name or a commit's message, nor in one of the encodings that
	// package redact knows. What the repository holds already is let be.
	Secrets map[string]string
	// Credential is one that an earlier Grant returned, which is to be good for
	// this grant from now on: 64 hex digits. A fresh one is made if it is empty.
	Credential string
}

// session is a grant in force.
type session struct {
	grant   Grant
	secrets *redact.Redactor
	repos   map[string]access // by mirror.Repo.Key
	slots   chan struct{}     // one for each request under way
	queue   atomic.Int64      // how many requests are under way or wait for that
	push    chan struct{}     // held by the push under way: one fills the disk less than many
	ctx     context.Context   // ends when the grant is revoked
	end     context.CancelFunc
}

// access is what a session may do with one repository.
type access struct {
	repo   mirror.Repo // as the grant spells it; never as the machine does
	mirror *mirror.Mirror
	branch string // that may be pushed; "" for none
	exists bool   // the branch may be there though the agent has not made it
	made   bool   // the agent is known to have made the branch
}

var credentialPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Grant puts a grant in force and returns the credential that a machine shows
// for it. Grants are kept in memory only: a server that starts again grants
// again, with the same credential, and a machine in the middle of its work
// notices nothing.
func (g *Gateway) Grant(grant Grant) (credential string, err error) {
	s := &session{grant: grant, repos: map[string]access{}, slots: make(chan struct{}, g.maxRequests), push: make(chan struct{}, 1)}
	s.secrets = redact.New(grant.Secrets)
	s.grant.Secrets = nil // so that no log of a grant can tell them
	for _, u := range grant.Repos {
		if err := g.allow(s, u, ""); err != nil {
			return "", err
		}
	}
	for u, branch := range grant.Push {
		if !mirror.ValidBranch(branch) {
			return "", fault.Invalid("branch %q: not a name that git takes", branch).Named("branch_invalid")
		}
		if err := g.allow(s, u, branch); err != nil {
			return "", err
		}
	}
	credential = grant.Credential
	s.grant.Credential = "" // so that no log of a grant can tell it
	switch {
	case credential == "":
		var b [32]byte
		_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
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

// Revoke ends a grant, and what is under way by it. One that is not in force is
// no error.
func (g *Gateway) Revoke(credential string) {
	key := sha256.Sum256([]byte(credential))
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.sessions[key]; s != nil {
		s.end()
		delete(g.sessions, key)
	}
}

// session finds the grant that a request shows the credential of, or nil. The
// credential is a bearer token or, for clients that know only that, the
// password of basic authentication. The look-up is by hash, so its time tells
// nothing of the credentials there are. Where there is one, the request counts
// as under way: the caller calls g.serving.Done.
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
	if s != nil {
		g.serving.Add(1)
	}
	return s
}

// access finds what a session may do with a repository. One that is granted by
// another protocol is the same: a submodule may be named as git@host:o/r where
// the grant says https://host/o/r. What is served is as the grant spells it.
func (s *session) access(r mirror.Repo) (access, bool) {
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

// list names what a session may fetch, for a refusal.
func (s *session) list() string {
	if len(s.repos) == 0 {
		return "no repository"
	}
	return strings.Join(slices.Sorted(maps.Keys(s.repos)), ", ")
}
