package agents

import (
	"testing"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/api/modelchoice"
	"aloft/internal/control/api/pulls"
	"aloft/internal/control/api/rest"
	"aloft/internal/fault"
)

func FuzzCreateAgent(f *testing.F) {
	f.Add(`{"prompt":{"text":"Mend the failing test"},"repos":[{"url":"https://git.example.com/o/r.git","startingRef":"main"}]}`)
	f.Add(`{"prompt":{"text":"x"},"agentId":"bc-00000000-0000-4000-8000-000000000001","model":{"id":"default"},"name":"n"}`)
	f.Add(`{"prompt":{"text":"x","images":[{"data":"iVBORw0KGgo=","mimeType":"image/png"}]}}`)
	f.Add(`{"prompt":{"text":5},"repos":[{"url":"ext::x"}]`)
	f.Add("\xff\xfe{")
	shared := &rest.Shared{}
	s := New(shared, Config{}, Parts{Models: modelchoice.New(shared, modelchoice.Config{}), Pulls: pulls.New(shared, pulls.Config{})})
	f.Fuzz(func(t *testing.T, body string) {
		var in createAgentRequestJSON
		if err := rest.Decode([]byte(body), &in); err != nil {
			invalid(t, err)
			return
		}
		m, err := in.Prompt.message()
		if err != nil {
			invalid(t, err)
			return
		}
		c, err := s.created(t.Context(), &in, m.PlainText(), account.APIKey{UserID: 1})
		if err != nil {
			invalid(t, err)
			return
		}
		if len(c.Repos) > 1 || c.Name == "" || c.Branch == "" && !c.WorkOnCurrentBranch {
			t.Errorf("%q makes %+v", body, c)
		}
		for _, b := range []agent.Body{c, &agent.RunCreated{Prompt: m}} {
			if _, _, err := agent.Encode(b); err != nil {
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
