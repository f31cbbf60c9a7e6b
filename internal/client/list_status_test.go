package client

import "testing"

// TestListStatus checks that a list distinguishes agents that wait for an
// answer, work, have finished and have failed.
func TestListStatus(t *testing.T) {
	for _, c := range []struct {
		a    Agent
		want ListStatus
	}{
		{Agent{Status: "ACTIVE", RunStatus: "RUNNING", Machine: "ready"}, Working},
		{Agent{Status: "ACTIVE", RunStatus: "RUNNING", Machine: "booting"}, Starting},
		{Agent{Status: "ACTIVE", RunStatus: "CREATING"}, Starting},
		{Agent{Status: "ACTIVE", RunStatus: "RUNNING", Paused: true}, Paused},
		{Agent{Status: "ACTIVE", RunStatus: "RUNNING", Paused: true, Waiting: 2}, AsksYou},
		{Agent{Status: "ACTIVE", RunStatus: Finished, Paused: true}, HasFinished},
		{Agent{Status: "ACTIVE", RunStatus: Failed}, HasFailed},
		{Agent{Status: "ACTIVE", RunStatus: Cancelled}, WasStopped},
		{Agent{Status: "ACTIVE", RunStatus: Expired}, HasExpired},
		{Agent{Status: "ARCHIVED", RunStatus: Failed}, Archived},
		{Agent{Status: "ACTIVE"}, Idle},
	} {
		if got := c.a.ListStatus(); got != c.want {
			t.Errorf("%+v stands as %q, want %q", c.a, got, c.want)
		}
	}
}
