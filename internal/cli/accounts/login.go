package accounts

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
)

func newLoginCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "login [URL]",
		Short: "Sign in to a server",
		Long: `Sign in to a server and save the login.

The API key is read from ALOFT_API_KEY, --api-key-file or a pipe; otherwise the command
asks for it. The key is checked before it is saved in a file that only you can read.`,
		Example: `  aloft login https://aloft.example.com
  aloft login http://127.0.0.1:8080 < key.txt`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			url := a.Config.URL
			if len(args) > 0 {
				url = args[0]
			}
			if url == "" {
				return command.Misuse(cmd, errors.New("missing server address"))
			}
			key, err := a.readKey()
			if err != nil {
				return err
			}
			c, err := command.NewClient(url, key)
			if err != nil {
				return err
			}
			me, err := c.Me(cmd.Context())
			if err != nil {
				return err
			}
			if err := (command.Login{URL: c.URL(), APIKey: key}).Write(a.Config.Login); err != nil {
				return fmt.Errorf("save the login: %w", err)
			}
			if a.Out.JSON() {
				return a.Out.Value(struct {
					URL string    `json:"url"`
					Me  client.Me `json:"me"`
				}{c.URL(), me})
			}
			who := cmp.Or(me.UserEmail, strings.TrimSpace(me.UserFirstName+" "+me.UserLastName), me.APIKeyName)
			a.Out.Line("Signed in to %s as %s.", c.URL(), cli.Line(who, 80))
			return nil
		},
	}
}

// readKey returns the API key from the configuration, a pipe or the terminal.
func (a *app) readKey() (string, error) {
	const most = 4096
	var data []byte
	var err error
	switch file, isFile := a.Stdin.(*os.File); {
	case a.Config.KeyFile != "":
		data, err = os.ReadFile(a.Config.KeyFile)
	case a.Config.Key != "":
		return a.Config.Key, nil
	case isFile && cli.IsTerminal(file):
		fmt.Fprint(a.Stderr, "API key, from your account in the dashboard or the server's admin.key (not shown): ")
		data, err = term.ReadPassword(int(file.Fd()))
		fmt.Fprintln(a.Stderr)
	default:
		var line string
		line, err = bufio.NewReader(io.LimitReader(a.Stdin, most)).ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
		data = []byte(line)
	}
	if err != nil {
		return "", command.UsageError(fmt.Errorf("read the API key: %w", err))
	}
	key := strings.TrimSpace(string(data))
	if key == "" {
		return "", command.UsageError(errors.New("no API key was given"))
	}
	return key, nil
}
