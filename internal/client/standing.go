package client

// Standing is an agent's status as shown in lists. The dashboard, the panel and `aloft
// agent list` use the same ones.
type Standing string

// The standings. Only AsksYou waits for a person.
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

// ended maps the final status of the latest run to a standing.
var ended = map[string]Standing{Finished: HasFinished, Failed: HasFailed, Cancelled: WasStopped, Expired: HasExpired}

// Standing returns the agent's standing. A pending request takes precedence over the
// status of the latest run.
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
