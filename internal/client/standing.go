package client

// Standing is how an agent stands, as people read it in lists: the dashboard, the
// panel and `aloft agent list` say the same.
type Standing string

// The standings. Only the first waits for a person.
const (
	AsksYou     Standing = "Asks you"
	Paused      Standing = "Paused"
	Starting    Standing = "Starting"
	Working     Standing = "Working"
	HasFinished Standing = "Finished"
	HasFailed   Standing = "Failed"
	WasStopped  Standing = "Stopped"
	HasExpired  Standing = "Expired"
	Archived    Standing = "Archived"
	Idle        Standing = "Idle"
)

// ended are the standings of agents by how their latest run has ended.
var ended = map[string]Standing{Finished: HasFinished, Failed: HasFailed, Cancelled: WasStopped, Expired: HasExpired}

// Standing returns how the agent stands. A question comes before anything else, and
// the latest run says the rest.
func (a Agent) Standing() Standing {
	running := a.RunStatus == "CREATING" || a.RunStatus == "RUNNING"
	switch {
	case a.Status == "ARCHIVED":
		return Archived
	case a.Waiting > 0:
		return AsksYou
	case running && a.Paused:
		return Paused
	case a.RunStatus == "CREATING" || running && a.Machine == "booting":
		return Starting
	case running:
		return Working
	}
	if s, ok := ended[a.RunStatus]; ok {
		return s
	}
	return Idle
}
