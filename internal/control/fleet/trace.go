package fleet

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"aloft/internal/agent"
	"aloft/internal/control/pod"
	"aloft/internal/telemetry"
)

// spans returns the option that receives the traces, metrics and logs of
// exec-daemon in an agent's machine. In ghost mode nothing is received.
func (f *Fleet) spans(state *agent.State, machineID string) pod.Option {
	if f.Spans == nil {
		return pod.Spans(nil)
	}
	agentID := state.Agent.ID
	return pod.Spans(f.Spans.Relay(telemetry.From{
		Agent: agentID, Machine: machineID, Hide: f.redactor(state, machineID).String,
		Trace: func(ctx context.Context) (trace.TraceID, error) {
			now, err := f.State(ctx, agentID)
			if err != nil {
				return trace.TraceID{}, err
			}
			return telemetry.Run(now.Run.ID, now.Trace).TraceID(), nil
		},
		Private: func(ctx context.Context) (bool, error) { return f.private(ctx, agentID) },
	}))
}

// private reports whether the agent's latest run is in privacy mode.
func (f *Fleet) private(ctx context.Context, agentID string) (bool, error) {
	if f.Privacy == nil {
		return false, nil
	}
	a, err := f.Agents.Agent(ctx, agentID)
	if err != nil {
		return false, err
	}
	run, err := f.Agents.Run(ctx, agentID, a.LatestRunID)
	if err != nil {
		return false, err
	}
	return f.Privacy(ctx, run)
}
