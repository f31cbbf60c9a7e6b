package main

import (
	"context"

	"github.com/spf13/cobra"

	"aloft/internal/client"
)

// list describes a command that prints a list from the server.
type list[T any] struct {
	use, short string
	long       string // "" if short is enough
	example    string
	args       cobra.PositionalArgs
	of         func(ctx context.Context, c *client.Client, args []string) ([]T, error)
	head       []string
	row        func(T) []string // clean
	none       string           // printed for an empty list
	complete   cobra.CompletionFunc
}

func (l list[T]) command(a *app) *cobra.Command {
	if l.args == nil {
		l.args = cobra.NoArgs
	}
	return &cobra.Command{
		Use: l.use, Short: l.short, Long: l.long, Example: l.example, Args: l.args, ValidArgsFunction: l.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			items, err := l.of(cmd.Context(), c, args)
			if err != nil {
				return err
			}
			if a.out.JSON() {
				return a.out.Value(struct {
					Items []T `json:"items"`
				}{append([]T{}, items...)})
			}
			if len(items) == 0 && l.none != "" {
				a.out.Note("%s", l.none)
				return nil
			}
			rows := [][]string{l.head}
			for _, item := range items {
				rows = append(rows, l.row(item))
			}
			a.out.Table(rows)
			return nil
		},
	}
}

// plain adapts a list function without arguments.
func plain[T any](of func(*client.Client, context.Context) ([]T, error)) func(context.Context, *client.Client, []string) ([]T, error) {
	return func(ctx context.Context, c *client.Client, _ []string) ([]T, error) { return of(c, ctx) }
}
