package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"aloft/internal/fault"
	"aloft/internal/mcp"
	"aloft/internal/secret"
)

// maxServer is the maximum size in bytes of a stored server, and maxServers
// that of all servers in one request.
const (
	maxServer  = 64 << 10
	maxServers = 256 << 10
)

// Vault stores secrets. Its methods are safe for concurrent use.
type Vault interface {
	Keep(ctx context.Context, owner secret.Owner, name, value string) (secret.Secret, error)
	Kept(ctx context.Context, owner secret.Owner) ([]secret.Opened, error)
	Drop(ctx context.Context, owner secret.Owner, name string) error
}

// StoredServer is a server configured by the team or a user.
type StoredServer struct {
	ID        string // stays the same while the owner has a server with this name
	Owner     secret.Owner
	CreatedAt time.Time // creation time of the current version
	mcp.Server
}

// teamsOwner and personsOwner are the owners of stored servers.
var teamsOwner = secret.Owner{Kind: secret.OfMCPTeam, ID: secret.TheTeam.ID}

func personsOwner(userID int64) secret.Owner {
	return secret.Owner{Kind: secret.OfMCPPerson, ID: strconv.FormatInt(userID, 10)}
}

func agentsOwner(agentID string) secret.Owner {
	return secret.Owner{Kind: secret.OfMCPAgent, ID: agentID}
}

func signInsOf(userID int64) secret.Owner {
	return secret.Owner{Kind: secret.OfMCPSignIn, ID: strconv.FormatInt(userID, 10)}
}

func visitsOf(userID int64) secret.Owner {
	return secret.Owner{Kind: secret.OfMCPVisit, ID: strconv.FormatInt(userID, 10)}
}

// Team reports whether the server belongs to the team.
func (k StoredServer) Team() bool { return k.Owner.Kind == secret.OfMCPTeam }

// List returns the servers of the team and of the user, sorted by name,
// including Headers, Env and Auth.
func (s *Servers) List(ctx context.Context, userID int64) ([]StoredServer, error) {
	var out []StoredServer
	for _, owner := range []secret.Owner{teamsOwner, personsOwner(userID)} {
		all, err := s.Vault.Kept(ctx, owner)
		if err != nil {
			return nil, err
		}
		for _, one := range all {
			k := StoredServer{ID: keptID(owner, one.Name), Owner: owner, CreatedAt: one.CreatedAt}
			if err := json.Unmarshal([]byte(one.Value), &k.Server); err != nil {
				return nil, fmt.Errorf("MCP server %s: %w", one.ID, err)
			}
			if k.Source = mcp.User; k.Team() {
				k.Source = mcp.Team
			}
			out = append(out, k)
		}
	}
	return out, nil
}

func keptID(owner secret.Owner, name string) string {
	sum := sha256.Sum256([]byte(string(owner.Kind) + "\x00" + owner.ID + "\x00" + secret.Fold(name)))
	return "mcp-" + hex.EncodeToString(sum[:12])
}

// Find returns the server with that id if the user can see it.
func (s *Servers) Find(ctx context.Context, userID int64, id string) (StoredServer, error) {
	all, err := s.List(ctx, userID)
	if err != nil {
		return StoredServer{}, err
	}
	if at := slices.IndexFunc(all, func(k StoredServer) bool { return k.ID == id }); at >= 0 {
		return all[at], nil
	}
	return StoredServer{}, fault.NotFound("there is no such MCP server").Hint("list them with `aloft mcp list`")
}

// Add stores a server for the user or the team. The error is a fault.
func (s *Servers) Add(ctx context.Context, userID int64, team bool, server mcp.Server) (StoredServer, error) {
	k := StoredServer{Owner: personsOwner(userID), Server: server}
	k.Source = mcp.User
	if team {
		k.Owner, k.Source = teamsOwner, mcp.Team
	}
	if err := s.check(&k.Server, ""); err != nil {
		return k, err
	}
	k.ID = keptID(k.Owner, k.Name)
	value, err := json.Marshal(k.Server)
	if err != nil {
		return k, err
	}
	if len(value) > maxServer {
		return k, fault.Invalid("the server has %d bytes; at most %d are accepted", len(value), maxServer)
	}
	s.adding.Lock() // prevents two servers with one name from being added concurrently
	defer s.adding.Unlock()
	all, err := s.List(ctx, userID)
	if err != nil {
		return k, err
	}
	n := 0
	for _, other := range all {
		if other.Owner != k.Owner {
			continue
		}
		if n++; other.ID == k.ID {
			return k, fault.Conflict("a server named %s already exists", other.Name).Named("name_taken").At("name").Hint("remove that one first, or choose another name")
		}
	}
	if n >= mcp.MaxServers {
		return k, fault.Exhausted("the limit of %d servers is reached", n).Hint("remove what is not used")
	}
	kept, err := s.Vault.Keep(ctx, k.Owner, k.Name, string(value))
	k.CreatedAt = kept.CreatedAt
	return k, err
}

// check rejects a server that is invalid or must not be contacted. at is the
// name of the request's field that contains the server.
func (s *Servers) check(server *mcp.Server, at string) error {
	if problems := server.Check(); len(problems) > 0 {
		p := problems[0]
		return fault.Invalid("%s", p.Message).At(strings.Trim(at+"."+p.Key, ".")).Hint("%s", p.Instead)
	}
	if server.Remote() {
		// A URL with variables is checked when an agent uses it.
		if !strings.Contains(server.URL, "${") {
			if err := s.Reach.Check(server.URL); err != nil {
				return fault.Of(err).At(strings.Trim(at+".url", "."))
			}
		}
	}
	return nil
}

// Remove removes a server of the user or the team.
func (s *Servers) Remove(ctx context.Context, k StoredServer) error {
	return s.Vault.Drop(ctx, k.Owner, k.Name)
}

// CheckAll validates servers given to an agent, and returns the part that is
// stored encrypted. field is the request's field that contains the servers.
func (s *Servers) CheckAll(servers []mcp.Server, field string) (string, error) {
	if len(servers) > mcp.MaxServers {
		return "", fault.Invalid("has %d servers; at most %d are accepted", len(servers), mcp.MaxServers).At(field)
	}
	for i := range servers {
		at := fmt.Sprintf("%s[%d]", field, i)
		if err := s.check(&servers[i], at); err != nil {
			return "", err
		}
		if _, twice := mcp.Find(servers[:i], servers[i].Name); twice {
			return "", fault.Invalid("another server has this name").At(at + ".name")
		}
		servers[i].Source = mcp.Agent
	}
	value, err := json.Marshal(servers)
	if err == nil && len(value) > maxServers {
		return "", fault.Invalid("has %d bytes; at most %d are accepted", len(value), maxServers).At(field)
	}
	return string(value), err
}

// maxGiven is how many of an agent's newest runs keep their servers.
const maxGiven = 5

// KeepForAgent stores the servers that come with a run of an agent, before the
// run is journaled.
func (s *Servers) KeepForAgent(ctx context.Context, agentID, runID, value string) error {
	owner := agentsOwner(agentID)
	all, err := s.Vault.Kept(ctx, owner)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b secret.Opened) int { return b.CreatedAt.Compare(a.CreatedAt) })
	for _, old := range all[min(len(all), maxGiven):] {
		if err := s.Vault.Drop(ctx, owner, old.Name); err != nil && !fault.Is(err, fault.KindNotFound) {
			return err
		}
	}
	_, err = s.Vault.Keep(ctx, owner, runID, value)
	return err
}

// OfRun returns the servers that came with a run of the agent, as returned by
// CheckAll, or "" if none are stored.
func (s *Servers) OfRun(ctx context.Context, agentID, runID string) (string, error) {
	all, err := s.Vault.Kept(ctx, agentsOwner(agentID))
	if err != nil {
		return "", err
	}
	for _, one := range all {
		if one.Name == runID {
			return one.Value, nil
		}
	}
	return "", nil
}
