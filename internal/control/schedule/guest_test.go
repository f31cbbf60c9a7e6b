package schedule

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"aloft/internal/agent"
	"aloft/internal/control/build"
	"aloft/internal/control/fleet"
	"aloft/internal/control/gateway"
	"aloft/internal/control/machine/fake"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/conversation"
	"aloft/internal/environment"
	"aloft/internal/tool"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
	"aloft/internal/wire/mux"
	"aloft/internal/wire/podv1"
	"aloft/internal/wire/podv1/podv1connect"
)

// guests are a test's fake machines. Each implements the parts of pod-daemon
// and exec-daemon that a run without tool calls uses.
type guests struct {
	mu    sync.Mutex
	boots int      // counts the boots of all machines
	did   []string // boots, commands and terminals, in order
	evil  evil
	good  bool // if true, the machines behave honestly
}

// ill returns the current misbehavior of the machines.
func (g *guests) ill() evil {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.good {
		return evil{}
	}
	return g.evil
}

// honest ends the misbehavior.
func (g *guests) honest() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.good = true
}

// evil contains handlers for hostile machines. A nil field means honest
// behavior.
type evil struct {
	connected func(ctx context.Context, c *mux.Conn) // runs concurrently for each connection
	boot      func(context.Context, *connect.ServerStream[podv1.BootResponse]) error
	command   func(context.Context, *connect.ServerStream[podv1.RunCommandResponse]) error
	exec      func(context.Context, *connect.BidiStream[agentv1.ExecStreamElement, agentv1.ExecServerElement]) error
	hooks     func(context.Context) (*agentv1.RunHooksResponse, error)
	commit    func(context.Context) (*podv1.CommitResponse, error)
	push      func(context.Context) (*podv1.PushResponse, error)
	digest    func(boot string) string // returns the digest of the tools
}

func (g *guests) note(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.did = append(g.did, fmt.Sprintf(format, args...))
}

// doneCalls returns the actions of the machines since the last call.
func (g *guests) doneCalls() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	did := g.did
	g.did = nil
	return did
}

// serve is a [fake.Serve]: one boot of one machine.
func (g *guests) serve(ctx context.Context, _ string, l net.Listener) error {
	g.mu.Lock()
	g.boots++
	one := &guest{all: g, boot: fmt.Sprintf("life-%d", g.boots)}
	g.mu.Unlock()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	pod, exec := http.NewServeMux(), http.NewServeMux()
	pod.Handle(podv1connect.NewPodServiceHandler(one))
	pod.Handle(podv1connect.NewMetadataServiceHandler(one))
	exec.Handle(agentv1connect.NewExecServiceHandler(one))
	exec.Handle(agentv1connect.NewHookServiceHandler(one))
	exec.Handle(agentv1connect.NewFileServiceHandler(one))
	exec.Handle(agentv1connect.NewTerminalServiceHandler(one))
	listeners := map[string]*mux.Listener{mux.Pod: mux.NewListener(), mux.Exec: mux.NewListener()}
	var serving sync.WaitGroup
	defer serving.Wait()
	for name, handler := range map[string]http.Handler{mux.Pod: pod, mux.Exec: exec} {
		server := &http.Server{Handler: handler, Protocols: &protocols} //nolint:gosec // only used in tests
		serving.Go(func() { _ = server.Serve(listeners[name]) })
		defer func() { _ = server.Close() }()
	}
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		serving.Go(func() {
			c, err := mux.Server(conn)
			if err != nil {
				return
			}
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			if g.ill().connected != nil {
				serving.Go(func() { g.ill().connected(ctx, c) })
			}
			_ = c.Serve(func(name string, s net.Conn) {
				if to := listeners[name]; to == nil || !to.Hand(s) {
					_ = s.Close()
				}
			})
		})
	}
}

// guest is one boot of a machine.
type guest struct {
	podv1connect.UnimplementedPodServiceHandler
	podv1connect.UnimplementedMetadataServiceHandler
	agentv1connect.UnimplementedHookServiceHandler
	agentv1connect.UnimplementedFileServiceHandler
	agentv1connect.UnimplementedTerminalServiceHandler
	all  *guests
	boot string

	mu     sync.Mutex
	booted bool
}

func (g *guest) Boot(ctx context.Context, req *connect.Request[podv1.BootRequest], s *connect.ServerStream[podv1.BootResponse]) error {
	if g.all.ill().boot != nil {
		return g.all.ill().boot(ctx, s)
	}
	g.mu.Lock()
	fresh := !g.booted
	g.booted = true
	g.mu.Unlock()
	if fresh {
		g.all.note("boot")
		user := &podv1.BootStep{Name: "user", State: podv1.BootStep_STATE_DONE, Detail: req.Msg.GetUser()}
		if err := s.Send(&podv1.BootResponse{Event: &podv1.BootResponse_Step{Step: user}}); err != nil {
			return err
		}
	}
	ready := &podv1.BootReady{BootId: g.boot, BaseCommit: "c0ffee", Branch: req.Msg.GetCheckout().GetBranch()}
	return s.Send(&podv1.BootResponse{Event: &podv1.BootResponse_Ready{Ready: ready}})
}

func (g *guest) Status(context.Context, *connect.Request[podv1.StatusRequest]) (*connect.Response[podv1.StatusResponse], error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return connect.NewResponse(&podv1.StatusResponse{BootId: g.boot, Booted: g.booted, ExecDaemonRunning: g.booted}), nil
}

func (g *guest) RunCommand(ctx context.Context, req *connect.Request[podv1.RunCommandRequest], s *connect.ServerStream[podv1.RunCommandResponse]) error {
	if g.all.ill().command != nil {
		return g.all.ill().command(ctx, s)
	}
	g.all.note("run %s", req.Msg.GetCommand())
	return s.Send(&podv1.RunCommandResponse{Event: &podv1.RunCommandResponse_Exit{Exit: &podv1.CommandExit{}}})
}

func (g *guest) Commit(ctx context.Context, _ *connect.Request[podv1.CommitRequest]) (*connect.Response[podv1.CommitResponse], error) {
	if g.all.ill().commit != nil {
		r, err := g.all.ill().commit(ctx)
		return connect.NewResponse(r), err
	}
	return connect.NewResponse(&podv1.CommitResponse{Commit: "c0ffee"}), nil
}

func (g *guest) Push(ctx context.Context, _ *connect.Request[podv1.PushRequest]) (*connect.Response[podv1.PushResponse], error) {
	if g.all.ill().push != nil {
		r, err := g.all.ill().push(ctx)
		return connect.NewResponse(r), err
	}
	return connect.NewResponse(&podv1.PushResponse{Commit: "c0ffee"}), nil
}

func (g *guest) SetMetadata(context.Context, *connect.Request[podv1.SetMetadataRequest]) (*connect.Response[podv1.SetMetadataResponse], error) {
	return connect.NewResponse(&podv1.SetMetadataResponse{}), nil
}

func (g *guest) ExecStream(ctx context.Context, s *connect.BidiStream[agentv1.ExecStreamElement, agentv1.ExecServerElement]) error {
	hello := &agentv1.ExecHello{CatalogueDigest: tool.Digest(), BootId: g.boot}
	if g.all.ill().digest != nil {
		hello.CatalogueDigest = g.all.ill().digest(g.boot)
	}
	if err := s.Send(&agentv1.ExecServerElement{Element: &agentv1.ExecServerElement_Hello{Hello: hello}}); err != nil {
		return err
	}
	if g.all.ill().exec != nil {
		return g.all.ill().exec(ctx, s)
	}
	for {
		if _, err := s.Receive(); err != nil {
			return err
		}
	}
}

func (g *guest) RunHooks(ctx context.Context, _ *connect.Request[agentv1.RunHooksRequest]) (*connect.Response[agentv1.RunHooksResponse], error) {
	if g.all.ill().hooks != nil {
		r, err := g.all.ill().hooks(ctx)
		return connect.NewResponse(r), err
	}
	return connect.NewResponse(&agentv1.RunHooksResponse{}), nil
}

func (g *guest) CreateTerminal(_ context.Context, req *connect.Request[agentv1.CreateTerminalRequest]) (*connect.Response[agentv1.CreateTerminalResponse], error) {
	g.all.note("terminal %s", req.Msg.GetName())
	return connect.NewResponse(&agentv1.CreateTerminalResponse{}), nil
}

// anyRemote is a git gateway that accepts every repository and serves none.
type anyRemote struct{ http.Handler }

func (anyRemote) Grant(g gateway.Grant) (string, error) { return g.Credential, nil }
func (anyRemote) Revoke(string)                         {}
func (anyRemote) Check(context.Context, string, string) (gateway.RefInfo, error) {
	return gateway.RefInfo{}, nil
}
func (anyRemote) Reach(context.Context, gateway.ReachRequest) gateway.Reached {
	return gateway.Reached{}
}
func (anyRemote) Blame(context.Context, string, string, string, []string) (gateway.Blamed, error) {
	return gateway.Blamed{}, nil
}
func (anyRemote) Patch(context.Context, string, string, string, int) (gateway.Patch, error) {
	return gateway.Patch{}, nil
}
func (anyRemote) Diff(context.Context, string, string, string, int) (string, bool, error) {
	return "", false, nil
}

// environments gives every repository the same environment.
type environments struct{ environment.Environment }

func (e environments) Plan(context.Context, agent.Agent, string) (build.Plan, error) {
	return build.Plan{Where: "a test", Environment: e.Environment}, nil
}

func (e environments) Prepare(context.Context, build.Plan, func(string)) (build.Base, error) {
	return build.Base{Image: "host"}, nil
}

// site is a scheduler with a real store and fake machines.
type site struct {
	*Scheduler
	t      *testing.T
	store  *sqlite.Store
	guests *guests
	ask    func(ctx context.Context) error // called before the model replies; nil means that it replies at once
	calls  []conversation.ToolCall         // calls that the model makes before it ends
}

func newSite(t *testing.T) *site {
	t.Helper()
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "aloft.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	s := &site{t: t, store: st, guests: &guests{}}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	all := fleet.New(fleet.Config{
		Journal: st, Agents: st, Leases: st, Owner: "one", Image: "host", Secret: []byte("s"), Gateway: anyRemote{},
		Runtime:      fake.New(t.TempDir(), s.guests.serve),
		Environments: environments{environment.Environment{User: "node", Start: "service up", Terminals: []environment.Terminal{{Name: "web", Command: "serve"}}}},
		Logger:       log,
	})
	s.Scheduler = New(Config{
		Journal: st, Agents: st, Leases: st, Owner: "one", Fleet: all, Gateway: anyRemote{},
		Model: func(string) (model.Model, model.Info, error) {
			return s, model.Info{ID: "m"}, nil
		},
		Logger: log,
	})
	return s
}

// Stream implements [model.Model].
func (s *site) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		if s.ask != nil {
			if err := s.ask(ctx); err != nil {
				yield(model.Event{}, err)
				return
			}
		}
		if last := r.Messages[len(r.Messages)-1]; len(s.calls) > 0 && !slices.ContainsFunc(last.Blocks, func(b conversation.Block) bool { return b.Result != nil }) {
			m := conversation.Message{Role: conversation.Assistant}
			for _, c := range s.calls {
				m.Blocks = append(m.Blocks, conversation.Block{Call: &c})
			}
			yield(model.Event{Done: &model.Reply{Stop: model.StopCalls, Message: m}}, nil)
			return
		}
		yield(model.Event{Done: &model.Reply{Stop: model.StopEnd, Message: conversation.Text(conversation.Assistant, "done")}}, nil)
	}
}

// run runs the scheduler until the test ends or stop is called.
func (s *site) run() (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Run(ctx)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	s.t.Cleanup(stop)
	return stop
}

// agent journals an agent with a run.
func (s *site) agent() string {
	s.t.Helper()
	id, head := agent.NewID(), int64(0)
	s.append(store.Append{AgentID: id, IfHead: &head, Events: []agent.Event{
		{Body: &agent.Created{Name: "test", Branch: "aloft/test", Repos: []agent.Repo{{URL: "https://git.example/r"}}}},
	}})
	s.prompt(id)
	return id
}

// prompt starts a run of an agent.
func (s *site) prompt(id string) {
	s.t.Helper()
	s.append(store.Append{AgentID: id, Events: []agent.Event{{RunID: agent.NewRunID(), Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, "work")}}}})
}

func (s *site) append(a store.Append) {
	s.t.Helper()
	if _, err := s.store.Append(s.t.Context(), a); err != nil {
		s.t.Fatal(err)
	}
}

// until waits for an event of the agent after the given number for which want
// returns true, and returns its number.
func (s *site) until(id string, after int64, want func(agent.Event) bool) int64 {
	s.t.Helper()
	for {
		events, err := s.store.Read(s.t.Context(), id, after, 1000)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range events {
			if after = e.Seq; want(e) {
				return after
			}
		}
		if err := s.store.Wait(s.t.Context(), id, after); err != nil {
			s.t.Fatal(err)
		}
	}
}

// waitForEnd waits for the end of a run.
func (s *site) waitForEnd(id string, after int64) (int64, *agent.RunEnded) {
	s.t.Helper()
	var end *agent.RunEnded
	at := s.until(id, after, func(e agent.Event) (ok bool) { end, ok = e.Body.(*agent.RunEnded); return ok })
	return at, end
}

// machines returns the existing machines.
func (s *site) machines() []string {
	s.t.Helper()
	ids, err := s.Fleet.Runtime.List(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	slices.Sort(ids)
	return ids
}

// idle waits until no worker works for the agent.
func (s *site) idle(id string) {
	s.t.Helper()
	s.mu.Lock()
	w := s.workers[id]
	s.mu.Unlock()
	if w != nil {
		<-w.machine.Done()
	}
}
