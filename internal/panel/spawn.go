package panel

import (
	"context"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/google/uuid"

	"aloft/internal/client"
)

// askRepo asks for a new agent's repository, and then for its task. The default is the
// repository of the selected agent.
func (m *Model) askRepo() {
	if m.client == nil {
		return
	}
	repo := ""
	if a := m.current(); a != nil && len(a.Repos) > 0 {
		repo = clean(a.Repos[0].URL)
	}
	m.typed = newLine("use this repository for the new agent (empty for the team's default)", repo, func(repo string) tea.Cmd {
		m.askTask(strings.TrimSpace(repo))
		return nil
	}, nil)
	m.typed.mayBeEmpty = true
}

func (m *Model) askTask(repo string) {
	label := "start this task"
	if repo != "" {
		label += " on " + cutTo(repo, 40)
	}
	m.typed = newLine(label, m.drafts[""].text, func(text string) tea.Cmd { return m.spawn(repo, text) },
		func(text string) { m.drafts[""] = draft{text: text} })
}

// spawn creates the agent. The panel chooses the id, so that retrying a request whose
// reply was lost does not create a second agent.
func (m *Model) spawn(repo, text string) tea.Cmd {
	m.drafts[""] = draft{text: text}
	m.asked = m.asked.withText(repo + "\x00" + text)
	key := m.asked.key
	id := "bc-" + uuid.NewSHA1(uuid.NameSpaceOID, []byte(key)).String()
	in := client.NewAgent{AgentID: id, Prompt: client.Prompt{Text: text}}
	if repo != "" {
		in.Repos = []client.Repo{{URL: repo}}
	}
	return m.perform(act{did: "Started.", sends: true, made: &id, do: func(ctx context.Context, c Client) error {
		made, _, err := c.CreateAgent(ctx, in, key)
		id = made.ID
		return err
	}})
}
