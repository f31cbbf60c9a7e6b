package main

import (
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"aloft/internal/control/egress"
)

func newGatewayCommand(stderr io.Writer) *cobra.Command {
	var dir, logs string
	cmd := &cobra.Command{
		Use:    "gateway",
		Short:  "End the network of one machine (the server starts this)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return egress.RunProcess(cmd.Context(), dir, logs, slog.New(slog.NewTextHandler(stderr, nil)))
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "`folder` with the policy, for the socket")
	cmd.Flags().StringVar(&logs, "log", "", "`folder` of the log of connections")
	return cmd
}
