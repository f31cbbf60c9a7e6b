package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
	"aloft/internal/mcp"
)

func newMCPCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Give agents MCP servers: tools of others",
		Long: `Give agents MCP servers: tools of others.

A server is your own, or the team's (--team). Agents get both, those that come with
the request that makes them, and those of their repository's .cursor/mcp.json. Aloft
speaks with remote ones itself, so that what they are authorized by enters no machine;
programs run in the machine.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMCPListCommand(a), newMCPAddCommand(a), newMCPRemoveCommand(a), newMCPTestCommand(a), newMCPLoginCommand(a), newMCPLogoutCommand(a))
	return cmd
}

func newMCPListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List your MCP servers and your team's, without secrets",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			all, err := c.MCPServers(cmd.Context())
			if err != nil {
				return err
			}
			if a.out.JSON() {
				return a.out.Value(struct {
					Items []client.MCPServer `json:"items"`
				}{append([]client.MCPServer{}, all...)})
			}
			rows := [][]string{{"NAME", "OWNER", "TYPE", "WHERE", "SIGNED IN"}}
			for _, s := range all {
				signedIn := ""
				switch {
				case s.SignedIn:
					signedIn = "yes"
				case s.SignInOver:
					signedIn = "over: sign in again"
				}
				rows = append(rows, []string{cli.Line(s.Name, 64), cli.Line(s.Owner, 20), cli.Line(s.Type, 10), cli.Line(s.URL+strings.Join(append([]string{s.Command}, s.Args...), " "), 100), signedIn})
			}
			a.out.Table(rows)
			return nil
		},
	}
}

// mcpServer returns the caller's server of that name, or else the team's, and the
// server of Aloft that has it.
func (a *app) mcpServer(cmd *cobra.Command, name string, team bool) (*client.Client, client.MCPServer, error) {
	c, err := a.connect()
	if err != nil {
		return nil, client.MCPServer{}, err
	}
	all, err := c.MCPServers(cmd.Context())
	if err != nil {
		return nil, client.MCPServer{}, err
	}
	var found *client.MCPServer
	for _, s := range all {
		if mcp.Same(s.Name, name) && (found == nil || s.Owner == "personal") && (!team || s.Owner == "team") {
			found = &s
		}
	}
	if found == nil {
		return nil, client.MCPServer{}, usageError{fmt.Errorf("there is no MCP server %s; `aloft mcp list` shows those that there are", cli.Line(name, 80))}
	}
	return c, *found, nil
}

// mcpDone says what was done to a server.
func (a *app) mcpDone(id, format string, args ...any) error {
	if a.out.JSON() {
		return a.out.Value(struct {
			ID string `json:"id"`
		}{id})
	}
	a.out.Line(format, args...)
	return nil
}

func newMCPAddCommand(a *app) *cobra.Command {
	var in client.NewMCPServer
	var team bool
	var headers, env, scopes []string
	var clientID, file string
	cmd := &cobra.Command{
		Use:   "add NAME (URL | -- COMMAND [ARGUMENT...] | --file FILE)",
		Short: "Add an MCP server",
		Long: `Add an MCP server: a remote one by its URL, or a program by its command.

Values of --header and --env are asked of your environment, so that no other user of
your machine sees them: --header Authorization=TOKEN sends what the variable TOKEN
holds. Where a server wants a sign-in, sign in afterwards (aloft mcp login). Where its
provider registers no clients by itself, give --client-id; the variable
ALOFT_MCP_CLIENT_SECRET may hold its secret.

--file reads the server of that NAME from an mcp.json.`,
		Example: `  aloft mcp add tickets https://mcp.example.com/mcp
  TOKEN="Bearer $(pass show tickets)" aloft mcp add tickets https://mcp.example.com/mcp --header Authorization=TOKEN
  aloft mcp add --team files -- npx -y @example/files-mcp /workspace
  aloft mcp add --file .cursor/mcp.json tickets`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Name = args[0]
			if team {
				in.Owner = "team"
			}
			if err := a.nameMCPServer(&in, args[1:], cmd.ArgsLenAtDash() >= 0, file); err != nil {
				return usageError{err}
			}
			for _, list := range []struct {
				flags []string
				to    *map[string]string
			}{{headers, &in.Headers}, {env, &in.Env}} {
				if err := a.fromEnviron(list.flags, list.to); err != nil {
					return usageError{err}
				}
			}
			if clientID != "" {
				in.Auth = &client.MCPClient{ClientID: clientID, ClientSecret: a.getenv("ALOFT_MCP_CLIENT_SECRET"), Scopes: scopes}
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			made, err := c.AddMCPServer(cmd.Context(), in)
			if err != nil {
				return err
			}
			if a.out.JSON() {
				return a.out.Value(made)
			}
			a.out.Line("Added %s (%s, %s).", cli.Line(made.Name, 64), cli.Line(made.Owner, 20), cli.Line(made.Type, 10))
			if made.URL != "" {
				a.out.Line("Try it: aloft mcp test %s", cli.Line(made.Name, 64))
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&team, "team", false, "for all of the team's agents; for the admin")
	f.StringVar(&in.Type, "type", "", "http or sse, of a remote server; http unless given, and sse where it knows no http")
	f.StringArrayVar(&headers, "header", nil, "a header to send, as `NAME=VARIABLE`; may be repeated")
	f.StringArrayVar(&env, "env", nil, "a variable of the program, as `NAME=VARIABLE`; may be repeated")
	f.StringVar(&clientID, "client-id", "", "what the server's provider knows Aloft as")
	f.StringSliceVar(&scopes, "scope", nil, "a scope to ask the provider for, with --client-id; may be repeated")
	f.StringVar(&file, "file", "", "read the server from an mcp.json, this `FILE`")
	return cmd
}

// nameMCPServer fills in where the server is.
func (a *app) nameMCPServer(in *client.NewMCPServer, where []string, program bool, file string) error {
	switch {
	case file != "" && len(where) > 0:
		return errors.New("give a file, a URL or a command, and not two of them")
	case file != "":
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		data, err := io.ReadAll(io.LimitReader(f, mcp.MaxFile+1))
		if err != nil {
			return err
		}
		servers, findings := mcp.Parse(file, data, mcp.User)
		s, ok := mcp.Find(servers, in.Name)
		if !ok {
			if len(findings) > 0 {
				return fmt.Errorf("%s has no server %s that can be used: %s", file, in.Name, findings[0].Message)
			}
			return fmt.Errorf("%s has no server %s", file, in.Name)
		}
		in.Type, in.Command, in.Args, in.Env, in.URL, in.Headers = string(s.Type), s.Command, s.Args, s.Env, s.URL, s.Headers
		if s.Auth != nil {
			in.Auth = &client.MCPClient{ClientID: s.Auth.ClientID, ClientSecret: s.Auth.ClientSecret, Scopes: s.Auth.Scopes}
		}
	case len(where) == 0:
		return errors.New("a URL is needed, or -- and a command")
	case program:
		in.Command, in.Args = where[0], where[1:]
	case len(where) > 1:
		return errors.New("a command comes after --")
	default:
		in.URL = where[0]
	}
	return nil
}

// fromEnviron takes values from the variables that flags name.
func (a *app) fromEnviron(flags []string, to *map[string]string) error {
	for _, flag := range flags {
		name, variable, ok := strings.Cut(flag, "=")
		if !ok || name == "" || variable == "" {
			return fmt.Errorf("%s is not NAME=VARIABLE", cli.Line(name, 80))
		}
		value := a.getenv(variable)
		if value == "" {
			return fmt.Errorf("the variable that is to hold the value of %s is not set: it is looked for in your environment, and not on the command line, where others could see it", cli.Line(name, 80))
		}
		if *to == nil {
			*to = map[string]string{}
		}
		(*to)[name] = value
	}
	return nil
}

func newMCPRemoveCommand(a *app) *cobra.Command {
	var team bool
	cmd := &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove an MCP server",
		Long:    "Remove an MCP server. Agents lose it with their next run.",
		Example: "  aloft mcp remove --team tickets",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, s, err := a.mcpServer(cmd, args[0], team)
			if err != nil {
				return err
			}
			if err := c.RemoveMCPServer(cmd.Context(), s.ID); err != nil {
				return err
			}
			return a.mcpDone(s.ID, "Removed %s (%s).", cli.Line(s.Name, 64), cli.Line(s.Owner, 20))
		},
	}
	cmd.Flags().BoolVar(&team, "team", false, "the team's; for the admin")
	return cmd
}

// errMCPTest is of a server that cannot be used, which has been told.
var errMCPTest = errors.New("the MCP server cannot be used")

func newMCPTestCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "test NAME",
		Short: "Connect to a remote MCP server, and list its tools",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, s, err := a.mcpServer(cmd, args[0], false)
			if err != nil {
				return err
			}
			out, err := c.TestMCPServer(cmd.Context(), s.ID)
			if err != nil {
				return err
			}
			if a.out.JSON() {
				if err := a.out.Value(out); err != nil || out.State == "ready" {
					return err
				}
				return errMCPTest
			}
			if out.State == "needs_auth" {
				return fmt.Errorf("%w: it wants a sign-in; aloft mcp login %s", errMCPTest, cli.Line(s.Name, 64))
			}
			if out.Error != nil {
				return fmt.Errorf("%w: %s", errMCPTest, cli.Line(out.Error.Message, 0))
			}
			a.out.Line("%s works: %d tools, in %d ms.", cli.Line(s.Name, 64), len(out.Tools), out.TookMS)
			rows := [][]string{{"TOOL", "WHAT IT SAYS OF ITSELF"}}
			for _, t := range out.Tools {
				rows = append(rows, []string{cli.Line(t.Name, 64), cli.Line(t.Description, 100)})
			}
			if len(out.Tools) > 0 {
				a.out.Table(rows)
			}
			return nil
		},
	}
}

func newMCPLoginCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "login NAME",
		Short: "Say where to sign in to an MCP server",
		Long: `Say where to sign in to an MCP server: on the dashboard, in a browser that has
signed in to Aloft as you. Whoever signs in there does so for you and nobody else.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, s, err := a.mcpServer(cmd, args[0], false)
			if err != nil {
				return err
			}
			address := c.URL() + "/settings?sign-in=" + s.ID + "#mcp-servers"
			if a.out.JSON() {
				return a.out.Value(struct {
					URL string `json:"url"`
				}{address})
			}
			a.out.Line("Open this in your browser, and sign in:")
			a.out.Line("  %s", address)
			return nil
		},
	}
}

func newMCPLogoutCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "logout NAME",
		Short: "Forget your sign-in at an MCP server",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, s, err := a.mcpServer(cmd, args[0], false)
			if err != nil {
				return err
			}
			if err := c.SignOutOfMCPServer(cmd.Context(), s.ID); err != nil {
				return err
			}
			return a.mcpDone(s.ID, "Signed out of %s.", cli.Line(s.Name, 64))
		},
	}
}

// showMCPServers tells which servers an agent has, and why it cannot use some.
func (a *app) showMCPServers(all []client.AgentMCPServer) {
	if len(all) == 0 {
		return
	}
	a.out.Line("")
	words := map[string]string{"needs_auth": "wants a sign-in", "left_out": "left out", "unknown": "not asked yet"}
	rows := [][]string{{"MCP SERVER", "FROM", "STATE", "TOOLS"}}
	for _, s := range all {
		state := s.State
		if word, ok := words[state]; ok {
			state = word
		}
		if s.Why != "" {
			state += ": " + s.Why
		}
		tools := ""
		if n := len(s.Tools); n > 0 {
			tools = fmt.Sprint(n)
		}
		rows = append(rows, []string{cli.Line(s.Name, 64), cli.Line(s.Source, 20), cli.Line(state, 120), tools})
	}
	a.out.Table(rows)
}
