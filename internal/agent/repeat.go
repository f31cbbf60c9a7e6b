package agent

import "aloft/internal/agent/repeat"

// CodeRepeats is the code of the notice that tells the model that it repeats a
// call without a change.
const CodeRepeats = "repeats"

// hasFailed reports whether a call failed, or its command exited with a non-zero status,
// which does not count as an error of the call.
func hasFailed(c Call, result *CallDone) bool {
	if result.Error || c.Name != "Shell" {
		return result.Error
	}
	code, _ := ExitCode(result.Output)
	return code != 0
}

// attempt describes a call and its result to [repeat.Tracker].
func attempt(c Call, result *CallDone) repeat.Attempt {
	return repeat.Attempt{Tool: c.Name, Args: string(c.Args), Result: result.Text, Failed: hasFailed(c, result)}
}
