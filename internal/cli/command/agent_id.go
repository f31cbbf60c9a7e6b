package command

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
)

// ResolveAgents replaces each argument that the command's usage calls AGENT by
// the id of that agent.
func (a *App) ResolveAgents(cmd *cobra.Command, args []string) error {
	for i, word := range strings.Fields(cmd.Use)[1:] {
		last := i + 1
		if word == "AGENT..." {
			last = len(args)
		} else if word != "AGENT" {
			continue
		}
		for ; i < min(last, len(args)); i++ {
			id, err := a.ResolveAgent(cmd.Context(), args[i])
			if err != nil {
				return err
			}
			args[i] = id
		}
	}
	return nil
}

var fullAgentID = regexp.MustCompile(`^bc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// ResolveAgent returns the id of the agent that arg identifies. arg may be an
// id, the beginning of an id with or without "bc-", or a name. Unless arg is a
// complete id, it asks the server.
func (a *App) ResolveAgent(ctx context.Context, arg string) (string, error) {
	if fullAgentID.MatchString(arg) || arg == "" {
		return arg, nil
	}
	c, err := a.Connect()
	if err != nil {
		return "", err
	}
	page, err := c.FindAgents(ctx, 100, "", client.AgentFilter{Archived: true, Everybody: true, Search: arg})
	if err != nil {
		return "", err
	}
	found := slices.DeleteFunc(page.Items, func(one client.Agent) bool {
		return !strings.HasPrefix(one.ID, arg) && !strings.HasPrefix(one.ID, "bc-"+arg) && !strings.EqualFold(one.Name, arg)
	})
	switch len(found) {
	case 0:
		return "", &cli.Problem{Exit: cli.NotFound, Code: "agent_not_found", Message: fmt.Sprintf("no agent has the id or the name %q", arg), Hint: "list agents with `aloft agent list`"}
	case 1:
		return found[0].ID, nil
	}
	var all []string
	for _, one := range found[:min(len(found), 5)] {
		all = append(all, fmt.Sprintf("%s (%s)", cli.Line(one.ID, 80), cli.Line(one.Name, 40)))
	}
	return "", &cli.Problem{
		Exit: cli.Usage, Code: "agent_ambiguous", Message: fmt.Sprintf("%q means more than one agent: %s", arg, strings.Join(all, ", ")),
		Hint: "give a longer prefix of the id",
	}
}

// completionTime is how long shell completion waits for the server.
const completionTime = 2 * time.Second

// CompleteAgents completes agent IDs with those of the newest agents.
func (a *App) CompleteAgents(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, none
	}
	c, err := a.Connect()
	if err != nil {
		return nil, none
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	page, err := c.Agents(ctx, 50, "", true)
	if err != nil {
		return nil, none
	}
	var names []cobra.Completion
	for _, agent := range page.Items {
		names = append(names, cobra.CompletionWithDesc(cli.Line(agent.ID, 80), cli.Line(agent.Name, 60)))
	}
	return names, none
}
