package repo

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// An exit is a point where data leaves the server: a connection that it opens,
// or text that it passes to another service.
type exit struct {
	n     int    // number of exits of this kind in the file
	what  string // the data that leaves, and its destination
	proof string // the test of privacy mode at this exit: file and name; "" if no data of a run leaves, or if the run itself needs the exit
}

const (
	privacyProof = "internal/server/privacy_test.go TestPrivacy"
	toMachine    = "to a machine, over the connection that the server made"
	toModel      = "to the model, which does the work"
	toForge      = "to the forge, below what package pull and the gateway write"
	fetched      = "nothing of a run: it fetches"
)

var exits = map[string]exit{
	"internal/control/api/v0/agents.go words":              {1, "an agent of /v0, to its person's clients", privacyProof},
	"internal/control/pull/pull.go words":                  {2, "the words of pull requests, to the forge", privacyProof},
	"internal/control/pull/post.go words":                  {1, "what a review has found, to its pull request; nothing in privacy mode", "internal/control/pull/post_test.go TestNotReviewable"},
	"internal/control/forge/gitlab/posting.go words":       {1, "the same, as package pull has composed it", "internal/control/pull/post_test.go TestNotReviewable"},
	"internal/control/pull/say.go words":                   {1, "comments on pull requests, to the forge", privacyProof},
	"internal/control/follow/answer.go words":              {1, "the result of a run, to the review threads that it was about", "internal/control/follow/follow_test.go TestHiddenResultsAreNotShown"},
	"internal/control/follow/autofix.go words":             {1, "what an agent has tried, to its pull request", "internal/control/follow/follow_test.go TestHiddenResultsAreNotShown"},
	"internal/control/mention/show.go words":               {1, "the result of a run, or why it failed, to the issue or pull request that asked for it", "internal/control/mention/mention_test.go TestHiddenResultsAreNotShown"},
	"internal/control/webhook/webhook.go words":            {1, "how runs end and what they ask, to the agent's webhook", privacyProof},
	"internal/control/loop/finish.go words":                {1, "a commit message, to the forge with the branch", privacyProof},
	"internal/control/outbound/outbound.go client":         {3, "webhooks; and images, which are fetched", privacyProof},
	"internal/control/outbound/converse.go client":         {1, "what agents say to remote MCP servers that they were given, by their own calls", ""},
	"internal/telemetry/telemetry.go client":               {2, "traces, metrics and logs, to the operator's receiver", privacyProof},
	"internal/control/forge/wire.go client":                {3, toForge, privacyProof},
	"internal/control/forge/log.go client":                 {1, fetched, ""},
	"internal/control/mcp/session.go client":               {1, "what agents say to remote MCP servers, by their own calls", ""},
	"internal/control/websearch/websearch.go client":       {2, "queries of agents' searches, by their own calls, to the operator's search provider", ""},
	"internal/control/model/wire.go client":                {3, toModel, ""},
	"internal/control/signin/provider.go client":           {2, "who signs in", ""},
	"internal/control/lfs/lfs.go client":                   {3, "large files of the repository, to its server", ""},
	"internal/control/mirror/git.go client":                {1, "the branch, to its repository", ""},
	"internal/control/egress/client.go client":             {2, "the server's own orders, to the process of a machine's network", ""},
	"internal/control/egress/egress.go client":             {1, "what an agent's commands send, as its network policy allows", ""},
	"internal/control/image/aptcache/proxy.go client":      {2, fetched, ""},
	"internal/control/image/registry/transport.go client":  {3, fetched, ""},
	"internal/control/image/registry/registry.go client":   {1, fetched, ""},
	"internal/control/image/registry/source.go client":     {1, fetched, ""},
	"internal/control/dockerfile/docker/docker.go client":  {4, "files of a build, to the operator's engine", ""},
	"internal/control/machine/container/dial.go client":    {1, toMachine, ""},
	"internal/control/machine/container/gateway.go client": {1, toMachine, ""},
	"internal/control/preview/preview.go client":           {1, toMachine, ""},
	"cmd/aloft/host_daemon.go client":                      {1, "that the host-daemon serves, to the service manager", ""},
	"internal/control/hostd/client.go client":              {1, "the server's own orders, to the process of root on this host", ""},
	"internal/control/machinerpc/client.go client":         {3, toMachine, ""},
	"internal/control/execclient/terminal.go client":       {1, toMachine, ""},
	"internal/server/found.go client":                      {1, fetched, ""},
}

// TestExits finds every exit. Each needs a row that names the data and the test
// of privacy mode. A new exit must be added to TestPrivacy, unless it sends no
// data of a run.
func TestExits(t *testing.T) {
	found := map[string]int{}
	walk(t, func(file string) {
		at := path.Dir(file)
		server := strings.HasPrefix(at, "internal/control/") || strings.HasPrefix(at, "internal/telemetry") || at == "cmd/aloft" || at == "internal/cli/host" || at == "internal/server" || strings.HasPrefix(at, "internal/server/")
		if !server || strings.HasSuffix(file, "_test.go") || strings.Contains(at, "testdata") || testHelper.MatchString(at) {
			return
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if kind := exitKind(at, n); kind != "" {
				found[file+" "+kind]++
			}
			return true
		})
	})
	for at, n := range found {
		if e, ok := exits[at]; !ok {
			t.Errorf("%s: say in exits what leaves there, and have TestPrivacy walk it if it tells of a run", at)
		} else if e.n != n {
			t.Errorf("%s: there are %d, and exits has %d: say what leaves there", at, n, e.n)
		}
	}
	for _, at := range slices.Sorted(maps.Keys(exits)) {
		if found[at] == 0 {
			t.Errorf("%s: nothing leaves there", at)
		}
		if proof := exits[at].proof; proof != "" {
			file, name, _ := strings.Cut(proof, " ")
			if !strings.Contains(read(t, filepath.FromSlash(file)), fmt.Sprintf("\nfunc %s(t *testing.T)", name)) {
				t.Errorf("%s: there is no test %s", at, proof)
			}
		}
	}
}

// exitKind returns the kind of exit that the node creates, or "": a client of
// another service, or text for other services.
func exitKind(at string, n ast.Node) string {
	is := func(e ast.Expr, names ...string) bool {
		s, ok := e.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		of, ok := s.X.(*ast.Ident)
		return ok && slices.Contains(names, of.Name+"."+s.Sel.Name)
	}
	types := []string{"http.Client", "http.Transport", "net.Dialer", "smtp.Client"}
	words := []string{"forge.NewPullRequest", "forge.Change"}
	replies := map[string]string{"internal/control/webhook": "payload", "internal/control/api/v0": "Agent"}
	switch n := n.(type) {
	case *ast.CompositeLit:
		if is(n.Type, types...) {
			return "client"
		}
		if id, ok := n.Type.(*ast.Ident); is(n.Type, words...) || ok && id.Name == replies[at] && len(n.Elts) > 0 {
			return "words"
		}
	case *ast.ValueSpec:
		if n.Type != nil && is(n.Type, types...) {
			return "client"
		}
		if n.Type != nil && is(n.Type, words...) {
			return "words"
		}
	case *ast.CallExpr:
		if is(n.Fun, "net.Dial", "net.DialTimeout", "tls.Dial", "websocket.Dial", "smtp.SendMail", "smtp.Dial", "grpc.NewClient") {
			return "client"
		}
		if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "new" && len(n.Args) == 1 && is(n.Args[0], types...) {
			return "client"
		}
		if calls(n, "Commit", "machine") {
			return "words"
		}
		if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Comment" {
			return "words"
		}
	case *ast.SelectorExpr:
		if is(n, "http.DefaultClient", "http.DefaultTransport") {
			return "client"
		}
	}
	return ""
}

// calls reports whether the expression calls the method on a field with the
// given name.
func calls(n *ast.CallExpr, method, of string) bool {
	s, ok := n.Fun.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != method {
		return false
	}
	x, ok := s.X.(*ast.SelectorExpr)
	return ok && x.Sel.Name == of
}
