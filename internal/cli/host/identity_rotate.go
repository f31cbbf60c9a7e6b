package host

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"aloft/internal/cli/command"
	"aloft/internal/control/identity"
	"aloft/internal/server"
)

func newIdentityCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "identity",
		Short: "Manage the keys that sign machine tokens",
	}
	data := command.DataDir(a.Getenv)
	rotate := &cobra.Command{
		Use:   "rotate",
		Short: "Rotate the signing key",
		Long: `Rotate the signing key. A running server picks up the change.

Programs in a machine get tokens that identify their agent. The server publishes the
current signing key and the next one, and rotates them every 90 days. Rotate by hand
if somebody may have read the data folder.`,
		Example: `  sudo aloft identity rotate --data /srv/aloft`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path := filepath.Join(data, server.IdentityFile)
			if _, err := os.Stat(path); err != nil {
				return fmt.Errorf("no server data in %s: %w", data, err)
			}
			if err := identity.Rotate(path); err != nil {
				return err
			}
			a.Out.Note("Rotated the signing key. Tokens signed with the previous key stay valid until they expire.")
			return nil
		},
	}
	rotate.Flags().StringVar(&data, "data", data, "data `folder` of the server (ALOFT_DATA)")
	cmd.AddCommand(rotate)
	return cmd
}
