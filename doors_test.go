package repo

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A door is an entry point: a listener, a server, a route of a mux, a
// WebSocket, or a handler of requests from a machine.
type door struct {
	n     int    // number of doors of this kind in the file
	who   string // who may enter, and what they can reach
	proof string // the test that others may not enter: file and name; "" if no one else can connect
}

// own describes doors on a person's own computer. Such a door closes when the
// person's command ends.
const own = "programs of the computer on which a person runs the command: loopback"

var doors = map[string]door{
	// The control plane and the host.
	"internal/server/listen.go listener":                  {1, "all, to the API, the dashboard and previews", "internal/control/api/authorization_test.go TestWhoMayDoWhat"},
	"internal/server/assemble.go server":                  {1, "the same; a preview's own origin is for whom the API has let in", "internal/control/preview/preview_test.go TestOtherOrigins"},
	"cmd/aloft/host_daemon.go listener":                   {2, "the server's user, to the host-daemon", "internal/control/hostd/hostd_test.go TestOtherUsers"},
	"internal/control/dashboard/dashboard.go route":       {4, "all: files without anybody's data", "internal/control/dashboard/dashboard_test.go TestWhatNeedsNoKey"},
	"internal/control/api/routes.go route":                {3, "as each route's row says", "internal/control/api/authorization_test.go TestWhoMayDoWhat"},
	"internal/control/api/legacy.go route":                {1, "nobody but the routes of /v0, as whoever asks them", "internal/control/api/authorization_test.go TestWhoMayDoWhat"},
	"internal/control/api/machines/machine.go websocket":  {1, "ssh: members, to their agents; admins, to all", "internal/control/api/authorization_test.go TestWhoMayDoWhat"},
	"internal/control/api/machines/machines.go websocket": {1, "PTY: members, to their agents; admins, to all", "internal/control/api/authorization_test.go TestWhoMayDoWhat"},
	"internal/control/api/machines/ports.go websocket":    {1, "ports: members, to their agents; admins, to all", "internal/control/api/authorization_test.go TestWhoMayDoWhat"},

	// Requests from a machine, over the connection that the server has opened.
	"internal/control/pod/pod.go handlers":        {1, "a machine, to git, registries, tokens and traces", "internal/control/gateway/refuse_test.go TestHostileRequests"},
	"internal/control/pod/serve.go server":        {1, "a machine, to the repositories and the branch of its run", "internal/control/gateway/refuse_test.go TestCredential"},
	"internal/control/fleet/identity.go route":    {1, "a machine, for a token that says whose it is", "internal/control/fleet/identity_test.go TestTokensAreOfTheAgentWhoseMachineAsks"},
	"internal/telemetry/relay.go route":           {1, "a machine, with measurements of exec-daemon's own", "internal/telemetry/relay_test.go TestRelayKeepsWhatIsExecDaemonsOwn"},
	"internal/control/embed/embed.go route":       {1, "a machine, with texts for its code search, to the operator's model", "internal/control/embed/embed_test.go TestRelayRefuses"},
	"internal/control/egress/process.go listener": {1, "the server, by a socket in a machine's folder, which is root's", ""},
	"internal/control/egress/serve.go server":     {1, "the same", ""},
	"internal/control/egress/serve.go route":      {2, "the same", ""},

	// Doors in a machine, where agents' commands run. From outside, these
	// listeners can be reached only through the machine's one connection.
	"internal/guest/pid1/control.go listener":        {1, "the server: a socket of root's", "internal/guest/pid1/control_test.go TestSocketsOfTheServerAreRoots"},
	"internal/guest/pid1/server.go server":           {1, "the same", "internal/guest/pid1/control_test.go TestSocketsOfTheServerAreRoots"},
	"internal/guest/pid1/ports.go listener":          {1, "root, and the agent's user, each with a token", "cmd/pod-daemon/reference_test.go TestReferenceOfRunningDaemons"},
	"internal/guest/pid1/ports.go server":            {1, "the same", "cmd/pod-daemon/reference_test.go TestReferenceOfRunningDaemons"},
	"internal/guest/pullproxy/pullproxy.go listener": {1, "Docker, with a password that only root can read, to the registries that the server's rules allow", "internal/guest/pullproxy/pullproxy_test.go TestOnlyDocker"},
	"internal/guest/pullproxy/pullproxy.go server":   {1, "the same", "internal/control/pullthrough/pullthrough_test.go TestRules"},
	"internal/guest/pid1/desktop.go listener":        {1, "all programs of the machine to the display, and the agent's user to D-Bus; none in a sandbox", "internal/guest/sandbox/plan_test.go TestPlan"},
	"internal/guest/pid1/apisocket.go listener":      {1, "all programs of the machine, to what they are told of the agent", "cmd/pod-daemon/management_test.go TestMetadata"},
	"internal/guest/pid1/apisocket.go server":        {1, "the same", "cmd/pod-daemon/management_test.go TestMetadata"},
	"internal/guest/pid1/apisocket.go route":         {4, "the same", "cmd/pod-daemon/management_test.go TestMetadata"},
	"internal/guest/pid1/boot.go listener":           {1, "all programs of the machine, to git, with the run's token, to traces, and to the model for embeddings, within the agent's budget", "internal/control/gateway/refuse_test.go TestCredential"},
	"cmd/exec-daemon/main.go listener":               {2, "pod-daemon, with a token", "cmd/exec-daemon/options_test.go TestBothPorts"},
	"internal/guest/execd/execd.go server":           {2, "the same", "internal/guest/execd/control_test.go TestEveryRequestNeedsTheToken"},
	"internal/guest/execd/execd.go route":            {1, "the same", "internal/guest/execd/control_test.go TestEveryRequestNeedsTheToken"},
	"internal/guest/terminal/serve.go websocket":     {1, "the same", "cmd/exec-daemon/options_test.go TestBothPorts"},
	"internal/guest/editor/editor.go listener":       {1, "nobody: it asks for a free port", ""},
	"internal/guest/sshd/sshd.go listener":           {1, "pod-daemon, for a person whom the API has let in: a socket of the agent's user", "internal/guest/pid1/ssh_test.go TestDialOwned"},
	"internal/guest/sshd/sshd.go ssh":                {1, "the same", "internal/guest/pid1/ssh_test.go TestDialOwned"},
	"internal/guest/sshd/listen.go listener":         {2, "programs of the machine, to what a person forwards by ssh -R", ""},

	// A person's own computer.
	"internal/cli/machines/forward.go listener":         {1, own, ""},
	"internal/cli/host/demo_repo.go listener":           {1, own, ""},
	"internal/control/image/aptcache/proxy.go listener": {1, "apt of \"aloft image build\", with a password", "internal/control/image/aptcache/aptcache_test.go TestRefused"},
	"internal/cli/host/demo_repo.go server":             {1, own, ""},
}

// TestDoors finds every door of the programs. Each needs a row that says who
// may enter, and names a test that others may not. The API's routes have their
// rows in internal/control/api/authorization_test.go.
func TestDoors(t *testing.T) {
	found := map[string]int{}
	walk(t, func(file string) {
		at := path.Dir(file)
		if strings.HasSuffix(file, "_test.go") || strings.Contains(at, "testdata") || testHelper.MatchString(at) || !strings.HasPrefix(at, "cmd/") && !strings.HasPrefix(at, "internal/") {
			return
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if kind := doorKind(n); kind != "" {
				found[file+" "+kind]++
			}
			return true
		})
	})
	for at, n := range found {
		if d, ok := doors[at]; !ok {
			t.Errorf("%s: say in doors who may come in there, and add a test that others may not", at)
		} else if d.n != n {
			t.Errorf("%s: there are %d, and doors has %d: say who may come in", at, n, d.n)
		}
	}
	for _, at := range slices.Sorted(maps.Keys(doors)) {
		if found[at] == 0 {
			t.Errorf("%s: there is no such door", at)
		}
		if proof := doors[at].proof; proof != "" {
			file, name, _ := strings.Cut(proof, " ")
			if !strings.Contains(read(t, filepath.FromSlash(file)), fmt.Sprintf("\nfunc %s(t *testing.T)", name)) {
				t.Errorf("%s: there is no test %s", at, proof)
			}
		}
	}
}

// testHelper matches packages that only tests use.
var testHelper = regexp.MustCompile(`test(/|$)|/fake$`)

// doorKind returns the kind of door that the node creates, or "".
func doorKind(n ast.Node) string {
	switch n := n.(type) {
	case *ast.CallExpr:
		f, ok := n.Fun.(*ast.SelectorExpr)
		if !ok {
			return ""
		}
		switch name := f.Sel.Name; {
		case isNamed(f.X, "net") && strings.HasPrefix(name, "Listen"), isNamed(f.X, "unix") && name == "Listen", name == "Listen" && len(n.Args) == 3:
			return "listener"
		case isNamed(f.X, "websocket") && name == "Accept":
			return "websocket"
		case name == "NewServerConn":
			return "ssh"
		case (name == "Handle" || name == "HandleFunc") && len(n.Args) == 2 && !isNamed(n.Args[0], "ctx"): // this is the method of a slog.Handler
			return "route"
		}
	case *ast.CompositeLit:
		switch typ := n.Type.(type) {
		case *ast.SelectorExpr:
			if isNamed(typ.X, "http") && typ.Sel.Name == "Server" {
				return "server"
			}
		case *ast.MapType:
			if v, ok := typ.Value.(*ast.SelectorExpr); ok && v.Sel.Name == "Handler" {
				return "handlers"
			}
		}
	}
	return ""
}

func isNamed(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}
