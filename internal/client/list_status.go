package client

// ListStatus is an agent's status as shown in lists. The dashboard, the panel
// and `aloft agent list` use the same statuses.
type ListStatus string

// The statuses in lists. An agent waits for a person only if its status is
// AsksYou.
const (
	AsksYou     ListStatus = "Asks you"
	Paused      ListStatus = "Paused"
	Starting    ListStatus = "Starting"
	Working     ListStatus = "Working"
	HasFinished ListStatus = "Finished"
	HasFailed   ListStatus = "Failed"
	WasStopped  ListStatus = "Stopped"
	HasExpired  ListStatus = "Expired"
	Archived    ListStatus = "Archived"
	Idle        ListStatus = "Idle"
)

// ended maps the final status of the latest run to a status.
var ended = map[string]ListStatus{Finished: HasFinished, Failed: HasFailed, Cancelled: WasStopped, Expired: HasExpired}

// ListStatus returns the agent's status. A pending request takes precedence over the
// status of the latest run.
func (a Agent) ListStatus() ListStatus {
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
