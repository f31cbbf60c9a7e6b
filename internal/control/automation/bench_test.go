package automation

import (
	"context"
	"testing"
	"time"

	"aloft/internal/control/store"
)

// countedAgents reports each start of an agent.
type countedAgents struct {
	*agents
	each chan bool
}

func (c countedAgents) Start(ctx context.Context, s Start) error {
	err := c.agents.Start(ctx, s)
	c.each <- err == nil
	return err
}

// BenchmarkThousandDue measures how long one server needs to start the agents of
// 1,000 automations that are due in the same minute. Each has exactly one start.
func BenchmarkThousandDue(b *testing.B) {
	const n = 1000
	for b.Loop() {
		b.StopTimer()
		w := newWorld(b)
		w.now = time.Now().Add(-time.Second)
		var all []store.Automation
		for range n {
			a := w.add(scheduled("0 0 1 1 *"))
			if _, err := w.store.ChangeAutomation(b.Context(), a.ID, func(a *store.Automation) ([]store.AutomationStart, error) {
				a.NextAt, a.DueAt = w.now, w.now
				return nil, nil
			}); err != nil {
				b.Fatal(err)
			}
			all = append(all, a)
		}
		agents := countedAgents{w.agents, make(chan bool, n)}
		w.desk = New(Config{Store: w.store, Agents: agents, Owner: "a", AgentID: w.desk.AgentID})
		ctx, stop := context.WithCancel(b.Context())
		over := make(chan error, 1)
		b.StartTimer()
		go func() { over <- w.desk.Run(ctx) }()
		for range n {
			<-agents.each
		}
		b.StopTimer()
		stop()
		if err := <-over; err != nil {
			b.Fatal(err)
		}
		for _, a := range all {
			if got := w.history(a); len(got) != 1 {
				b.Fatalf("%s has the starts %q", a.ID, got)
			}
		}
		if len(w.agents.started) != n {
			b.Fatalf("started %d agents", len(w.agents.started))
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Seconds())/float64(b.N), "s/1000-automations")
}
