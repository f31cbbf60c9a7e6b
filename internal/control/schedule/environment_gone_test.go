package schedule

import (
	"context"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/build"
)

// deleted simulates that every environment was deleted.
type deleted struct{ environments }

func (d deleted) Plan(ctx context.Context, a agent.Agent, ref string) (build.Plan, error) {
	p, err := d.environments.Plan(ctx, a, ref)
	p.Gone = "the environment was deleted"
	return p, err
}

// If an agent's saved environment was deleted, the next run tells the agent
// once, and the agent continues.
func TestEnvironmentGoneIsToldOnce(t *testing.T) {
	s := newSite(t)
	intact := s.Fleet.Environments.(environments)
	id := s.agent()
	s.run()
	at, _ := s.waitForEnd(id, 0)
	s.idle(id)
	s.Fleet.Environments = deleted{intact}
	for range 2 {
		s.prompt(id)
		s.Wake(id)
		var end *agent.RunEnded
		if at, end = s.waitForEnd(id, at); end.Status != agent.Finished {
			t.Errorf("the run ended with %+v", end)
		}
		s.idle(id)
	}
	events, err := s.store.Read(t.Context(), id, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, e := range events {
		if n, ok := e.Body.(*agent.Notice); ok && n.Code == agent.CodeEnvironmentGone {
			told++
		}
	}
	if told != 1 {
		t.Errorf("it is told %d times", told)
	}
}
