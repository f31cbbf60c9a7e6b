package server

import (
	"context"

	"aloft/internal/agent"
	"aloft/internal/control/follow"
	"aloft/internal/control/inbound"
	"aloft/internal/control/mention"
	"aloft/internal/fault"
)

// openEvents creates the desk that follows the pull requests of agents, and the
// inbox for events of forges.
func (a *assembly) openEvents(context.Context) error {
	if !a.config.follows() {
		return nil
	}
	a.follow = follow.New(follow.Config{
		Store: a.store, Journal: a.observer.Journal(), Owner: a.store.ServerID(), Forges: a.pulls.Forges, Branch: a.commitOf,
		May: a.mayFollow, Wake: a.schedule.Wake, Secrets: a.configured, Shown: a.team.ShownOutside,
		Autofix: a.team.FixesChecks,
		Gather:  duration(a.config.PullRequests.Gather), Poll: duration(a.config.PullRequests.Poll), Logger: a.logger,
	})
	if a.config.Mentions.isOn() {
		a.follow.Elsewhere = func(body string) bool { return mention.AsksReview(body, a.config.Mentions.Handle) }
		a.openMentions()
	}
	if len(a.config.Connections) > 0 {
		a.inbox = inbound.NewInbox(inbound.Config{Store: a.store, Connections: a.config.connections(), Logger: a.logger})
		var handler inbound.Handler = a.follow
		if a.mentions != nil {
			handler = a.mentions
		}
		handler, err := a.automatic(handler)
		if err != nil {
			return err
		}
		a.events = inbound.NewWorker(inbound.WorkerConfig{Inbox: a.inbox, Handler: handler, Also: a.automations, Owner: a.store.ServerID(), Logger: a.logger})
	}
	return nil
}

// commitOf returns the commit of a branch of a repository.
func (a *assembly) commitOf(ctx context.Context, repoURL, branch string) (string, error) {
	info, err := a.gateway.Check(ctx, repoURL, branch)
	return info.Commit, err
}

// mayFollow returns a fault if the agent's user may not start a run of the
// agent now.
func (a *assembly) mayFollow(ctx context.Context, of agent.Agent) error {
	user, err := a.store.User(ctx, of.UserID)
	if err != nil {
		return err
	}
	if user.Disabled {
		return fault.Denied("the user of the agent is disabled")
	}
	for _, r := range of.Repos {
		if err := a.team.MayReach(ctx, of.UserID, r.URL); err != nil {
			return err
		}
	}
	usage, err := a.store.Held(ctx, of.UserID)
	if most := a.config.Quotas.Running; err == nil && most > 0 && usage.Running >= most {
		return fault.Exhausted("the user of the agent has %d running agents, which is the limit", most)
	}
	return err
}
