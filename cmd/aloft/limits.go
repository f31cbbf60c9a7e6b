package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/client"
)

// limitFlags adds the flags that say what a run may use; what they return says it.
func limitFlags(cmd *cobra.Command) func() (*client.Amount, error) {
	var in client.Amount
	var within time.Duration
	flags := cmd.Flags()
	flags.Int64Var(&in.Turns, "max-turns", 0, "end a run after so many replies of the model, its work pushed; no more than the team and the server let it")
	flags.Int64Var(&in.Tokens, "max-tokens", 0, "end a run after so many tokens, its subagents' too")
	flags.Float64Var(&in.CostUSD, "max-cost", 0, "end a run after so many US `dollars`")
	flags.DurationVar(&within, "max-time", 0, "end a run after a `time` such as 90m, without what it waits for people")
	return func() (*client.Amount, error) {
		if in.Turns < 0 || in.Tokens < 0 || in.CostUSD < 0 || within < 0 {
			return nil, misuse(cmd, errors.New("a limit is more than 0"))
		}
		if within > 0 && within < time.Second {
			return nil, misuse(cmd, errors.New("--max-time is at least 1s"))
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
