// Package fork finds the points of an agent's history from which another agent can
// continue, and writes the beginning of that agent's journal.
package fork

import (
	"fmt"
	"slices"
	"strings"

	"aloft/internal/agent"
)

// A Point is a moment in an agent's history from which forks can continue.
type Point struct {
	Created agent.Created // the agent's first event
	State   *agent.State
	Turn    int               // number of model replies so far
	Last    bool              // no later events, so the current disk fits
	Pushed  map[string]string // the commit on the remote at that time, by repository; repositories that were not pushed are absent
}

// At returns the moment after the turn with that number, including the results of its
// calls. A turn is a reply of the model, counted from 1; 0 means now. events is the
// agent's whole journal.
func At(id string, events []agent.Event, turn int) (Point, error) {
	p := Point{State: agent.Fold(id, nil), Pushed: map[string]string{}, Last: true}
	if turn < 0 {
		return p, fmt.Errorf("%w: turn %d", agent.ErrNoTurn, turn)
	}
	for _, e := range events {
		switch b := e.Body.(type) {
		case *agent.Created:
			p.Created = *b
		case *agent.RunCreated, *agent.Compacted, *agent.Rewound:
			p.Last = turn == 0 || p.Turn < turn
		case *agent.TurnReplied:
			if p.Last = turn == 0 || p.Turn < turn; p.Last {
				p.Turn++
			}
		case *agent.Pushed:
			p.Pushed[b.RepoURL] = b.Commit
		}
		if !p.Last {
			return p, nil
		}
		p.State.Apply(e)
	}
	if p.Turn < turn {
		return p, fmt.Errorf("%w: turn %d of %d", agent.ErrNoTurn, turn, p.Turn)
	}
	return p, nil
}

// Events returns the first events for the journal of an agent that continues from p,
// with the given branch. layer is the agent's disk, or "". bootID is the boot whose
// processes continue, or "". The events do not include the original's permissions,
// secrets and machine.
func Events(p Point, name, branch, layer, bootID string) []agent.Event {
	created := p.Created
	created.Name, created.Branch, created.WorkOnCurrentBranch = name, branch, false
	created.Env.Preset, created.Review = "", nil // a fork has an ordinary task
	created.Repos = slices.Clone(created.Repos)
	for i := range created.Repos { // the fork starts from the original's work
		created.Repos[i].PullRequest = ""
		if i < len(p.State.Agent.Repos) {
			created.Repos[i].StartingRef, created.Repos[i].TeamBase = p.State.Agent.Repos[i].StartingRef, p.State.Agent.Repos[i].TeamBase
		}
	}
	if len(created.Repos) == 0 {
		created.Branch = ""
	}
	f := &agent.Forked{
		ForkPosition: agent.ForkPosition{AgentID: p.State.Agent.ID, Seq: p.State.Agent.Head, Turn: p.Turn}, Layer: layer, BootID: bootID,
		Numbers: p.State.Number(), ForkConversation: agent.ForkConversation{Messages: p.State.Messages, Asked: p.State.Asked, Todos: p.State.Todos, Memory: p.State.Memory, Servers: p.State.Servers, Mode: p.State.Mode},
		Quoted: p.State.Quoted, OnPull: p.State.OnPull, RulesAt: p.State.Agent.RulesAt, Subagents: p.State.Resumables(), Checks: p.State.RequestChecks, Goal: p.State.Judging.Goal,
	}
	told := func(words string) []agent.Event {
		for _, sub := range p.State.Background() {
			words += fmt.Sprintf(" The subagent %s (%s: %s), which works in the background, belongs to the other agent.", sub.ID, sub.Type, sub.Description)
		}
		words = strings.Join(append(slices.Clip(p.State.Notices()), words), "\n\n")
		return []agent.Event{{Body: &created}, {Body: f}, {Body: &agent.Notice{Text: words}}}
	}
	if layer != "" {
		f.BaseCommit = p.State.BaseCommit
		for _, o := range p.State.Others {
			f.Others = append(f.Others, agent.Checkout{BaseCommit: o.BaseCommit, Branch: created.Branch})
		}
		return told(onItsDisk(created, bootID != ""))
	}
	for i, r := range created.Repos {
		commit := p.Pushed[r.URL]
		if commit == "" {
			commit = p.State.Checkout(i).BaseCommit
		}
		if commit != "" {
			created.Repos[i].StartingRef, created.Repos[i].TeamBase = commit, false
		}
	}
	return told(onWhatWasPushed(p, created))
}

const forkedWords = "From here on you are a different agent from the one in the conversation so far, which continues separately. "

func onItsDisk(c agent.Created, alive bool) string {
	words := forkedWords + "Your machine is a different one, with a copy of that agent's disk: files are unchanged, including uncommitted changes."
	if !alive { // otherwise the fork is told when the machine is ready
		words += " " + agent.ForkedWithout
	}
	if c.Branch != "" {
		words += " You work on the branch " + c.Branch + ", which starts from that work."
	}
	return words
}

func onWhatWasPushed(p Point, c agent.Created) string {
	words := forkedWords + "Your machine is new: files, packages and processes of the previous one are gone."
	for _, r := range c.Repos {
		if commit := p.Pushed[r.URL]; commit != "" {
			words += fmt.Sprintf(" %s is at %.12s, the last commit that had been pushed then: later changes are not in the tree.", r.URL, commit)
		} else {
			words += fmt.Sprintf(" %sis at the commit where the work started, since nothing had been pushed then: changes mentioned in the conversation are not in the tree.", r.URL)
		}
	}
	if c.Branch != "" {
		words += " You work on the branch " + c.Branch + "."
	}
	return words + " Check the state of the tree before you continue."
}
