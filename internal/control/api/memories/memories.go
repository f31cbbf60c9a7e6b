package memories

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/fault"
	"aloft/internal/memory"
	"aloft/internal/secret"
)

// maxListed is how many memories one list contains.
const maxListed = 500

type authorJSON struct {
	_       struct{} `json:"-" additionalProperties:"true"`
	AgentID string   `json:"agentId,omitempty" doc:"agent that wrote it; absent if a person did"`
	RunID   string   `json:"runId,omitempty"`
	UserID  int64    `json:"userId,omitempty" minimum:"1" doc:"person who edited or approved it; absent if nobody did"`
}

type proposalJSON struct {
	_         struct{}   `json:"-" additionalProperties:"true"`
	Action    string     `json:"action" enum:"create,update,delete"`
	Title     string     `json:"title,omitempty" doc:"absent for delete"`
	Text      string     `json:"text,omitempty" doc:"absent for delete"`
	Author    authorJSON `json:"author"`
	CreatedAt time.Time  `json:"createdAt"`
}

type memoryJSON struct {
	_          struct{}      `json:"-" additionalProperties:"true"`
	ID         string        `json:"id"`
	Repository string        `json:"repository" doc:"such as github.com/o/r"`
	Status     string        `json:"status" enum:"approved,proposed" doc:"proposed: no agent gets it until a person has approved it"`
	Title      string        `json:"title,omitempty" doc:"absent while it is only proposed"`
	Text       string        `json:"text,omitempty" doc:"absent while it is only proposed"`
	Proposal   *proposalJSON `json:"proposal,omitempty" doc:"change by an agent that waits for a person"`
	Author     authorJSON    `json:"author"`
	CreatedAt  time.Time     `json:"createdAt"`
	UpdatedAt  time.Time     `json:"updatedAt"`
	Revision   int64         `json:"revision" minimum:"1" doc:"name it in a change, so that you change only what you have seen"`
}

type listMemoriesResponseJSON struct {
	_            struct{}     `json:"-" additionalProperties:"true"`
	Repositories []string     `json:"repositories" nullable:"false" doc:"all repositories with memories that you may see"`
	Items        []memoryJSON `json:"items" nullable:"false" doc:"at most 500, those with a proposal first, then oldest first"`
	Truncated    bool         `json:"truncated" doc:"there are more: list one repository"`
}

type updateMemoryRequestJSON struct {
	_        struct{} `json:"-" additionalProperties:"true"`
	Revision int64    `json:"revision" minimum:"1"`
	Title    string   `json:"title" minLength:"1" maxLength:"100"`
	Text     string   `json:"text" minLength:"1" doc:"at most 2,000 bytes"`
}

type decideMemoryRequestJSON struct {
	_        struct{} `json:"-" additionalProperties:"true"`
	Revision int64    `json:"revision" minimum:"1" doc:"the revision whose proposal you have read"`
}

// Routes returns the operations of the package.
func (s *API) Routes() []rest.Route {
	return []rest.Route{
		{Method: "GET", Path: "/v1/memories", ID: "listMemories", Summary: "List what agents have written down about repositories",
			Query:  []rest.Param{{Name: "repository", Kind: "string", Words: "only memories of this repository, by URL or as host/owner/name"}},
			Status: 200, Out: listMemoriesResponseJSON{}, Handle: s.list},
		{Method: "GET", Path: "/v1/memories/{memoryId}", ID: "getMemory", Summary: "Show a memory", Status: 200, Out: memoryJSON{}, Handle: s.get},
		{Method: "PATCH", Path: "/v1/memories/{memoryId}", ID: "updateMemory", Summary: "Edit a memory, which also approves it and drops a proposal",
			In: updateMemoryRequestJSON{}, Status: 200, Out: memoryJSON{}, Handle: s.update},
		{Method: "POST", Path: "/v1/memories/{memoryId}/approve", ID: "approveMemory", Summary: "Approve the proposed change of a memory",
			In: decideMemoryRequestJSON{}, Status: 200, Out: rest.IDResponseJSON{}, Handle: s.approve},
		{Method: "POST", Path: "/v1/memories/{memoryId}/reject", ID: "rejectMemory", Summary: "Reject the proposed change of a memory; a new memory is deleted",
			In: decideMemoryRequestJSON{}, Status: 200, Out: rest.IDResponseJSON{}, Handle: s.reject},
		{Method: "DELETE", Path: "/v1/memories/{memoryId}", ID: "deleteMemory", Summary: "Delete a memory and its proposal",
			Query:  []rest.Param{{Name: "revision", Kind: "integer", Min: 1, Max: math.MaxInt32, Words: "required: the revision that you have read"}},
			Status: 200, Out: rest.IDResponseJSON{}, Handle: s.remove},
	}
}

func authorOf(a memory.Author) authorJSON {
	return authorJSON{AgentID: a.AgentID, RunID: a.RunID, UserID: a.UserID}
}

func memoryOf(m memory.Memory) memoryJSON {
	out := memoryJSON{
		ID: m.ID, Repository: m.Repo, Status: "approved", Title: m.Title, Text: m.Text,
		Author: authorOf(m.Author), CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt, Revision: m.Revision,
	}
	if !m.Approved() {
		out.Status = "proposed"
	}
	if p := m.Proposal; p != nil {
		out.Proposal = &proposalJSON{Action: "update", Title: p.Title, Text: p.Text, Author: authorOf(p.By), CreatedAt: p.At}
		switch {
		case p.Delete:
			out.Proposal.Action = "delete"
		case !m.Approved():
			out.Proposal.Action = "create"
		}
	}
	return out
}

func (s *API) list(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	ctx := r.Context()
	access, err := store.Access(ctx, s.Rules)
	if err != nil {
		return err
	}
	repos, err := s.Memories.MemoryRepos(ctx)
	if err != nil {
		return err
	}
	repos = slices.DeleteFunc(repos, func(repo string) bool { return !access.Reaches(who.UserID, who.Role, repo) })
	out := listMemoriesResponseJSON{Repositories: append([]string{}, repos...), Items: []memoryJSON{}}
	if asked := r.URL.Query().Get("repository"); asked != "" {
		repos = slices.DeleteFunc(repos, func(repo string) bool { return repo != secret.Repo(asked) })
	}
	for _, repo := range repos {
		all, err := s.Memories.ListMemories(ctx, repo)
		if err != nil {
			return err
		}
		for _, m := range all {
			out.Items = append(out.Items, memoryOf(m))
		}
		if len(out.Items) > 10*maxListed {
			break
		}
	}
	slices.SortStableFunc(out.Items, func(a, b memoryJSON) int {
		switch {
		case (a.Proposal == nil) == (b.Proposal == nil):
			return 0
		case a.Proposal != nil:
			return -1
		}
		return 1
	})
	if out.Truncated = len(out.Items) > maxListed; out.Truncated {
		out.Items = out.Items[:maxListed]
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

// find returns the memory that a request is about. It is not found if the caller may not
// run agents on its repository.
func (s *API) find(ctx context.Context, r *http.Request, who account.APIKey) (memory.Memory, error) {
	id := r.PathValue("memoryId")
	missing := fault.NotFound("no memory has the id %s", fault.Quoted(id)).Hint("`aloft memory list` lists them")
	m, err := s.Memories.Memory(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return m, missing
	}
	if err != nil {
		return m, err
	}
	access, err := store.Access(ctx, s.Rules)
	if err == nil && !access.Reaches(who.UserID, who.Role, m.Repo) {
		return memory.Memory{}, missing
	}
	return m, err
}

// changeable returns the memory that a request is about, if it has the revision that the
// caller has seen.
func (s *API) changeable(r *http.Request, who account.APIKey, revision int64) (memory.Memory, error) {
	m, err := s.find(r.Context(), r, who)
	if err == nil && m.Revision != revision {
		return m, moved()
	}
	return m, err
}

func moved() error {
	return fault.Conflict("the memory has changed since you read it").Named("memory_changed").Hint("read it again, then decide")
}

// stored replies with what the store says about a change.
func stored(w http.ResponseWriter, err error, out any) error {
	if errors.Is(err, store.ErrMoved) || errors.Is(err, store.ErrNotFound) {
		return moved()
	}
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

func (s *API) get(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	m, err := s.find(r.Context(), r, who)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, memoryOf(m))
}

func (s *API) update(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	var in updateMemoryRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	m, err := s.changeable(r, who, in.Revision)
	if err != nil {
		return err
	}
	title, text, err := memory.Clean(in.Title, in.Text)
	if err != nil {
		return fault.Invalid("%v", err).At("text")
	}
	m.Title, m.Text, m.Proposal, m.UpdatedAt, m.Author.UserID = title, text, nil, time.Now().UTC(), who.UserID
	if err := s.fits(r.Context(), m); err != nil {
		return err
	}
	err = s.Memories.PutMemory(r.Context(), m)
	m.Revision++
	return stored(w, err, memoryOf(m))
}

func (s *API) fits(ctx context.Context, m memory.Memory) error {
	all, err := s.Memories.ListMemories(ctx, m.Repo)
	if err == nil {
		if err := memory.Fits(all, m); err != nil {
			return fault.Invalid("%v", err).At("text")
		}
	}
	return err
}

// proposed returns the memory with the proposal that a request decides about.
func (s *API) proposed(w http.ResponseWriter, r *http.Request, who account.APIKey) (memory.Memory, error) {
	var in decideMemoryRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return memory.Memory{}, err
	}
	m, err := s.changeable(r, who, in.Revision)
	if err == nil && m.Proposal == nil {
		err = fault.Conflict("no change of the memory waits for approval").Named("memory_changed")
	}
	return m, err
}

func (s *API) approve(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	m, err := s.proposed(w, r, who)
	if err != nil {
		return err
	}
	if m.Accept(who.UserID, time.Now().UTC()) {
		err = s.Memories.DeleteMemory(r.Context(), m.ID, m.Revision)
	} else {
		err = s.Memories.PutMemory(r.Context(), m)
	}
	return stored(w, err, rest.IDResponseJSON{ID: m.ID})
}

func (s *API) reject(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	m, err := s.proposed(w, r, who)
	if err != nil {
		return err
	}
	if m.Approved() {
		m.Proposal = nil
		err = s.Memories.PutMemory(r.Context(), m)
	} else {
		err = s.Memories.DeleteMemory(r.Context(), m.ID, m.Revision)
	}
	return stored(w, err, rest.IDResponseJSON{ID: m.ID})
}

func (s *API) remove(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	revision, err := strconv.ParseInt(r.URL.Query().Get("revision"), 10, 64)
	if err != nil {
		return fault.Invalid("is required: the revision that you have read").At("revision")
	}
	m, err := s.changeable(r, who, revision)
	if err != nil {
		return err
	}
	return stored(w, s.Memories.DeleteMemory(r.Context(), m.ID, m.Revision), rest.IDResponseJSON{ID: m.ID})
}
