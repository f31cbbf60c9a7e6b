package agents

import (
	"context"
	"testing"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/agents"
	"aloft/internal/control/api/mcpservers"
	"aloft/internal/control/api/modelchoice"
	"aloft/internal/control/api/pulls"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/fault"
	"aloft/internal/mcp"
	"aloft/internal/secret"
)

func FuzzCreateAgent(f *testing.F) {
	f.Add(`{"prompt":{"text":"Mend the failing test"},"repos":[{"url":"https://git.example.com/o/r.git","startingRef":"main"}]}`)
	f.Add(`{"prompt":{"text":"x"},"agentId":"bc-00000000-0000-4000-8000-000000000001","model":{"id":"default"},"name":"n"}`)
	f.Add(`{"prompt":{"text":"x","images":[{"data":"iVBORw0KGgo=","mimeType":"image/png"}]}}`)
	f.Add(`{"prompt":{"text":"x","images":[{"url":"https://h/i.png"}]},"env":{"type":"cloud","name":"n"}}`)
	f.Add(`{"prompt":{"text":"x"},"envVars":{"A":"b"},"webhook":{"url":"https://h/"},"mcpServers":[{"name":"m","url":"https://h/"}]}`)
	f.Add(`{"prompt":{"text":5},"repos":[{"url":"ext::x"}]`)
	f.Add("\xff\xfe{")
	f.Fuzz(func(t *testing.T, body string) {
		var in createAgentRequestJSON
		if err := rest.Decode([]byte(body), &in); err != nil {
			invalid(t, err)
			return
		}
		q, err := in.request()
		if err != nil {
			invalid(t, err)
			return
		}
		q.By, q.ID, q.RunID = account.APIKey{UserID: 1}, agent.NewID(), agent.NewRunID()
		var journal firstEvents
		shared := &rest.Shared{Journal: &journal, Saved: noEnvironments{}, Secrets: noSecrets{}, Work: noWork{}}
		s := New(shared, Config{Outbound: noOutbound{}}, Parts{
			Models: modelchoice.New(shared, modelchoice.Config{}), Pulls: pulls.New(shared, pulls.Config{}), MCPServers: mcpservers.New(shared, mcpservers.Config{}),
		})
		creator := s.Creator()
		creator.MCP = anyMCP{}
		if _, err = creator.Create(t.Context(), q); err != nil {
			invalid(t, err)
			return
		}
		c, ok := journal.events[0].Body.(*agent.Created)
		if !ok || len(c.Repos) > 20 || c.Name == "" || c.Branch == "" && !c.WorkOnCurrentBranch {
			t.Errorf("%q makes %+v", body, journal.events[0].Body)
		}
		for _, e := range journal.events {
			if _, _, err := agent.Encode(e.Body); err != nil {
				t.Errorf("%q cannot be journaled: %v", body, err)
			}
		}
	})
}

func invalid(t *testing.T, err error) {
	t.Helper()
	if f := fault.Of(err); f.Kind != fault.KindInvalid || f.Message == "" {
		t.Errorf("not a fault of the request: %v", err)
	}
}

// firstEvents is a journal that keeps the events of one agent.
type firstEvents struct {
	store.Journal
	events []agent.Event
}

func (j *firstEvents) Append(_ context.Context, a store.Append) ([]agent.Event, error) {
	j.events = a.Events
	return a.Events, nil
}

type (
	noEnvironments struct{ store.Environments }
	noSecrets      struct{ rest.Secrets }
	noWork         struct{ rest.Work }
	noOutbound     struct{}
	anyMCP         struct{ agents.MCPServers }
)

func (anyMCP) CheckAll([]mcp.Server, string) (string, error) { return "[]", nil }

func (noEnvironments) ListEnvironments(context.Context, int64, store.Page) ([]environment.Saved, error) {
	return nil, nil
}

func (noSecrets) SealEnvVars(context.Context, string, map[string]string) ([]secret.Sealed, error) {
	return nil, nil
}

func (noSecrets) SealWebhook(context.Context, string, string, string) (secret.Sealed, error) {
	return secret.Sealed{}, nil
}

func (noSecrets) SealMCP(context.Context, string, string, string) (secret.Sealed, error) {
	return secret.Sealed{}, nil
}

func (noWork) Wake(string) {}

func (noOutbound) Check(string) error { return nil }

func (noOutbound) Image(context.Context, string) ([]byte, string, error) {
	return nil, "", fault.Invalid("cannot be fetched")
}
