package memories

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
	"aloft/internal/memory"
	"aloft/internal/secret"
	"aloft/internal/tool"
)

// updateArgs are the arguments of UpdateMemory.
type updateArgs struct {
	Action string `json:"action"`
	Title  string `json:"title"`
	Text   string `json:"knowledge_to_store"`
	ID     string `json:"existing_knowledge_id"`
	Repo   string `json:"repo_url"`
}

// An update is a call of UpdateMemory on one repository.
type update struct {
	*Keeper
	updateArgs
	repo   repository
	by     memory.Author
	callID string
	now    time.Time
}

// Update runs a call of UpdateMemory. A call that is repeated after a crash changes
// nothing more. The error is not for the model.
func (k *Keeper) Update(ctx context.Context, c conversation.ToolCall, s *agent.State) (tool.Result, error) {
	u := update{Keeper: k, callID: c.ID, by: memory.Author{AgentID: s.Agent.ID, RunID: s.Run.ID}, now: time.Now().UTC()}
	d := json.NewDecoder(bytes.NewReader(c.Args))
	d.DisallowUnknownFields()
	if err := d.Decode(&u.updateArgs); err != nil {
		return tool.Failed("the arguments do not match the schema: %v", err), nil
	}
	repos, err := k.repositories(ctx, s.Agent)
	if err != nil {
		return tool.Result{}, err
	}
	name := cmp.Or(secret.Repo(u.Repo), firstRepo(s.Agent))
	at := slices.IndexFunc(repos, func(r repository) bool { return r.name == name })
	if at < 0 {
		return tool.Failed("repo_url: %s is not a repository of this task for which the team's setting memory is on", name), nil
	}
	u.repo = repos[at]
	u.repo.review = u.repo.review || s.Quoted
	run := map[string]func(context.Context) (tool.Result, error){"create": u.create, "update": u.change, "delete": u.delete}[cmp.Or(u.Action, "create")]
	if run == nil {
		return tool.Failed("action is %q; must be create, update or delete", u.Action), nil
	}
	result, err := run(ctx)
	switch {
	case errors.Is(err, store.ErrMoved):
		return tool.Failed("somebody has changed the memory at the same time: send the call again"), nil
	case errors.Is(err, store.ErrNotFound):
		return tool.Failed("existing_knowledge_id: the repository has no memory %q", u.ID), nil
	}
	return result, err
}

func firstRepo(a agent.Agent) string {
	if len(a.Repos) == 0 {
		return ""
	}
	return secret.Repo(a.Repos[0].URL)
}

func (u *update) create(ctx context.Context) (tool.Result, error) {
	if u.ID != "" {
		return tool.Failed("existing_knowledge_id is only for update and delete"), nil
	}
	title, text, err := memory.Clean(u.Title, u.Text)
	if err != nil {
		return tool.Failed("%v", err), nil
	}
	all, err := u.Store.ListMemories(ctx, u.repo.name)
	if err != nil {
		return tool.Result{}, err
	}
	m := memory.Memory{ID: memory.ID(u.by.AgentID, u.callID), Repo: u.repo.name, Author: u.by, CreatedAt: u.now, UpdatedAt: u.now}
	for _, o := range all {
		switch {
		case o.ID == m.ID: // an earlier attempt has stored it
			return u.done(o.ID), nil
		case strings.EqualFold(o.Title, title) || o.Proposal != nil && strings.EqualFold(o.Proposal.Title, title):
			return tool.Failed("there is already a memory with this title: update %s instead", o.ID), nil
		}
	}
	u.set(&m, title, text)
	if err := memory.Fits(all, m); err != nil {
		return tool.Failed("%v", err), nil
	}
	if err := u.Store.AddMemory(ctx, m); err != nil && !errors.Is(err, store.ErrExists) {
		return tool.Result{}, err
	}
	return u.done(m.ID), nil
}

func (u *update) change(ctx context.Context) (tool.Result, error) {
	title, text, err := memory.Clean(u.Title, u.Text)
	if err != nil {
		return tool.Failed("%v", err), nil
	}
	m, refusal, err := u.find(ctx)
	switch {
	case err != nil:
		return tool.Result{}, err
	case refusal != "":
		return tool.Failed("%s", refusal), nil
	case m.Title == title && m.Text == text, m.Proposal != nil && m.Proposal.Title == title && m.Proposal.Text == text:
		return u.done(m.ID), nil
	}
	all, err := u.Store.ListMemories(ctx, u.repo.name)
	if err != nil {
		return tool.Result{}, err
	}
	u.set(&m, title, text)
	if err := memory.Fits(all, m); err != nil {
		return tool.Failed("%v", err), nil
	}
	if err := u.Store.PutMemory(ctx, m); err != nil {
		return tool.Result{}, err
	}
	return u.done(m.ID), nil
}

func (u *update) delete(ctx context.Context) (tool.Result, error) {
	if u.Title != "" || u.Text != "" {
		return tool.Failed("title and knowledge_to_store are only for create and update"), nil
	}
	m, refusal, err := u.find(ctx)
	switch {
	case err != nil:
		return tool.Result{}, err
	case refusal != "":
		return tool.Failed("%s", refusal), nil
	case u.repo.review && m.Approved():
		m.Proposal = &memory.Proposal{Delete: true, By: u.by, At: u.now}
		err = u.Store.PutMemory(ctx, m)
	default:
		err = u.Store.DeleteMemory(ctx, m.ID, m.Revision)
	}
	if err != nil {
		return tool.Result{}, err
	}
	return u.done(m.ID), nil
}

// find returns the memory that the call names. refusal says why the call may not change
// it.
func (u *update) find(ctx context.Context) (m memory.Memory, refusal string, err error) {
	if u.ID == "" {
		return m, "existing_knowledge_id is missing: it is the id mem-… that you were given with the memory", nil
	}
	m, err = u.Store.Memory(ctx, u.ID)
	switch {
	case err != nil:
		return m, "", err
	case m.Repo != u.repo.name:
		return m, "", store.ErrNotFound // also not to reveal the memories of other repositories
	case !m.Approved() && m.Proposal.By.AgentID != u.by.AgentID:
		return m, "", store.ErrNotFound // agents do not get what nobody has approved
	case u.repo.review && m.Proposal != nil && m.Proposal.By.AgentID != u.by.AgentID:
		return m, "another agent has proposed a change of this memory, for which a person must decide first", nil
	}
	return m, "", nil
}

// set sets the title and the text, or proposes them if a person must approve them.
func (u *update) set(m *memory.Memory, title, text string) {
	if u.repo.review {
		m.Proposal = &memory.Proposal{Title: title, Text: text, By: u.by, At: u.now}
		return
	}
	m.Title, m.Text, m.Author, m.UpdatedAt = title, text, u.by, u.now
	if m.Proposal != nil && m.Proposal.By.AgentID == u.by.AgentID {
		m.Proposal = nil
	}
}

// done returns the result of a call that has changed a memory.
func (u *update) done(id string) tool.Result {
	output, err := json.Marshal(map[string]any{"success": map[string]any{"memoryId": id, "waitsForApproval": u.repo.review}})
	if err != nil {
		return tool.Failed("encode the result: %v", err)
	}
	text := "Memory " + id + ": the change applies to later agents on " + u.repo.name + "."
	if u.repo.review {
		text = "Memory " + id + ": the change is proposed. It applies to later agents on " + u.repo.name + " once a person has approved it."
	}
	return tool.Result{Text: text, Output: output}
}
