package host

import (
	"log/slog"

	"github.com/spf13/cobra"

	"aloft/internal/control/egress"
)

func newGatewayCommand(a *app) *cobra.Command {
	var dir, logs string
	cmd := &cobra.Command{
		Use:    "gateway",
		Short:  "Terminate the network of one machine (started by the server)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return egress.RunProcess(cmd.Context(), dir, logs, slog.New(slog.NewTextHandler(a.Stderr, nil)))
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "`folder` with the policy, where the socket is created")
	cmd.Flags().StringVar(&logs, "log", "", "`folder` for the connection log")
	return cmd
}
