package settings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
	"aloft/internal/mcp"
)

func newMCPCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Manage MCP servers, which give agents more tools",
		Long: `Manage MCP servers, which give agents more tools.

A server is your own or the team's (--team). Agents use both, as well as the servers in
the request that creates them and in their repository's .cursor/mcp.json. Aloft itself
connects to remote servers, so their credentials never enter a machine. Programs run in
the machine.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMCPListCommand(a), newMCPAddCommand(a), newMCPRemoveCommand(a), newMCPTestCommand(a), newMCPLoginCommand(a), newMCPLogoutCommand(a))
	return cmd
}

func newMCPListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List your MCP servers and the team's, without secrets",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			all, err := c.MCPServers(cmd.Context())
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(struct {
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
					signedIn = "expired: sign in again"
				}
				rows = append(rows, []string{cli.Line(s.Name, 64), cli.Line(s.Owner, 20), cli.Line(s.Type, 10), cli.Line(s.URL+strings.Join(append([]string{s.Command}, s.Args...), " "), 100), signedIn})
			}
			a.Out.Table(rows)
			return nil
		},
	}
}

// mcpServer returns the MCP server with the given name, and the client that
// found it. The caller's servers precede the team's.
func (a *app) mcpServer(cmd *cobra.Command, name string, team bool) (*client.Client, client.MCPServer, error) {
	c, err := a.Connect()
	if err != nil {
		return nil, client.MCPServer{}, err
	}
	all, err := c.MCPServers(cmd.Context())
	if err != nil {
		return nil, client.MCPServer{}, err
	}
	var found *client.MCPServer
	for _, s := range all {
		if mcp.SameName(s.Name, name) && (found == nil || s.Owner == "personal") && (!team || s.Owner == "team") {
			found = &s
		}
	}
	if found == nil {
		return nil, client.MCPServer{}, command.UsageError(fmt.Errorf("no MCP server %s; list them with `aloft mcp list`", cli.Line(name, 80)))
	}
	return c, *found, nil
}

// mcpDone reports an action on a server.
func (a *app) mcpDone(id, format string, args ...any) error {
	if a.Out.JSON() {
		return a.Out.Value(struct {
			ID string `json:"id"`
		}{id})
	}
	a.Out.Line(format, args...)
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

--header and --env name variables of your environment instead of values, which other
users of your computer could see: --header Authorization=TOKEN sends the value of the
variable TOKEN. If a server requires a sign-in, sign in afterwards (aloft mcp login).
If its provider does not support dynamic client registration, give --client-id, and
its secret, if any, in the variable ALOFT_MCP_CLIENT_SECRET.

--file reads the server called NAME from an mcp.json.`,
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
				return command.UsageError(err)
			}
			for _, list := range []struct {
				flags []string
				to    *map[string]string
			}{{headers, &in.Headers}, {env, &in.Env}} {
				if err := a.fromEnviron(list.flags, list.to); err != nil {
					return command.UsageError(err)
				}
			}
			if clientID != "" {
				in.Auth = &client.MCPClient{ClientID: clientID, ClientSecret: a.Getenv("ALOFT_MCP_CLIENT_SECRET"), Scopes: scopes}
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			made, err := c.AddMCPServer(cmd.Context(), in)
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(made)
			}
			a.Out.Line("Added %s (%s, %s).", cli.Line(made.Name, 64), cli.Line(made.Owner, 20), cli.Line(made.Type, 10))
			if made.URL != "" {
				a.Out.Line("Try it: aloft mcp test %s", cli.Line(made.Name, 64))
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&team, "team", false, "add it for all of the team's agents; admins only")
	f.StringVar(&in.Type, "type", "", "transport of a remote server: http or sse (default: http, then sse if http is not supported)")
	f.StringArrayVar(&headers, "header", nil, "header to send, as `NAME=VARIABLE`; may be repeated")
	f.StringArrayVar(&env, "env", nil, "variable for the program, as `NAME=VARIABLE`; may be repeated")
	f.StringVar(&clientID, "client-id", "", "OAuth client ID that the server's provider gave you for Aloft")
	f.StringSliceVar(&scopes, "scope", nil, "OAuth `scope` to request, with --client-id; may be repeated")
	f.StringVar(&file, "file", "", "read the server from this mcp.json `file`")
	return cmd
}

// nameMCPServer fills in the server's URL or command.
func (a *app) nameMCPServer(in *client.NewMCPServer, where []string, program bool, file string) error {
	switch {
	case file != "" && len(where) > 0:
		return errors.New("give only one of: a file, a URL, a command")
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
				return fmt.Errorf("%s has no valid server %s: %s", file, in.Name, findings[0].Message)
			}
			return fmt.Errorf("%s has no server %s", file, in.Name)
		}
		in.Type, in.Command, in.Args, in.Env, in.URL, in.Headers = string(s.Type), s.Command, s.Args, s.Env, s.URL, s.Headers
		if s.Auth != nil {
			in.Auth = &client.MCPClient{ClientID: s.Auth.ClientID, ClientSecret: s.Auth.ClientSecret, Scopes: s.Auth.Scopes}
		}
	case len(where) == 0:
		return errors.New("missing a URL, or -- and a command")
	case program:
		in.Command, in.Args = where[0], where[1:]
	case len(where) > 1:
		return errors.New("give the command after --")
	default:
		in.URL = where[0]
	}
	return nil
}

// fromEnviron reads the environment variables that flags of the form
// NAME=VARIABLE name.
func (a *app) fromEnviron(flags []string, to *map[string]string) error {
	for _, flag := range flags {
		name, variable, ok := strings.Cut(flag, "=")
		if !ok || name == "" || variable == "" {
			return fmt.Errorf("%s is not NAME=VARIABLE", cli.Line(name, 80))
		}
		value := a.Getenv(variable)
		if value == "" {
			return fmt.Errorf("the environment variable for the value of %s is not set: values are not given on the command line, where others could see them", cli.Line(name, 80))
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
		Long:    "Remove an MCP server. Agents lose it at their next run.",
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
	cmd.Flags().BoolVar(&team, "team", false, "remove the team's server; admins only")
	return cmd
}

// errMCPTest means that a server cannot be used. The command has already
// printed the reason.
var errMCPTest = errors.New("the MCP server cannot be used")

func newMCPTestCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "test NAME",
		Short: "Connect to a remote MCP server and list its tools",
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
			if a.Out.JSON() {
				if err := a.Out.Value(out); err != nil || out.State == "ready" {
					return err
				}
				return errMCPTest
			}
			if out.State == "needs_auth" {
				return fmt.Errorf("%w: sign-in required; run aloft mcp login %s", errMCPTest, cli.Line(s.Name, 64))
			}
			if out.Error != nil {
				return fmt.Errorf("%w: %s", errMCPTest, cli.Line(out.Error.Message, 0))
			}
			a.Out.Line("%s works: %d tools, answered in %d ms.", cli.Line(s.Name, 64), len(out.Tools), out.TookMS)
			rows := [][]string{{"TOOL", "DESCRIPTION"}}
			for _, t := range out.Tools {
				rows = append(rows, []string{cli.Line(t.Name, 64), cli.Line(t.Description, 100)})
			}
			if len(out.Tools) > 0 {
				a.Out.Table(rows)
			}
			return nil
		},
	}
}

func newMCPLoginCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "login NAME",
		Short: "Print the link to sign in to an MCP server",
		Long: `Print the link to sign in to an MCP server. Open it in a browser in which you are
signed in to Aloft's dashboard. The sign-in is for you only.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, s, err := a.mcpServer(cmd, args[0], false)
			if err != nil {
				return err
			}
			address := c.URL() + "/settings?sign-in=" + s.ID + "#mcp-servers"
			if a.Out.JSON() {
				return a.Out.Value(struct {
					URL string `json:"url"`
				}{address})
			}
			a.Out.Line("Open this in your browser, and sign in:")
			a.Out.Line("  %s", address)
			return nil
		},
	}
}

func newMCPLogoutCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "logout NAME",
		Short: "Sign out of an MCP server",
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
