package pid1

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/timestamppb"

	"aloft/internal/guest/process"
	"aloft/internal/guest/usage"
	"aloft/internal/wire/podv1"
	"aloft/internal/wire/podv1/podv1connect"
)

// maxStopGrace limits the grace period that a caller may give a process to
// stop.
const maxStopGrace = time.Minute

// management implements pod.v1's ManagementService.
type management struct{ d *Daemon }

var _ podv1connect.ManagementServiceHandler = (*management)(nil)

// services returns all supervised processes, exec-daemon first.
func (m *management) services() []*keptProcess {
	list := m.d.roster.all()
	m.d.mu.Lock()
	exec, before := m.d.exec, m.d.before
	m.d.mu.Unlock()
	_ = before // only Status counts the restarts of replaced daemons
	if exec != nil {
		list = append([]*keptProcess{{name: execName, command: []string{m.d.cfg.ExecDaemon, "serve"}, policy: restartAlways, service: exec}}, list...)
	}
	return list
}

// ListProcesses implements pod.v1's ManagementService.
func (m *management) ListProcesses(context.Context, *connect.Request[podv1.ListProcessesRequest]) (*connect.Response[podv1.ListProcessesResponse], error) {
	res := &podv1.ListProcessesResponse{}
	for _, p := range m.services() {
		res.Processes = append(res.Processes, p.message())
	}
	return connect.NewResponse(res), nil
}

// StartProcess implements pod.v1's ManagementService.
func (m *management) StartProcess(_ context.Context, req *connect.Request[podv1.StartProcessRequest]) (*connect.Response[podv1.StartProcessResponse], error) {
	r := req.Msg
	policies := map[podv1.Restart]restartPolicy{
		podv1.Restart_RESTART_UNSPECIFIED: restartOnFailure, podv1.Restart_RESTART_ON_FAILURE: restartOnFailure,
		podv1.Restart_RESTART_NEVER: restartNever, podv1.Restart_RESTART_ALWAYS: restartAlways,
	}
	policy, ok := policies[r.GetRestart()]
	if !ok {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("restart: unknown value %d", r.GetRestart()))
	}
	p, err := m.d.roster.start(processSpec{
		name: r.GetName(), command: r.GetCommand(), env: r.GetEnv(), dir: r.GetDirectory(), policy: policy, root: r.GetAsRoot(),
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&podv1.StartProcessResponse{Process: p.message()}), nil
}

// StopProcess implements pod.v1's ManagementService. exec-daemon cannot be
// stopped, because the machine needs it.
func (m *management) StopProcess(_ context.Context, req *connect.Request[podv1.StopProcessRequest]) (*connect.Response[podv1.StopProcessResponse], error) {
	if req.Msg.GetName() == execName {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("exec-daemon cannot be stopped while the machine runs; to restart it, send it a signal"))
	}
	p, err := m.d.roster.find(req.Msg.GetName())
	if err != nil {
		return nil, err
	}
	grace := min(time.Duration(min(max(req.Msg.GetGraceMs(), 0), math.MaxInt32))*time.Millisecond, maxStopGrace)
	p.stop(cmp.Or(grace, termGrace))
	return connect.NewResponse(&podv1.StopProcessResponse{Process: p.message()}), nil
}

// SignalProcess implements pod.v1's ManagementService.
func (m *management) SignalProcess(_ context.Context, req *connect.Request[podv1.SignalProcessRequest]) (*connect.Response[podv1.SignalProcessResponse], error) {
	sig, err := signalNamed(req.Msg.GetSignal())
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	for _, p := range m.services() {
		if p.name != req.Msg.GetName() {
			continue
		}
		child := p.service.Running()
		if child == nil {
			return nil, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("the process %s is not running", p.name))
		}
		if req.Msg.GetGroup() {
			child.SignalGroup(sig)
		} else {
			child.Signal(sig)
		}
		return connect.NewResponse(&podv1.SignalProcessResponse{}), nil
	}
	_, err = m.d.roster.find(req.Msg.GetName())
	return nil, err
}

// signalNamed returns the signal with a name or number.
func signalNamed(name string) (syscall.Signal, error) {
	if sig := unix.SignalNum(name); sig != 0 {
		return sig, nil
	}
	if n, err := strconv.Atoi(name); err == nil && n > 0 && n <= 64 {
		return syscall.Signal(n), nil
	}
	return 0, fmt.Errorf("signal: unknown signal %.40q; give a name such as SIGHUP, or a number", name)
}

// ProcessLogs implements pod.v1's ManagementService.
func (m *management) ProcessLogs(ctx context.Context, req *connect.Request[podv1.ProcessLogsRequest], stream *connect.ServerStream[podv1.ProcessLogsResponse]) error {
	p, err := m.d.roster.find(req.Msg.GetName())
	if err != nil {
		return err
	}
	for from := req.Msg.GetOffset(); ; {
		over := p.isFinished() // read this first, so that no output printed before the end is missed
		text, next, skipped := p.service.Printed.Read(from)
		if text != "" || from == req.Msg.GetOffset() && !req.Msg.GetFollow() {
			if err := stream.Send(&podv1.ProcessLogsResponse{Text: text, NextOffset: next, SkippedBytes: skipped}); err != nil {
				return err
			}
		}
		from = next
		if !req.Msg.GetFollow() || over {
			return nil
		}
		if err := p.service.Printed.Wait(ctx, from, p.service.Stopped()); err != nil {
			return err
		}
	}
}

// Stats implements pod.v1's ManagementService.
func (m *management) Stats(context.Context, *connect.Request[podv1.StatsRequest]) (*connect.Response[podv1.StatsResponse], error) {
	table, err := usage.ReadTable()
	if err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
	res := &podv1.StatsResponse{
		Machine: usageMessage(table.All()), Processes: map[string]*podv1.Usage{},
		OutOfMemoryKills: usage.OOMKills(), MemoryLimitBytes: usage.MemoryLimit(), Processors: usage.Processors(),
	}
	if used, ok := usage.MemoryUsed(); ok {
		res.Machine.MemoryBytes = used
	}
	for _, p := range m.services() {
		if child := p.service.Running(); child != nil {
			res.Processes[p.name] = usageMessage(table.Below(child.PID))
		}
	}
	for _, d := range usage.Disks("/", m.d.workspace(), "/tmp") {
		res.Disks = append(res.Disks, &podv1.Disk{Path: d.Path, SizeBytes: d.Size, UsedBytes: d.Used, AvailableBytes: d.Available})
	}
	return connect.NewResponse(res), nil
}

// StopMachine implements pod.v1's ManagementService. It replies before the
// machine stops.
func (m *management) StopMachine(context.Context, *connect.Request[podv1.StopMachineRequest]) (*connect.Response[podv1.StopMachineResponse], error) {
	m.d.stop(errShutdown)
	return connect.NewResponse(&podv1.StopMachineResponse{}), nil
}

func usageMessage(u usage.Usage) *podv1.Usage {
	return &podv1.Usage{CpuTimeUs: u.CPU.Microseconds(), MemoryBytes: u.Memory, Processes: int32(min(u.Processes, math.MaxInt32))}
}

// message converts the process to its message.
func (p *keptProcess) message() *podv1.Process {
	over := p.isFinished()
	s := p.service.State()
	m := &podv1.Process{
		Name: p.name, Command: p.command, State: podv1.Process_STATE_WAITING, Restarts: int32(min(s.Restarts, math.MaxInt32)),
		Restart: map[restartPolicy]podv1.Restart{
			restartOnFailure: podv1.Restart_RESTART_ON_FAILURE, restartNever: podv1.Restart_RESTART_NEVER, restartAlways: podv1.Restart_RESTART_ALWAYS,
		}[p.policy],
	}
	switch {
	case s.Child != nil:
		m.State, m.Pid, m.StartedAt = podv1.Process_STATE_RUNNING, int32(s.Child.PID), timestamppb.New(s.Born)
	case over:
		m.State = podv1.Process_STATE_ENDED
	}
	if s.Last != nil {
		m.LastExit = &podv1.ProcessExit{
			Code: int32(process.ExitCode(s.Last.Status)), OutOfMemory: s.Last.OutOfMemory, EndedAt: timestamppb.New(s.Last.At),
		}
		if s.Last.Status.Signaled() {
			m.LastExit.Signal = int32(s.Last.Status.Signal())
		}
	}
	return m
}
