package pull_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/pull"
)

// TestPullRequestsNameArtifacts checks that a pull request names the screenshots
// of its agent, unless the agent's messages are hidden, and that it is opened
// even if they cannot be listed.
func TestPullRequestsNameArtifacts(t *testing.T) {
	o := newOffice(t)
	names, failure := []string{"list-before.png", "list-after.png"}, error(nil)
	o.desk.Artifacts = func(_ context.Context, agentID string) ([]string, error) {
		if agentID != o.id {
			t.Errorf("asked for the artifacts of %s", agentID)
		}
		return names, failure
	}
	asked, err := o.propose(o.head, pull.Options{})
	if want := "on the [agent's page](https://aloft.test/agents/" + o.id + "):\n\n- before and after: `list-before.png`, `list-after.png`"; err != nil || !strings.Contains(asked.Body, want) {
		t.Errorf("the body is %q, %v", asked.Body, err)
	}
	failure, names = errors.New("the bucket is away"), nil
	if asked, err = o.propose(o.head, pull.Options{}); err != nil || strings.Contains(asked.Body, "Screenshots") {
		t.Errorf("without a list: %q, %v", asked.Body, err)
	}
	failure, names = nil, []string{"private.png"}
	o.desk.Shown = func(context.Context, agent.Agent, agent.Run) (bool, error) { return false, nil }
	if asked, err = o.propose(o.head, pull.Options{}); err != nil || strings.Contains(asked.Body, "private.png") {
		t.Errorf("hidden: %q, %v", asked.Body, err)
	}
}
