package agent

import (
	"cmp"
	"time"
)

// MachineRecord is the part of an agent's journal about its machine.
type MachineRecord struct {
	Egress     Egress // the machine's network restriction
	MachineID  string // "" if there is none
	BootID     string // id of the machine's current boot; "" unless the machine is ready
	LastBootID string // BootID of the machine's last boot, even if the agent does not know of it
	User       string // user of the agent's processes in the machine; "" if not known yet
	// Facilities describes the agent's first machine, and never changes after that; nil if
	// unknown.
	Facilities *Facilities
	Started    string // BootID of the boot in which start and the terminals were started for a visitor
	Sleep
	Expires  time.Time // when the machine will be removed; zero unless a warning was journaled
	Settled  bool      // one of the agent's machines was ready at some time
	Used     bool      // the current machine was ready at some time: its disk may contain work
	Given    []string  // names of the variables set in the machine
	Untested bool      // the environment asks the agent to run no tests
	Install  bool      // the machine must run the environment's install command before it is first ready
	// Kills is how many out-of-memory kills have been journaled in the current boot of the
	// machine.
	Kills int
}

// Sleep is the part of a journal about the hibernation of the agent's machine.
type Sleep struct {
	Hibernated bool      // the machine sleeps
	SleptAt    time.Time // since when it sleeps
	// Slept is how long the machine has slept with its processes since the agent was last
	// notified of that.
	Slept time.Duration
}

// apply folds one more event.
func (m *MachineRecord) apply(e Event) {
	if !e.Housekeeping() {
		m.Expires = time.Time{} // the machine is in use again
	}
	m.countKills(e.Body) // compares with the LastBootID before e
	switch b := e.Body.(type) {
	case *MachineMade:
		m.Egress, m.Untested = b.Egress, b.Untested
		m.MachineID, m.BootID, m.Used, m.Given, m.Install = b.MachineID, "", false, nil, b.Install
		m.Hibernated = false
	case *MachineReady:
		m.BootID, m.LastBootID, m.Used, m.Settled, m.Hibernated, m.Slept = b.BootID, b.BootID, true, true, false, 0
		m.User = cmp.Or(b.User, m.User)
		m.Facilities = cmp.Or(m.Facilities, b.Facilities)
	case *VariablesGiven:
		m.Given = b.Names
	case *MachineHibernated:
		m.Hibernated, m.SleptAt = true, e.Time
	case *MachineWoken:
		m.Hibernated, m.LastBootID = false, b.BootID
		if b.Started {
			m.Started = b.BootID
		}
		if b.Alive {
			m.Slept += e.Time.Sub(m.SleptAt)
		}
	case *MachineExpiring:
		m.Expires = b.At
	case *MachineExpired:
		m.MachineID, m.BootID, m.Hibernated = "", "", false
	case *MachineLost:
		m.BootID = ""
	case *Notice:
		if b.Code == CodeSlept {
			m.Slept = 0
		}
	}
}
