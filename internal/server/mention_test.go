package server

import (
	"testing"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/mention"
)

func TestRequestOfAMention(t *testing.T) {
	owner := account.APIKey{UserID: 7, Role: account.Member}
	of := mention.Start{AgentID: "bc-1", UserID: 7, Prompt: "fix it", RepoURL: "https://git.test/o/r"}

	q := requestOf(of, owner)
	if q.By.UserID != 7 || q.ID != "bc-1" || q.RunID == "" || q.Repeatable || q.Event != agent.ByMention || q.Prompt.Text != "fix it" || q.Model != nil {
		t.Errorf("request %+v", q)
	}
	if len(q.Repos) != 1 || q.Repos[0].URL != of.RepoURL || q.Repos[0].StartingRef != nil || q.WorkOnCurrentBranch || !q.PullRequest.Auto {
		t.Errorf("an issue: repositories %+v, %+v", q.Repos, q)
	}

	of.Branch, of.Model = "dev", "big"
	q = requestOf(of, owner)
	if r := q.Repos[0]; r.StartingRef == nil || *r.StartingRef != "dev" || q.Model == nil || q.Model.ID != "big" {
		t.Errorf("with a branch and a model: %+v", q)
	}

	of.PullRequest = "https://git.test/o/r/pull/9"
	q = requestOf(of, owner)
	if r := q.Repos[0]; r.URL != "" || r.StartingRef != nil || r.PullRequest == nil || *r.PullRequest != of.PullRequest || !q.WorkOnCurrentBranch || q.PullRequest.Auto {
		t.Errorf("a pull request: %+v", q)
	}
}
