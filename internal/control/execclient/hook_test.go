package execclient

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	"aloft/internal/control/pod"
	"aloft/internal/fault"
	"aloft/internal/hook"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

type hookServer func() (*agentv1.RunHooksResponse, error)

func (h hookServer) RunHooks(context.Context, *connect.Request[agentv1.RunHooksRequest]) (*connect.Response[agentv1.RunHooksResponse], error) {
	m, err := h()
	return connect.NewResponse(m), err
}

// hooksTo returns a client of a machine whose exec-daemon gives these answers.
// Before that, exec-daemon breaks as many connections as dies says, each at its
// first byte.
func hooksTo(t *testing.T, dies int32, lost func(error) error, answer hookServer) *Hooks {
	t.Helper()
	path, handler := agentv1connect.NewHookServiceHandler(answer)
	dial := execDaemon(t, path, handler)
	var opened atomic.Int32
	h := NewHooks(testConn{lost: lost, dial: func(ctx context.Context) (net.Conn, error) {
		if opened.Add(1) <= dies {
			ours, theirs := net.Pipe()
			go func() {
				_, _ = theirs.Read(make([]byte, 1))
				_ = theirs.Close()
			}()
			return ours, nil
		}
		return dial(ctx)
	}}, "token")
	t.Cleanup(h.Close)
	return h
}

// TestHooksOutliveExecDaemon checks how often exec-daemon may die before the
// client gives up.
func TestHooksOutliveExecDaemon(t *testing.T) {
	gone := func(err error) error { return errors.Join(pod.ErrLost, err) }
	for _, c := range []struct {
		name    string
		dies    int32
		lost    func(error) error
		answer  error
		denied  bool
		isLost  bool
		answers int
	}{
		{"Never", 0, still, nil, true, false, 1},
		{"Twice", 2, still, nil, true, false, 1},
		{"AlwaysIsAnError", 1 << 20, still, nil, false, false, 0},
		{"WithItsMachine", 1 << 20, gone, nil, false, true, 0},
		{"WhatItRefusesIsNotAskedAgain", 0, still, connect.NewError(connect.CodeUnavailable, errors.New("no")), false, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			answers := 0
			h := hooksTo(t, c.dies, c.lost, func() (*agentv1.RunHooksResponse, error) {
				answers++
				return &agentv1.RunHooksResponse{Permission: "deny"}, c.answer
			})
			if c.name == "AlwaysIsAnError" {
				h.patience = firstHookWait
			}
			out, err := h.Run(patience(t), HookCall{Call: hook.Call{Events: []hook.Input{{Event: hook.Stop}}}})
			if (out.Permission == "deny") != c.denied || (err == nil) != c.denied || errors.Is(err, pod.ErrLost) != c.isLost || answers != c.answers {
				t.Errorf("said %+v after %d answers: %v", out, answers, err)
			}
			if stuck := fault.Of(err).Code == "machine_stuck"; stuck != (c.name == "AlwaysIsAnError") {
				t.Errorf("the machine is stuck: %v, for %v", stuck, err)
			}
		})
	}
}
