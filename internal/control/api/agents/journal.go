package agents

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
)

// journalJSON is the state folded from an agent's journal, up to an event. A
// client that has this state and reads the later events knows as much as a
// client that has read all events.
type journalJSON struct {
	_       struct{}            `json:"-" additionalProperties:"true"`
	Head    int64               `json:"head" minimum:"0" doc:"number of the last event included in todos and queue"`
	Counted int64               `json:"counted" minimum:"0" doc:"number of the last event included in the other fields, such as turns and usage"`
	Turns   int                 `json:"turns" minimum:"0" doc:"number of model replies, including replaced ones"`
	Usage   usageTokenUsageJSON `json:"usage"`
	Branch  string              `json:"branch,omitempty" minLength:"1" doc:"branch that was pushed last"`
	Run     *journalRunJSON     `json:"run,omitempty" doc:"the latest run"`
	Todos   []todoJSON          `json:"todos" nullable:"false" doc:"the agent's to-do list"`
	Queue   []queueItemJSON     `json:"queue" nullable:"false" doc:"queued prompts, next first"`
}

type journalRunJSON struct {
	_         struct{}   `json:"-" additionalProperties:"true"`
	ID        string     `json:"id"`
	Status    string     `json:"status" enum:"CREATING,RUNNING,FINISHED,ERROR,CANCELLED,EXPIRED"`
	CreatedAt time.Time  `json:"createdAt"`
	EndedAt   *time.Time `json:"endedAt,omitempty"`
}

type todoJSON struct {
	_       struct{} `json:"-" additionalProperties:"true"`
	ID      string   `json:"id"`
	Content string   `json:"content"`
	Status  string   `json:"status"`
}

func (s *API) getJournal(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	ctx := r.Context()
	a, err := s.Agent(ctx, who, r.PathValue("id"))
	if err != nil {
		return err
	}
	out := journalJSON{Head: a.Head, Todos: []todoJSON{}}
	if out.Queue, err = s.queueOf(ctx, a); err != nil {
		return err
	}
	if n := len(a.Todos); n > 0 {
		events, err := s.Journal.Read(ctx, a.ID, a.Todos[n-1]-1, 1)
		if err != nil {
			return fmt.Errorf("read the list of %s: %w", a.ID, err)
		}
		for _, e := range events {
			todos, _ := agent.TodosOf(e)
			for _, t := range todos {
				out.Todos = append(out.Todos, todoJSON{ID: t.ID, Content: t.Content, Status: t.Status})
			}
		}
	}
	var total conversation.Usage
	if err := s.eachRun(ctx, a.ID, func(run agent.Run) {
		if out.Run == nil {
			out.Run = &journalRunJSON{ID: run.ID, Status: string(run.Status), CreatedAt: rest.Stamp(run.CreatedAt)}
			if run.Status.Ended() {
				at := rest.Stamp(run.EndedAt)
				out.Run.EndedAt = &at
			}
		}
		out.Counted = max(out.Counted, run.LastSeq)
		out.Turns += run.Turns
		total = total.Add(run.Usage)
		if n := len(run.Branches); n > 0 && out.Branch == "" {
			out.Branch = run.Branches[n-1].Branch
		}
	}); err != nil {
		return err
	}
	out.Usage = usageOf(total)
	return rest.WriteJSON(w, http.StatusOK, out)
}

// eachRun calls f for every run of an agent, the newest first. It skips runs
// that are created while it works.
func (s *API) eachRun(ctx context.Context, agentID string, f func(agent.Run)) error {
	for p := (store.Page{Limit: rest.MaxLimit}); ; {
		runs, err := s.Agents.ListRuns(ctx, agentID, p)
		if err != nil {
			return fmt.Errorf("list the runs of %s: %w", agentID, err)
		}
		for _, run := range runs {
			f(run)
		}
		if len(runs) < p.Limit {
			return nil
		}
		last := runs[len(runs)-1]
		p.BeforeTime, p.BeforeID = last.CreatedAt, last.ID
	}
}
