package command

import (
	"context"

	"github.com/spf13/cobra"

	"aloft/internal/client"
)

// List describes a command that prints a list from the server.
type List[T any] struct {
	Use, Short string
	Long       string // "" if the short text is enough
	Example    string
	Args       cobra.PositionalArgs
	Of         func(ctx context.Context, c *client.Client, args []string) ([]T, error)
	Head       []string
	Row        func(T) []string // columns of a row, in clean text
	None       string           // printed for an empty list
	Complete   cobra.CompletionFunc
}

// Command returns the command.
func (l List[T]) Command(a *App) *cobra.Command {
	if l.Args == nil {
		l.Args = cobra.NoArgs
	}
	return &cobra.Command{
		Use: l.Use, Short: l.Short, Long: l.Long, Example: l.Example, Args: l.Args, ValidArgsFunction: l.Complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			items, err := l.Of(cmd.Context(), c, args)
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(struct {
					Items []T `json:"items"`
				}{append([]T{}, items...)})
			}
			if len(items) == 0 && l.None != "" {
				a.Out.Note("%s", l.None)
				return nil
			}
			rows := [][]string{l.Head}
			for _, item := range items {
				rows = append(rows, l.Row(item))
			}
			a.Out.Table(rows)
			return nil
		},
	}
}

// WithoutArgs adapts a list function without arguments.
func WithoutArgs[T any](of func(*client.Client, context.Context) ([]T, error)) func(context.Context, *client.Client, []string) ([]T, error) {
	return func(ctx context.Context, c *client.Client, _ []string) ([]T, error) { return of(c, ctx) }
}
