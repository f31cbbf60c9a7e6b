package loop

import (
	_ "embed"
	"strings"
	"text/template"

	"aloft/internal/agent"
)

//go:embed prompts/system.md
var systemWords string

// helperWords are added for agents that find out how a machine is set up.
//
//go:embed prompts/vm_setup_helper.md
var helperWords string

var systemTemplate = template.Must(template.New("system").Parse(systemWords))

// systemPrompt is what the model is told before the conversation. It changes
// nowhere within an agent's life, so that providers can cache it.
func systemPrompt(s *agent.State) string {
	type checkout struct{ Path, URL, Branch, Base string }
	data := struct {
		Repo, Branch, Base string
		Others             []checkout // all, where there are several
	}{Branch: s.Branch, Base: s.BaseCommit}
	if len(s.Agent.Repos) > 0 {
		data.Repo = s.Agent.Repos[0].URL
	}
	if folders := agent.Folders(s.Agent.Repos); len(folders) > 1 {
		for n, repo := range s.Agent.Repos {
			was := s.Checkout(n)
			data.Others = append(data.Others, checkout{folders[n], repo.URL, was.Branch, was.BaseCommit})
		}
	}
	var b strings.Builder
	if err := systemTemplate.Execute(&b, data); err != nil {
		panic(err) // the template and its data are both constants of this file
	}
	if s.Agent.Env.Preset == agent.VMSetupHelper {
		b.WriteString(helperWords)
	}
	return b.String()
}
