package agents

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli/command"
	"aloft/internal/client"
)

// limitFlags adds the flags that limit a run. The returned function reads them.
func limitFlags(cmd *cobra.Command) func() (*client.Amount, error) {
	var in client.Amount
	var within time.Duration
	flags := cmd.Flags()
	flags.Int64Var(&in.Turns, "max-turns", 0, "end the run after this many model replies, and push its work; cannot exceed the team's and the server's limit")
	flags.Int64Var(&in.Tokens, "max-tokens", 0, "end the run after this many tokens, including subagents")
	flags.Float64Var(&in.CostUSD, "max-cost", 0, "end the run after this many US `dollars`")
	flags.DurationVar(&within, "max-time", 0, "end the run after a `duration` such as 90m, not counting time spent waiting for people")
	return func() (*client.Amount, error) {
		if in.Turns < 0 || in.Tokens < 0 || in.CostUSD < 0 || within < 0 {
			return nil, command.Misuse(cmd, errors.New("limits must be greater than 0"))
		}
		if within > 0 && within < time.Second {
			return nil, command.Misuse(cmd, errors.New("--max-time must be at least 1s"))
		}
		in.Seconds = int64(within / time.Second)
		for _, name := range []string{"max-turns", "max-tokens", "max-cost", "max-time"} {
			if flags.Changed(name) {
				return &in, nil
			}
		}
		return nil, nil
	}
}
