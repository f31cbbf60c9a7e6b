// Package repo contains the tests that read the repository itself: names,
// architecture and documentation.
package repo

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "aloft/"

// mayImport is the architecture. Of our own packages, a package may import only
// those that its line allows. If several lines match, the longest applies. A package
// without a line fails the test.
//
// The lines implement five rules: control and guest never import each other; nouns do
// no I/O and import no wing; an adapter imports its noun and one external library,
// never a sibling; only cmd/*, internal/server and internal/cli/host name
// implementations; generated types stop at the RPC boundary.
var mayImport = map[string][]string{
	"cmd/...":         {"..."}, // main packages combine all others
	"internal/server": {"..."}, // this package combines the parts of a server

	// These parts do not know the rest of the configuration.
	"internal/server/database":     {"internal/atomicfile", "internal/fault", "internal/control/store", "internal/control/store/..."},
	"internal/server/adapter":      {"NOUNS", "internal/environment", "internal/control/..."},
	"internal/server/gitserver":    {"internal/fault", "internal/control/forge", "internal/control/forge/...", "internal/control/gateway", "internal/control/machine/container"},
	"internal/server/unprivileged": {"internal/fault", "internal/lockfile", "internal/control/confine"},
	"internal/server/engine":       {"internal/policy", "internal/control/egress", "internal/control/dockerfile", "internal/control/dockerfile/...", "internal/control/machine/container"},
	"internal/server/probe":        {"internal/server/unprivileged", "internal/control/gateway", "internal/control/image/...", "internal/control/image", "internal/control/machine/container", "internal/guest/sandbox"},

	// Nouns. Each may import those above it.
	"internal/fault":          {},
	"internal/account":        {"internal/fault", "internal/allowance"},
	"internal/conversation":   {},
	"internal/subagent":       {},
	"internal/folder":         {},
	"internal/hook":           {},
	"internal/text":           {},
	"internal/terminal":       {"internal/policy/sandbox"},
	"internal/rule":           {},
	"internal/memory":         {"internal/rule"},
	"internal/plugin":         {},
	"internal/tool":           {"internal/conversation"},
	"internal/agent":          {"internal/text", "internal/conversation", "internal/subagent", "internal/allowance", "internal/rule", "internal/tool", "internal/agent/repeat"},
	"internal/agent/fork":     {"internal/agent", "internal/conversation"},
	"internal/agent/repeat":   {"internal/tool"},
	"internal/policy":         {},
	"internal/policy/sandbox": {"internal/policy", "internal/text"},
	"internal/policy/pattern": {},
	"internal/policy/calls":   {},
	"internal/redact":         {},
	"internal/patch":          {},
	"internal/secret":         {"internal/fault"},
	"internal/environment":    {"internal/policy"},
	"internal/policy/shell":   {"internal/policy/pattern"},
	"internal/policy/permit":  {"internal/policy/pattern", "internal/policy/shell", "internal/text"},
	"internal/mcp":            {"internal/environment", "internal/conversation", "internal/policy/pattern", "internal/text", "internal/tool"},
	"internal/allowance":      {},

	// This package compiles filters for the tests of the packages that embed
	// them.
	"internal/policy/calls/filter": {"internal/policy/calls"},

	// Both wings use these packages, which import neither wing.
	"internal/telemetry":               {},
	"internal/telemetry/telemetrytest": {},

	// The protocols between the wings.
	"internal/wire/...": {"internal/wire/..."},

	// The control plane. Its generated types stop at control/machinerpc, control/pod and
	// control/execclient.
	"internal/control/outbound":                        {"NOUNS"},
	"internal/control/mcp":                             {"NOUNS", "internal/control/keylock", "internal/control/outbound"},
	"internal/control/websearch":                       {"internal/text"},
	"internal/control/embed":                           {"internal/control/model"},
	"internal/control/signin":                          {"NOUNS", "internal/control/store"},
	"internal/control/oauthtest":                       {},
	"internal/control/due":                             {"NOUNS", "internal/control/forge"},
	"internal/control/follow":                          {"NOUNS", "internal/control/due", "internal/control/forge", "internal/control/inbound", "internal/control/store"},
	"internal/control/automation":                      {"NOUNS", "internal/control/due", "internal/control/forge", "internal/control/inbound", "internal/control/store"},
	"internal/control/autoreview":                      {"NOUNS", "internal/control/forge", "internal/control/inbound"},
	"internal/control/mention":                         {"NOUNS", "internal/control/due", "internal/control/forge", "internal/control/inbound", "internal/control/store"},
	"internal/control/inbound":                         {"NOUNS", "internal/control/due", "internal/control/forge", "internal/control/store"},
	"internal/control/webhook":                         {"NOUNS", "internal/control/safe", "internal/control/store"},
	"internal/control/agents":                          {"NOUNS", "internal/control/forge", "internal/control/model", "internal/control/store"},
	"internal/control/api/v0":                          {"NOUNS"},
	"internal/control/memories":                        {"NOUNS", "internal/control/forge", "internal/control/store"},
	"internal/control/team":                            {"NOUNS", "internal/control/review", "internal/control/store"},
	"internal/control/api/rest":                        {"NOUNS", "internal/control/agents", "internal/control/store", "internal/telemetry"},
	"internal/control/api/modelchoice":                 {"NOUNS", "internal/control/agents", "internal/control/api/rest", "internal/control/model", "internal/control/store"},
	"internal/control/api/memories":                    {"NOUNS", "internal/control/api/rest", "internal/control/store"},
	"internal/control/api/approvals":                   {"NOUNS", "internal/control/api/rest", "internal/control/store"},
	"internal/control/api/pulls":                       {"NOUNS", "internal/control/agents", "internal/control/api/rest", "internal/control/forge", "internal/control/pull"},
	"internal/control/api/mcpservers":                  {"NOUNS", "internal/control/api/rest", "internal/control/mcp"},
	"internal/control/api/machines":                    {"NOUNS", "internal/control/api/rest", "internal/control/artifact", "internal/control/preview", "internal/control/store", "internal/wire/tunnel"},
	"internal/control/api/environments":                {"NOUNS", "internal/control/agents", "internal/control/api/rest", "internal/control/api/machines", "internal/control/store"},
	"internal/control/api/automations":                 {"NOUNS", "internal/control/agents", "internal/control/api/rest", "internal/control/automation", "internal/control/inbound", "internal/control/store"},
	"internal/control/api/connect":                     {"NOUNS", "internal/control/api/rest"},
	"internal/control/api/accounts":                    {"NOUNS", "internal/control/agents", "internal/control/model", "internal/control/api/rest", "internal/control/api/modelchoice", "internal/control/ledger", "internal/control/signin", "internal/control/store"},
	"internal/control/api/agents":                      {"NOUNS", "internal/control/agents", "internal/control/api/rest", "internal/control/api/modelchoice", "internal/control/api/approvals", "internal/control/api/mcpservers", "internal/control/api/pulls", "internal/control/forge", "internal/control/store"},
	"internal/control/api/stream":                      {"NOUNS", "internal/control/api/rest", "internal/control/api/agents", "internal/control/api/approvals", "internal/control/api/pulls", "internal/control/live", "internal/control/store"},
	"internal/control/api":                             {"NOUNS", "internal/control/agents", "internal/control/api/...", "internal/control/identity", "internal/control/keylock", "internal/control/ledger", "internal/control/store", "internal/telemetry"},
	"internal/control/preview":                         {"NOUNS"},
	"internal/control/observe":                         {"NOUNS", "internal/control/store", "internal/control/model", "internal/telemetry"},
	"internal/control/backup":                          {"internal/atomicfile", "internal/fault", "internal/lockfile", "internal/control/disk", "internal/control/image", "internal/control/layer"},
	"internal/control/build":                           {"internal/atomicfile", "NOUNS", "internal/control/dockerfile", "internal/control/gateway", "internal/control/layer", "internal/control/machine", "internal/control/pod", "internal/control/pullthrough", "internal/control/repourl", "internal/control/store"},
	"internal/control/fleet":                           {"NOUNS", "internal/control/artifact", "internal/control/build", "internal/control/egress", "internal/control/execclient", "internal/control/gateway", "internal/control/identity", "internal/control/layer", "internal/control/loop", "internal/control/loop/...", "internal/control/machine", "internal/control/model", "internal/control/pod", "internal/control/pullthrough", "internal/control/store", "internal/telemetry"},
	"internal/control/live":                            {},
	"internal/control/loop/draft":                      {"NOUNS", "internal/control/live", "internal/control/model"},
	"internal/control/loop/journal":                    {"NOUNS", "internal/control/store"},
	"internal/control/loop/remote":                     {"NOUNS"},
	"internal/control/loop/pullrequest":                {"NOUNS", "internal/control/loop/remote", "internal/control/loop/journal", "internal/control/pull"},
	"internal/control/loop/memo":                       {"NOUNS"},
	"internal/control/loop/offer":                      {"NOUNS", "internal/control/loop/remote", "internal/control/loop/compact"},
	"internal/control/loop/rulebook":                   {"NOUNS", "internal/control/loop/remote"},
	"internal/control/loop/compact":                    {"NOUNS", "internal/control/loop/rulebook", "internal/control/model"},
	"internal/control/loop/prompt":                     {"NOUNS"},
	"internal/control/loop/transcript":                 {"NOUNS"},
	"internal/control/loop/hook":                       {"NOUNS", "internal/control/loop/offer", "internal/control/loop/remote"},
	"internal/control/loop/task":                       {"NOUNS", "internal/control/loop/compact", "internal/control/loop/offer", "internal/control/tool"},
	"internal/control/loop/proof":                      {"NOUNS", "internal/control/loop/compact", "internal/control/model"},
	"internal/control/loop":                            {"NOUNS", "internal/control/loop/...", "internal/control/live", "internal/control/store", "internal/control/model", "internal/control/tool", "internal/control/review", "internal/control/pull", "internal/control/websearch"},
	"internal/control/schedule":                        {"NOUNS", "internal/control/fleet", "internal/control/gateway", "internal/control/live", "internal/control/loop", "internal/control/loop/...", "internal/control/model", "internal/control/store"},
	"internal/control/review":                          {"NOUNS", "internal/control/store", "internal/control/model"},
	"internal/control/gateway":                         {"NOUNS", "internal/control/lfs", "internal/control/mirror", "internal/control/repourl"},
	"internal/control/lfs":                             {"NOUNS", "internal/control/outbound"},
	"internal/control/identity":                        {"internal/atomicfile", "NOUNS", "internal/lockfile"},
	"internal/control/gateway/gittest":                 {"internal/need"},
	"internal/control/artifact":                        {"NOUNS", "internal/control/bucket", "internal/control/keylock"},
	"internal/control/bucket":                          {},
	"internal/control/machinerpc":                      {"NOUNS", "internal/wire/..."},
	"internal/control/pod":                             {"NOUNS", "internal/wire/...", "internal/control/machine", "internal/control/machinerpc"},
	"internal/control/execclient":                      {"NOUNS", "internal/wire/...", "internal/control/artifact", "internal/control/pod", "internal/control/machinerpc", "internal/telemetry"},
	"internal/control/tool":                            {"NOUNS"},
	"internal/control/dashboard":                       {},
	"internal/control/disk":                            {"internal/fault", "internal/control/machine"},
	"internal/control/ledger":                          {"NOUNS", "internal/control/layer", "internal/control/machine", "internal/control/store"},
	"internal/control/egress":                          {"internal/policy"},
	"internal/control/cgroup":                          {"internal/control/poll"},
	"internal/control/keylock":                         {},
	"internal/control/poll":                            {},
	"internal/control/confine":                         {"internal/control/cgroup"},
	"internal/control/machine":                         {"internal/policy"},
	"internal/control/machine/...":                     {"internal/control/machine", "internal/fault"},
	"internal/control/machine/container":               {"internal/atomicfile", "NOUNS", "internal/lockfile", "internal/control/cgroup", "internal/control/egress", "internal/control/machine", "internal/control/machine/container/...", "internal/control/image", "internal/control/image/registry", "internal/control/layer", "internal/control/poll", "internal/control/tcpmem", "internal/control/trash"},
	"internal/control/machine/container/link":          {},
	"internal/control/machine/container/oomlog":        {"internal/control/machine"},
	"internal/control/machine/container/process":       {"internal/atomicfile"},
	"internal/control/machine/container/seccomp":       {"internal/policy/calls"},
	"internal/control/machine/container/userns":        {"internal/control/machine/container/userns/..."},
	"internal/control/machine/machinetest":             {"internal/control/machine", "internal/control/machine/machinetest/standin", "internal/wire/mux"},
	"internal/control/machine/machinetest/standin":     {"internal/wire/mux"},
	"internal/control/machine/machinetest/standin/pod": {"internal/control/machine/machinetest/standin"},
	"internal/control/pull":                            {"NOUNS", "internal/control/forge", "internal/control/gateway", "internal/control/store"},
	"internal/control/forge":                           {"NOUNS", "internal/control/repourl", "internal/control/keylock"},
	"internal/control/forge/...":                       {"internal/fault", "internal/patch", "internal/control/forge"},
	"internal/control/forge/forgetest":                 {"internal/fault", "internal/control/forge", "internal/control/forge/fake"},
	"internal/control/model":                           {"NOUNS"},
	"internal/control/model/...":                       {"NOUNS", "internal/control/model"},
	"internal/control/safe":                            {"internal/atomicfile", "NOUNS", "internal/control/store"},
	"internal/control/safe/awsrole":                    {"NOUNS", "internal/control/safe"},
	"internal/control/store":                           {"NOUNS"},
	"internal/control/store/...":                       {"NOUNS", "internal/control/store"},
	"internal/control/store/table":                     {"NOUNS", "internal/control/store", "internal/control/store/table/query"},
	"internal/control/store/postgres":                  {"NOUNS", "internal/control/store", "internal/control/store/table", "internal/control/store/table/query"},
	"internal/control/store/postgres/postgrestest":     {"internal/need"},
	"internal/control/store/sqlite":                    {"NOUNS", "internal/lockfile", "internal/control/store", "internal/control/store/table", "internal/control/store/table/query"},
	"internal/control/dockerfile":                      {"internal/fault", "internal/lockfile", "internal/policy", "internal/control/cgroup", "internal/control/image", "internal/control/image/registry"},
	"internal/control/pullthrough":                     {"internal/fault", "internal/policy", "internal/control/image/registry"},
	"internal/control/dockerfile/...":                  {"internal/fault", "internal/control/dockerfile"},
	"internal/control/dockerfile/dockerfiletest":       {"internal/fault", "internal/policy", "internal/need", "internal/control/dockerfile", "internal/control/image", "internal/control/image/registry"},
	"internal/control/image":                           {"internal/atomicfile", "internal/fault", "internal/lockfile", "internal/control/image/registry", "internal/control/image/unpack", "internal/control/trash"},
	"internal/control/image/aptcache":                  {"internal/lockfile"},
	"internal/control/image/debian":                    {"internal/control/image/aptcache"},
	"internal/control/image/unpack":                    {"internal/control/confine"},
	"internal/control/image/registry":                  {"internal/fault", "internal/policy", "internal/text", "internal/control/outbound"},
	"internal/control/layer":                           {"internal/atomicfile", "NOUNS", "internal/lockfile", "internal/control/image", "internal/control/image/unpack", "internal/control/trash"},
	"internal/control/trash":                           {},
	"internal/control/mirror":                          {"internal/atomicfile", "internal/gitcmd", "NOUNS", "internal/lockfile", "internal/control/confine", "internal/control/mirror/owner", "internal/control/mirror/scan", "internal/control/repourl"},
	"internal/control/repourl":                         {"internal/fault"},
	"internal/control/mirror/owner":                    {"internal/control/confine"},
	"internal/control/mirror/scan":                     {"NOUNS"},
	"internal/control/hostd":                           {"NOUNS", "internal/control/cgroup", "internal/control/confine", "internal/control/dockerfile", "internal/control/egress", "internal/control/image", "internal/control/layer", "internal/control/machine", "internal/control/mirror", "internal/control/poll"},

	// Inside a machine.
	"internal/guest/execd":         {"internal/text", "internal/rule", "internal/atomicfile", "internal/fault", "internal/lockfile", "internal/tool", "internal/redact", "internal/telemetry", "internal/wire/...", "internal/guest/changes", "internal/guest/editor", "internal/guest/file", "internal/guest/guard", "internal/guest/terminal", "internal/guest/tool", "internal/guest/hook", "internal/hook", "internal/guest/mcp", "internal/guest/rulefile", "internal/mcp", "internal/terminal"},
	"internal/guest/pid1":          {"internal/atomicfile", "internal/fault", "internal/wire/...", "internal/guest/checkout", "internal/guest/desktop", "internal/guest/listening", "internal/guest/process", "internal/guest/usage", "internal/guest/sandbox", "internal/guest/sandbox/asked", "internal/policy/sandbox", "internal/guest/pullproxy"},
	"internal/guest/pullproxy":     {"internal/atomicfile", "internal/wire/mux"},
	"internal/guest/process":       {"internal/guest/usage"},
	"internal/guest/changes":       {"internal/text", "internal/fault", "internal/gitcmd", "internal/guest/file"},
	"internal/guest/editor":        {"internal/fault"},
	"internal/guest/usage":         {},
	"internal/guest/checkout":      {"internal/atomicfile", "internal/gitcmd"},
	"internal/guest/desktop":       {"internal/fault"},
	"internal/guest/sandbox":       {"internal/lockfile", "internal/policy", "internal/policy/sandbox"},
	"internal/guest/sandbox/asked": {"internal/policy", "internal/policy/sandbox", "internal/wire/agentv1"},
	"internal/guest/sandbox/proxy": {"internal/policy"},
	"internal/guest/sandbox/front": {"internal/policy", "internal/policy/sandbox", "internal/guest/sandbox", "internal/guest/sandbox/proxy"},
	"internal/guest/notebook":      {},
	"internal/guest/pdf":           {},
	"internal/guest/picture":       {},
	"internal/guest/video":         {},
	"internal/guest/screen":        {"internal/guest/webp"},
	"internal/guest/webp":          {},
	"internal/guest/shell":         {},
	"internal/guest/pty":           {},
	"internal/guest/footprint":     {},
	"internal/guest/terminal":      {"internal/terminal", "internal/fault", "internal/redact", "internal/guest/pty"},
	"internal/guest/sshd":          {"internal/atomicfile", "internal/redact", "internal/guest/pty"},
	"internal/guest/ripgrep":       {},
	"internal/guest/listening":     {},
	"internal/guest/lsp":           {"internal/atomicfile", "internal/gitcmd", "internal/guest/ripgrep"},
	"internal/guest/hook":          {"internal/hook", "internal/text", "internal/plugin"},
	"internal/guest/rulefile":      {"internal/plugin", "internal/rule"},
	"internal/guest/mcp":           {"internal/mcp", "internal/redact"},
	"internal/guest/search":        {"internal/atomicfile", "internal/lockfile", "internal/guest/ripgrep"},
	"internal/guest/web":           {"internal/text"},
	"internal/guest/file":          {"internal/policy/sandbox"},
	"internal/guest/guard":         {"internal/atomicfile", "internal/gitcmd", "internal/policy/sandbox", "internal/guest/file", "internal/guest/sandbox", "internal/guest/sandbox/asked", "internal/guest/shell", "internal/wire/agentv1"},
	"internal/guest/tool":          {"internal/text", "internal/gitcmd", "internal/mcp", "internal/guest/file", "internal/guest/guard", "internal/guest/mcp", "internal/policy/sandbox", "internal/guest/sandbox", "internal/tool", "internal/wire/agentv1", "internal/guest/lsp", "internal/guest/notebook", "internal/guest/pdf", "internal/guest/picture", "internal/guest/ripgrep", "internal/guest/search", "internal/guest/shell", "internal/guest/video", "internal/guest/web", "internal/fault", "internal/guest/desktop", "internal/guest/screen"},
	"internal/guest/tool/tooltest": {"internal/need", "internal/guest/sandbox", "internal/tool", "internal/wire/agentv1", "internal/guest/tool"},

	// The command line, and helpers of tests. internal/cli and internal/cli/command print the
	// journal, so they decode its events with internal/agent.
	"internal/client":       {"internal/wire/tunnel"},
	"internal/cli":          {"internal/agent", "internal/client", "internal/conversation"},
	"internal/cli/command":  {"internal/agent", "internal/cli", "internal/client", "internal/atomicfile", "internal/secret"},
	"internal/cli/agents":   {"NOUNS", "internal/cli", "internal/cli/command", "internal/client", "internal/gitcmd"},
	"internal/cli/machines": {"internal/atomicfile", "internal/cli", "internal/cli/command", "internal/client", "internal/lockfile", "internal/sshconfig", "internal/transfer"},
	"internal/cli/envs":     {"NOUNS", "internal/cli", "internal/cli/command", "internal/client"},
	"internal/cli/accounts": {"NOUNS", "internal/cli", "internal/cli/command", "internal/client"},
	"internal/cli/settings": {"NOUNS", "internal/cli", "internal/cli/command", "internal/client"},
	"internal/cli/host":     {"..."}, // what works on the server's host without a running server
	"internal/panel":        {"internal/cli", "internal/client"},
	"internal/sshconfig":    {},
	"internal/transfer":     {},
	"internal/lockfile":     {},
	"internal/atomicfile":   {"internal/need"},
	"internal/gitcmd":       {"internal/atomicfile"},
	"internal/loopbacktest": {},
	"internal/vnctest":      {"internal/need"},
	"internal/need":         {},
	"bench":                 {"..."},
	"hack/...":              {"internal/wire/...", "internal/tool"},
	"test/...":              {"..."},
	"internal/control/machine/container/userns/namespace": {}, // runs before all other packages
	"internal/embeddingtest":                              {},
	"internal/control/tcpmem":                             {"NOUNS", "internal/control/cgroup", "internal/control/machine"},
}

// nouns stand for NOUNS in mayImport.
var nouns = []string{
	"internal/fault",
	"internal/allowance",
	"internal/account",
	"internal/conversation",
	"internal/subagent",
	"internal/folder",
	"internal/hook",
	"internal/text",
	"internal/terminal",
	"internal/rule",
	"internal/memory",
	"internal/plugin",
	"internal/agent",
	"internal/agent/fork",
	"internal/tool",
	"internal/policy",
	"internal/policy/sandbox",
	"internal/policy/calls",
	"internal/redact",
	"internal/patch",
	"internal/secret",
	"internal/environment",
	"internal/policy/shell",
	"internal/policy/pattern",
	"internal/policy/permit",
	"internal/mcp",
}

// noIO are standard packages that a noun must not import.
var noIO = []string{"net", "net/http", "os", "os/exec", "database/sql", "io/fs", "syscall"}

// vague are package names that say where code is, but not what it does.
var vague = []string{"util", "utils", "common", "helper", "helpers", "misc", "base", "shared", "lib", "types", "models", "interfaces", "core", "pkg"}

func TestEveryPackageHasADoc(t *testing.T) {
	for _, p := range packages(t) {
		if !p.hasDoc && !p.generated {
			t.Errorf("%s: no package comment", p.path)
		}
	}
}

func TestNoVagueNames(t *testing.T) {
	for _, p := range packages(t) {
		if slices.Contains(vague, path.Base(p.path)) {
			t.Errorf("%s: name it for what it holds", p.path)
		}
	}
}

func TestImportsFollowTheArchitecture(t *testing.T) {
	for _, p := range packages(t) {
		rule := ruleFor(p.path)
		if rule == "" {
			t.Errorf("%s: no line in mayImport says where it belongs", p.path)
			continue
		}
		for _, dep := range p.ours {
			if !allowed(mayImport[rule], dep) {
				t.Errorf("%s imports %s; the line for %s allows %v", p.path, dep, rule, mayImport[rule])
			}
		}
	}
}

func TestMayImportHasNoDeadLines(t *testing.T) {
	all := packages(t)
	for r := range mayImport {
		if !slices.ContainsFunc(all, func(p *pkg) bool { return matches(r, p.path) }) {
			t.Errorf("the line for %s matches no package", r)
		}
	}
}

// TestWingsNeverMeet checks that control and guest never import each other,
// whatever mayImport says.
func TestWingsNeverMeet(t *testing.T) {
	for _, p := range packages(t) {
		for _, dep := range append(slices.Clone(p.ours), p.oursInTests...) {
			if matches("internal/control/...", p.path) && matches("internal/guest/...", dep) ||
				matches("internal/guest/...", p.path) && matches("internal/control/...", dep) {
				t.Errorf("%s imports %s", p.path, dep)
			}
		}
	}
}

func TestNounsDoNoIO(t *testing.T) {
	for _, p := range packages(t) {
		if !slices.Contains(nouns, p.path) {
			continue
		}
		for _, dep := range p.theirs {
			if slices.Contains(noIO, dep) {
				t.Errorf("%s imports %s", p.path, dep)
			}
		}
	}
}

func TestOnlyWiringNamesImplementations(t *testing.T) {
	adapters := []string{"internal/control/safe/...", "internal/control/machine/...", "internal/control/model/...", "internal/control/store/...", "internal/control/dockerfile/...", "internal/control/forge/..."}
	for _, p := range packages(t) {
		if matches("cmd/...", p.path) || matches("test/...", p.path) || p.path == "bench" || matches("internal/server", p.path) || matches("internal/server/...", p.path) || p.path == "internal/cli/host" {
			continue
		}
		for _, dep := range p.ours {
			if strings.HasSuffix(dep, "test") {
				continue
			}
			for _, a := range adapters {
				if noun := strings.TrimSuffix(a, "/..."); matches(a, dep) && dep != noun && !matches(a, p.path) {
					t.Errorf("%s names the implementation %s", p.path, dep)
				}
			}
		}
	}
}

func allowed(patterns []string, dep string) bool {
	return slices.ContainsFunc(patterns, func(r string) bool {
		return r == "NOUNS" && slices.Contains(nouns, dep) || matches(r, dep)
	})
}

// ruleFor returns the pattern of mayImport that applies to a package: the
// longest that matches.
func ruleFor(pkg string) string {
	rule := ""
	for r := range mayImport {
		if matches(r, pkg) && len(r) > len(rule) {
			rule = r
		}
	}
	return rule
}

// matches reports whether pkg equals pattern or, if pattern ends in "...", is
// below it.
func matches(pattern, pkg string) bool {
	tree, ok := strings.CutSuffix(pattern, "...")
	return pattern == pkg || ok && strings.HasPrefix(pkg, tree)
}

func TestContributingNamesEveryMakeTarget(t *testing.T) {
	doc := read(t, "CONTRIBUTING.md")
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z-]*):.*## `).FindAllStringSubmatch(read(t, "Makefile"), -1) {
		if !strings.Contains(doc, "`make "+m[1]+"`") {
			t.Errorf("CONTRIBUTING.md does not name make %s", m[1])
		}
	}
}

// TestNoProgramsAreCommitted checks that git tracks no file larger than a
// mebibyte. `go build` and `go test -c` in the top folder leave programs there,
// and "git add ." would add them permanently.
func TestNoProgramsAreCommitted(t *testing.T) {
	out, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.Trim(string(out), "\x00"), "\x00") {
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, but the deletion is not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > 1<<20 {
			t.Errorf("%s has %d bytes; remove it, or store it outside the repository", name, info.Size())
		}
	}
}

// longFile is the maximum number of lines of a Go file that does not justify
// its length.
const longFile = 500

func TestFilesAreShort(t *testing.T) {
	walk(t, func(file string) {
		if n := strings.Count(read(t, file), "\n"); n > longFile && !strings.HasSuffix(file, "_test.go") && !isGenerated(t, file) {
			t.Errorf("%s has %d lines: split it by what it is about", file, n)
		}
	})
}

// TestSecurityNamesTestsThatAreThere checks that each promise in SECURITY.md names a
// test, and that the tests exist.
func TestSecurityNamesTestsThatAreThere(t *testing.T) {
	var all strings.Builder
	walk(t, func(file string) {
		if strings.HasSuffix(file, "_test.go") {
			all.WriteString(read(t, file))
		}
	})
	text := read(t, "SECURITY.md")
	name := regexp.MustCompile(`\b(Test|Fuzz)[A-Z]\w+`)
	_, promises, ok := strings.Cut(text, "| promise | how | tested in |\n|---|---|---|\n")
	promises, _, _ = strings.Cut(promises, "\n\n")
	if rows := strings.Count(promises, "\n"); !ok || rows < 50 {
		t.Errorf("SECURITY.md: the table of promises has %d rows", rows)
	}
	for row := range strings.Lines(promises) {
		cells := strings.Split(row, " | ")
		if !name.MatchString(cells[len(cells)-1]) {
			t.Errorf("SECURITY.md: no test is named for %s", cells[0])
		}
	}
	for _, name := range name.FindAllString(text, -1) {
		if !strings.Contains(all.String(), "\nfunc "+name+"(") {
			t.Errorf("SECURITY.md: there is no %s", name)
		}
	}
}

// TestRunModeRowsHaveTests checks that the tests named in
// docs/reference/run-modes.md exist. A subtest must occur in its function, or
// as a line or a file of the package's testdata.
func TestRunModeRowsHaveTests(t *testing.T) {
	rows := 0
	for line := range strings.Lines(read(t, "docs/reference/run-modes.md")) {
		if !strings.HasPrefix(line, "| ") || strings.HasSuffix(line, "| shown by |\n") {
			continue
		}
		rows++
		tests := regexp.MustCompile("`((?:cmd|internal|test)/[^` ]+) (Test[A-Za-z]+)/?([^`]*)`").FindAllStringSubmatch(line, -1)
		if len(tests) == 0 {
			t.Errorf("no test shows the row %s", line)
		}
		for _, m := range tests {
			if why := missingTest(t, m[1], m[2], m[3]); why != "" {
				t.Errorf("%s %s/%s: %s", m[1], m[2], m[3], why)
			}
		}
	}
	if rows < 150 {
		t.Errorf("the page has %d rows", rows)
	}
}

// missingTest describes which part of a package's test is missing, or returns
// "".
func missingTest(t *testing.T, dir, name, subtest string) string {
	t.Helper()
	files, err := filepath.Glob(dir + "/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == name && fn.Recv == nil {
				if subtest == "" || hasText(fn, subtest) || inTestdata(t, dir, subtest) {
					return ""
				}
				return "the test has no such row"
			}
		}
	}
	return "there is no such test"
}

// hasText reports whether a function contains the text as a string literal.
func hasText(fn *ast.FuncDecl, text string) bool {
	found := false
	ast.Inspect(fn, func(n ast.Node) bool {
		if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING {
			value, err := strconv.Unquote(s.Value)
			found = found || err == nil && value == text
		}
		return !found
	})
	return found
}

// inTestdata reports whether the text is the name of a file in a package's
// testdata, or the first column of a line in one.
func inTestdata(t *testing.T, dir, text string) bool {
	t.Helper()
	found := false
	err := filepath.WalkDir(filepath.Join(dir, "testdata"), func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || found {
			return nil //nolint:nilerr // a package without testdata has no file there
		}
		if found = strings.TrimSuffix(d.Name(), filepath.Ext(d.Name())) == text; !found && filepath.Ext(file) == ".txt" {
			found = strings.Contains(read(t, file), "\n"+text+" | ")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestLinksInDocsLead(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#: ]+)(#[^)]*)?\)`)
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && file != ".") {
			return fs.SkipDir
		}
		if filepath.Ext(file) != ".md" {
			return nil
		}
		for _, m := range link.FindAllStringSubmatch(read(t, file), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", file, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

type pkg struct {
	path        string // relative to the root
	hasDoc      bool
	generated   bool
	ours        []string // imports of our own, relative to the root
	oursInTests []string
	theirs      []string
}

// packages reads every package. It reads the files itself instead of calling
// "go list", so that the test cache notices changes.
func packages(t *testing.T) []*pkg {
	t.Helper()
	byDir := map[string]*pkg{}
	walk(t, func(file string) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.ToSlash(filepath.Dir(file))
		test := strings.HasSuffix(file, "_test.go")
		if byDir[dir] == nil {
			if test {
				return
			}
			byDir[dir] = &pkg{path: dir}
		}
		p := byDir[dir]
		if !test {
			p.hasDoc = p.hasDoc || f.Doc != nil
			p.generated = p.generated || isGenerated(t, file)
		}
		for _, spec := range f.Imports {
			dep, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module)
			switch {
			case ours && test:
				p.oursInTests = append(p.oursInTests, dep)
			case ours:
				p.ours = append(p.ours, dep)
			case !test:
				p.theirs = append(p.theirs, dep)
			}
		}
	})
	return slices.SortedFunc(maps.Values(byDir), func(a, b *pkg) int { return strings.Compare(a.path, b.path) })
}

// walk calls do for every Go file of the repository outside of this package,
// tests last.
func walk(t *testing.T, do func(file string)) {
	t.Helper()
	var tests []string
	for _, top := range []string{"internal", "cmd", "bench", "hack", "test"} {
		err := filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules"):
				return fs.SkipDir
			case strings.HasSuffix(file, "_test.go"):
				tests = append(tests, file)
			case strings.HasSuffix(file, ".go"):
				do(file)
			}
			return nil
		})
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	for _, file := range tests {
		do(file)
	}
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func isGenerated(t *testing.T, file string) bool { return generated.MatchString(read(t, file)) }

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
