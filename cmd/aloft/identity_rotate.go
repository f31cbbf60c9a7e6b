package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"aloft/internal/control/identity"
)

// identityFile holds the keys that sign the tokens of machines, in the data folder.
const identityFile = "identity.pem"

func newIdentityCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "identity",
		Short: "Manage the keys that sign the tokens of machines",
	}
	data := dataDir(a.getenv)
	rotate := &cobra.Command{
		Use:   "rotate",
		Short: "Have the next key sign",
		Long: `Have the next key sign. A running server takes it up by itself.

Programs in a machine get tokens that say which agent they belong to. The server
publishes the key that signs them and the one that will sign next, and rotates
them every 90 days. Rotate by hand when the data folder may have been read.`,
		Example: `  sudo aloft identity rotate --data /srv/aloft`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path := filepath.Join(data, identityFile)
			if _, err := os.Stat(path); err != nil {
				return fmt.Errorf("there is no server's data in %s: %w", data, err)
			}
			if err := identity.Rotate(path); err != nil {
				return err
			}
			a.out.Note("The next key signs from now on. What the one before it has signed stays good.")
			return nil
		},
	}
	rotate.Flags().StringVar(&data, "data", data, "data `folder` of the server (ALOFT_DATA)")
	cmd.AddCommand(rotate)
	return cmd
}
