package adapter

import (
	"aloft/internal/control/api/rest"
	"aloft/internal/control/fleet"
	"aloft/internal/control/schedule"
)

// Work implements [rest.Work].
type Work struct {
	*schedule.Scheduler
	*fleet.Fleet
}

var _ rest.Work = Work{}
