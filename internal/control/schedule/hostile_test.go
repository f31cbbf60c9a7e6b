package schedule

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"aloft/internal/agent"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/mux"
	"aloft/internal/wire/podv1"
)

// The machines in these tests lie, flood the server, and send garbage on all
// their streams. Each run must end with an error that blames the machine and
// with a journal of bounded size. The next agent, with an honest machine, must
// work.

// maxHostileJournal is an upper bound, in bytes, for the journal of a run in
// which the model does no work.
const maxHostileJournal = 4 << 20

var long = strings.Repeat("x", 64<<10)

func TestHostileMachines(t *testing.T) {
	garbage := func(s net.Conn) { // until the peer closes the stream
		random := rand.NewChaCha8([32]byte{1})
		_, _ = io.CopyN(s, random, 8<<20)
		_ = s.Close()
	}
	step := func(name string, state podv1.BootStep_State) *podv1.BootResponse {
		return &podv1.BootResponse{Event: &podv1.BootResponse_Step{Step: &podv1.BootStep{Name: name, State: state, Detail: long}}}
	}
	ready := &podv1.BootResponse{Event: &podv1.BootResponse_Ready{Ready: &podv1.BootReady{BootId: "life-1", Branch: "aloft/test"}}}
	for name, tt := range map[string]struct {
		evil evil
		code string // error code of the run; "" if the lies are harmless and the run finishes
	}{
		"opens streams without end": {evil{connected: func(ctx context.Context, c *mux.Conn) {
			for {
				if _, err := c.Open(ctx, mux.Git); err != nil {
					return
				}
			}
		}}, "machine_flood"},
		"sends garbage on every stream it may open": {evil{connected: func(ctx context.Context, c *mux.Conn) {
			for _, name := range []string{mux.Git, mux.Token, mux.Telemetry, mux.Embeddings, mux.Pod, mux.Exec, mux.SSH, mux.PTY, mux.Port(22), "nonsense"} {
				if s, err := c.Open(ctx, name); err == nil {
					go garbage(s)
				}
			}
		}}, ""},
		"tells of steps without end": {evil{boot: func(_ context.Context, s *connect.ServerStream[podv1.BootResponse]) error {
			for {
				if err := s.Send(step("checkout", podv1.BootStep_STATE_DONE)); err != nil {
					return err
				}
			}
		}}, "machine_failed"},
		"tells of much progress": {evil{boot: func(_ context.Context, s *connect.ServerStream[podv1.BootResponse]) error {
			for range 2000 {
				if err := s.Send(step("checkout", podv1.BootStep_STATE_RUNNING)); err != nil {
					return err
				}
			}
			return s.Send(ready)
		}}, ""},
		"ends each boot without a word": {evil{boot: func(context.Context, *connect.ServerStream[podv1.BootResponse]) error {
			return nil
		}}, "machine_failed"},
		"is ready with more than it was asked for": {evil{boot: func(_ context.Context, s *connect.ServerStream[podv1.BootResponse]) error {
			r := &podv1.BootReady{BootId: long, BaseCommit: long, Branch: long}
			for range 100 {
				r.Others = append(r.Others, &podv1.CheckedOut{BaseCommit: long})
			}
			return s.Send(&podv1.BootResponse{Event: &podv1.BootResponse_Ready{Ready: r}})
		}}, "machine_failed"},
		"prints without end": {evil{command: func(_ context.Context, s *connect.ServerStream[podv1.RunCommandResponse]) error {
			for range 200 {
				if err := s.Send(&podv1.RunCommandResponse{Event: &podv1.RunCommandResponse_Output{Output: []byte(long)}}); err != nil {
					return err
				}
			}
			return s.Send(&podv1.RunCommandResponse{Event: &podv1.RunCommandResponse_Exit{Exit: &podv1.CommandExit{Code: 1}}})
		}}, ""},
		"answers what nobody asked": {evil{exec: func(ctx context.Context, s *connect.BidiStream[agentv1.ExecStreamElement, agentv1.ExecServerElement]) error {
			for i := range 2000 {
				element := &agentv1.ExecServerElement{Element: &agentv1.ExecServerElement_Completed{Completed: &agentv1.ExecCompleted{CallId: "call_0", Text: long}}}
				if i%2 == 0 {
					element = &agentv1.ExecServerElement{Element: &agentv1.ExecServerElement_Heartbeat{Heartbeat: &agentv1.Heartbeat{Sequence: 1 << 60}}}
				}
				if err := s.Send(element); err != nil {
					return err
				}
			}
			<-ctx.Done()
			return ctx.Err()
		}}, ""},
		"breaks the stream of tools again and again": {evil{exec: func(context.Context, *connect.BidiStream[agentv1.ExecStreamElement, agentv1.ExecServerElement]) error {
			return errors.New(long)
		}}, ""},
		"has hooks that talk without end": {evil{hooks: func(context.Context) (*agentv1.RunHooksResponse, error) {
			r := &agentv1.RunHooksResponse{AdditionalContext: long, UserMessage: long, AgentMessage: long}
			for range 20 {
				r.Runs = append(r.Runs, &agentv1.HookRun{Command: long, File: long, Failure: long})
			}
			return r, nil
		}}, ""},
		"refuses at length to commit": {evil{commit: func(context.Context) (*podv1.CommitResponse, error) {
			return &podv1.CommitResponse{Error: long, Code: long}, nil
		}}, "machine_failed"},
		"always has other tools": {evil{digest: func(string) string { return long }}, "machine_lost"},
		"says that it pushed what it did not": {evil{push: func(context.Context) (*podv1.PushResponse, error) {
			return &podv1.PushResponse{Commit: long, Note: long}, nil
		}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.guests.evil = tt.evil
			id := s.agent()
			s.run()
			_, end := s.waitForEnd(id, 0)
			code := ""
			if end.Failure != nil {
				code = end.Failure.Code
			}
			if code != tt.code {
				t.Errorf("the run ended as %s with %q, want %q: %+v", end.Status, code, tt.code, end.Failure)
			}
			if size := s.journalSize(id); size > maxHostileJournal {
				t.Errorf("its journal has %d bytes", size)
			}
			s.guests.honest()
			honest := s.agent()
			s.Wake(honest)
			if _, end := s.waitForEnd(honest, 0); end.Status != agent.Finished {
				t.Errorf("an honest machine's run ended as %s, %+v", end.Status, end.Failure)
			}
		})
	}
}

// journalSize estimates how much the journal of an agent takes, in bytes.
func (s *site) journalSize(id string) (size int) {
	s.t.Helper()
	for after := int64(0); ; {
		events, err := s.store.Read(s.t.Context(), id, after, 1000)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range events {
			_, data, err := agent.Encode(e.Body)
			if err != nil {
				s.t.Fatal(err)
			}
			size += len(data)
			after = e.Seq
		}
		if len(events) < 1000 {
			return size
		}
	}
}
