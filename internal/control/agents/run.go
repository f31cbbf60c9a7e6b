package agents

import (
	"fmt"
	"slices"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/fault"
)

// CheckMode returns the mode that a request names, or "" if it names none.
func CheckMode(mode *string) (string, error) {
	switch {
	case mode == nil:
		return "", nil
	case *mode == agent.ModeAgent || *mode == agent.ModePlan:
		return *mode, nil
	}
	return "", fault.Invalid("must be agent or plan").At("mode")
}

// CheckGoal validates the goal of a request.
func CheckGoal(goal *string) error {
	if goal != nil && len(*goal) > agent.MaxGoal {
		return fault.Invalid("has %d bytes; must have at most %d", len(*goal), agent.MaxGoal).At("goal")
	}
	return nil
}

// CheckCommands validates the checks of a request. It returns nil if the
// request leaves the checks unchanged.
func CheckCommands(checks []string) (*[]string, error) {
	if checks == nil {
		return nil, nil // unchanged
	}
	if len(checks) > agent.MaxChecks {
		return nil, fault.Invalid("has %d commands; must have at most %d", len(checks), agent.MaxChecks).At("checks")
	}
	for i, c := range checks {
		switch at := fmt.Sprintf("checks[%d]", i); {
		case strings.TrimSpace(c) == "":
			return nil, fault.Invalid("is empty; must be a shell command").At(at)
		case len(c) > agent.MaxCheckCommand:
			return nil, fault.Invalid("has %d bytes; must have at most %d", len(c), agent.MaxCheckCommand).At(at)
		}
	}
	out := slices.Clone(checks)
	return &out, nil
}
