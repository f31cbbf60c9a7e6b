package server

import (
	"context"
	"errors"

	"aloft/internal/agent"
	"aloft/internal/control/agents"
	"aloft/internal/control/fleet"
	"aloft/internal/control/ledger"
	"aloft/internal/fault"
)

// openLedger opens the ledger of what uses the disk.
func (a *assembly) openLedger(context.Context) error {
	sources := []ledger.Source{
		ledger.Machines{Runtime: a.host.Machines, Store: a.store, AgentOf: fleet.AgentOf},
		ledger.Journals{Store: a.store},
		ledger.Folders{Of: ledger.Log, In: a.host.Folders["connections"], Store: a.store},
		ledger.Folders{Of: ledger.Mirror, In: ledger.Dir(a.dataFile("mirrors"))},
		ledger.Folders{Of: ledger.Image, In: a.host.Folders["images"]},
		ledger.Folders{Of: ledger.Cache, In: a.host.Folders["build"]},
	}
	if folder, ok := artifactsFolder(a.options.Data, a.config.Artifacts); ok {
		sources = append(sources, ledger.Folders{Of: ledger.Artifacts, In: ledger.Dir(folder), Store: a.store})
	}
	if a.host.NoMachines == "" {
		sources = append(sources, ledger.Layers{Store: a.host.Layers, Agents: a.store, Snapshots: a.store, AgentOf: fleet.AgentOf})
	}
	a.ledger = ledger.New(a.logger, sources...)
	return nil
}

// quotas returns the quotas of each person.
func (a *assembly) quotas() agents.Quotas {
	c := a.config.Quotas
	q := agents.Quotas{Agents: c.Agents, Running: c.Running, Snapshots: c.Snapshots}
	if limit := c.size(); limit != (ledger.Size{}) {
		q.Disk = ledger.Quota{Ledger: a.ledger, Limit: limit, Logger: a.logger}
	}
	return q
}

// outside returns how many bytes the machine's agent has on the disk outside of the
// machine.
func (s *Server) outside(ctx context.Context, machineID string, fresh bool) int64 {
	agentID, ok := fleet.AgentOf(machineID)
	if !ok || s.ledger == nil { // a build, or the server is starting
		return 0
	}
	return s.ledger.Outside(ctx, agentID, fresh)
}

// blame adds to the reason for stopping a machine because of its disk how much disk
// its agent's owner uses in total, if known.
func (s *Server) blame(machineID string, why error) error {
	agentID, _ := fleet.AgentOf(machineID)
	total, ok := s.ledger.LastTotal(agentID)
	if f, is := errors.AsType[*fault.Error](why); ok && is && f.Code == agent.CodeDiskLimit {
		more := *f
		more.Message += "; all that its owner has on the disk takes " + ledger.Show(total.Bytes)
		return &more
	}
	return why
}
