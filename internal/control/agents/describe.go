package agents

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"aloft/internal/agent"
	"aloft/internal/fault"
	"aloft/internal/policy/permit"
	"aloft/internal/subagent"
)

// describe validates the options of the agent, and returns its first event.
func (c *Creator) describe(ctx context.Context, q *Request, prompt string) (*agent.Created, error) {
	if err := checkEnvironmentType(q.Environment); err != nil {
		return nil, err
	}
	model, err := c.Models.Choose(ctx, q.Model)
	if err != nil {
		return nil, err
	}
	repos, err := c.checkRepos(q.Repos)
	if err != nil {
		return nil, err
	}
	env, err := checkEnvironment(q.Environment)
	if err != nil {
		return nil, err
	}
	created := &agent.Created{
		Name: agent.NameFrom(prompt), UserID: q.By.UserID, Env: env,
		Repos: repos, Model: model, Class: q.Class, RunMode: q.RunMode, WorkOnCurrentBranch: q.WorkOnCurrentBranch,
	}
	if q.Name != nil {
		created.Name = *q.Name
	}
	if q.Webhook != nil {
		created.WebhookEvents = q.Webhook.Events
	}
	if err := checkOptions(q); err != nil {
		return nil, err
	}
	if env.Preset != "" && len(repos) == 0 {
		return nil, fault.Invalid("is required: an environment belongs to a repository").Named(CodeNoRepository).At("repos")
	}
	if created.Review, err = c.checkReview(ctx, q, repos); err != nil {
		return nil, err
	}
	if created.Review != nil {
		created.Env.Preset = agent.Reviewer
	}
	if created.Pull, err = c.checkPullRequests(q.PullRequest, repos); err != nil {
		return nil, err
	}
	if created.Subagents, err = c.checkSubagents(ctx, q.Subagents); err != nil {
		return nil, err
	}
	created.Branch, err = chooseBranch(q, cmp.Or(strings.TrimSpace(prompt), created.Name))
	return created, err
}

// checkOptions validates the class, the run mode and the name.
func checkOptions(q *Request) error {
	if q.Class != "" && q.Class != "strong" {
		return fault.Invalid("is %q; must be strong, or absent for the server's default", q.Class).At("class")
	}
	if q.RunMode != "" {
		if _, err := permit.ParseMode(q.RunMode); err != nil {
			return fault.Invalid("%v", err).At("runMode")
		}
	}
	if q.Name != nil {
		return CheckName(*q.Name)
	}
	return nil
}

// CheckName returns a fault if an agent cannot have the name.
func CheckName(name string) error {
	if n := utf8.RuneCountInString(name); n < 1 || n > 100 {
		return fault.Invalid("has %d characters; must have 1 to 100", n).At("name")
	}
	return nil
}

// chooseBranch returns the name of the branch to create, or "" to stay on the
// starting ref.
func chooseBranch(q *Request, prompt string) (string, error) {
	switch name := q.BranchName; {
	case name == nil && q.WorkOnCurrentBranch:
		return "", nil
	case name == nil:
		return agent.NewBranch(prompt), nil
	case q.WorkOnCurrentBranch:
		return "", fault.Invalid("cannot be combined with workOnCurrentBranch").Hint("omit one of the two").At("branchName")
	case !ValidRef(*name), *name == "HEAD", strings.HasPrefix(*name, "refs/"):
		return "", fault.Invalid("%s is not a valid branch name", fault.Quoted(*name)).Named("invalid_branch_name").At("branchName")
	default:
		return *name, nil
	}
}

// checkSubagents validates custom subagents.
func (c *Creator) checkSubagents(ctx context.Context, subagents []Subagent) ([]subagent.Definition, error) {
	if len(subagents) > subagent.MaxGiven {
		return nil, fault.Invalid("has %d entries; the limit is %d", len(subagents), subagent.MaxGiven).At("customSubagents")
	}
	var all []subagent.Definition
	for i, s := range subagents {
		at := fmt.Sprintf("customSubagents[%d].", i)
		d := subagent.Definition{Name: s.Name, Description: s.Description, Words: s.Prompt}
		if field, err := subagent.Check(d); err != nil {
			return nil, fault.Invalid("%v", err).At(at + field)
		}
		if slices.ContainsFunc(all, func(o subagent.Definition) bool { return o.Name == d.Name }) {
			return nil, fault.Invalid("duplicate name %s", fault.Quoted(d.Name)).At(at + "name")
		}
		if s.Model != nil {
			if d.Model = s.Model.ID; d.Model != subagent.Inherit && d.Model != subagent.Fast {
				id, err := c.Models.Choose(ctx, s.Model)
				if err != nil {
					return nil, fault.Of(err).At(at + fault.Of(err).Field)
				}
				d.Model = cmp.Or(id, c.Models.Default)
			}
		}
		all = append(all, d)
	}
	return all, nil
}
