package command

import (
	"bufio"
	"context"
	"slices"
	"strings"
	"sync"

	"aloft/internal/agent"
	"aloft/internal/cli"
	"aloft/internal/client"
)

// An asker shows the questions of a watched agent to the person at the
// terminal. Its methods are safe for concurrent use. A nil asker asks nobody.
type asker struct {
	a       *App
	client  *client.Client
	agentID string

	mu   sync.Mutex
	open []client.Approval
}

// newAsker returns an asker if follow is set and input is a terminal, and nil
// otherwise.
func (a *App) newAsker(ctx context.Context, c *client.Client, agentID string, follow bool) *asker {
	if !follow || a.Out.JSON() || !cli.IsTerminal(a.Stdin) || !cli.IsTerminal(a.Stdout) {
		return nil
	}
	k := &asker{a: a, client: c, agentID: agentID}
	go k.listen(ctx) // runs until the process ends, because reading a terminal cannot be stopped
	return k
}

// saw handles an event that was just printed.
func (k *asker) saw(e client.Event) {
	if k == nil {
		return
	}
	body, err := agent.Decode(e.Kind, e.Data)
	if err != nil {
		return // a newer server may send other kinds
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch b := body.(type) {
	case *agent.ApprovalAsked:
		q := cli.ApprovalOf(b.Approval)
		k.open = append(k.open, q)
		k.a.Out.Line("    %s", askWords(q))
	case *agent.ApprovalAnswered:
		k.open = slices.DeleteFunc(k.open, func(q client.Approval) bool { return q.ID == b.ApprovalID })
	case *agent.RunEnded:
		k.open = nil
	}
}

// askWords returns the prompt that lists the possible answers to q.
func askWords(q client.Approval) string {
	if len(q.Questions) > 0 {
		return "your answer: option number or text (ID=…; ID=… for several questions)   -: let the agent decide"
	}
	if len(q.Entries) == 0 {
		return "y: allow   n [message]: deny"
	}
	return "y: allow   a: allow for this agent   always: allow for all your agents   n [message]: deny"
}

// listen reads lines and uses each as the answer to the oldest question.
func (k *asker) listen(ctx context.Context) {
	lines := bufio.NewScanner(k.a.Stdin)
	for lines.Scan() && ctx.Err() == nil {
		k.mu.Lock()
		open := slices.Clone(k.open)
		k.mu.Unlock()
		if len(open) == 0 || strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		in, ok := readAnswer(open[0], lines.Text())
		if !ok {
			k.a.Out.Note("%s", askWords(open[0]))
			continue
		}
		if err := k.client.AnswerApproval(ctx, k.agentID, open[0].ID, in); err != nil {
			k.a.Out.Note("%s", cli.Line(err.Error(), 0))
		}
	}
}

// readAnswer parses a typed answer.
func readAnswer(q client.Approval, line string) (client.Answer, bool) {
	if len(q.Questions) > 0 {
		typed := strings.Split(line, ";")
		if len(q.Questions) == 1 {
			typed = []string{line}
		}
		in, err := q.Answer(typed...)
		if strings.TrimSpace(line) == "-" {
			in, err = client.Answer{Decision: client.Deny}, nil
		}
		return in, err == nil
	}
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	rest = strings.TrimSpace(rest)
	switch strings.ToLower(word) {
	case "n", "no", "deny":
		return client.Answer{Decision: client.Deny, Message: rest}, true
	case "y", "yes", "allow":
		return client.Answer{Decision: client.AllowOnce}, rest == ""
	case "a", "agent":
		return client.Answer{Decision: client.AllowAgent}, rest == ""
	case "always":
		return client.Answer{Decision: client.AllowAlways}, rest == ""
	}
	return client.Answer{}, false
}
