package e2e

import (
	"cmp"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/need"
	"aloft/internal/policy"
)

// asks runs a program of this host that prints its package servers, and returns
// the first one.
func asks(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(need.Command(t, name), args...).Output()
	if err != nil {
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	first, _, _ = strings.Cut(first, ",")
	return first
}

// reachable returns the host of a package server. It fails if this host cannot
// reach the server, because then no machine could.
func reachable(t *testing.T, server string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil || u.Host == "" {
		t.Fatalf("%q is no address of a server (%v)", server, err)
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(u.Hostname(), port), 2*time.Minute)
	if err != nil {
		need.Missing(t, "network", err)
	}
	_ = conn.Close()
	return u.Hostname()
}

// aptSource returns the server from which this host's apt gets packages.
func aptSource(t *testing.T) string {
	t.Helper()
	return asks(t, "apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")
}

// reached fails unless the agent's machine has received data from each of the
// hosts.
func (a *aloft) reached(agentID string, hosts ...string) {
	a.t.Helper()
	for _, host := range hosts {
		eventually(a.t, "the connections show "+host, func() bool {
			return slices.ContainsFunc(a.connections(agentID).Ended, func(c policy.Connection) bool {
				return c.Received > 0 && slices.Contains(strings.Fields(c.Domain), host)
			})
		})
	}
}

// says fails unless the agent's journal contains each of the texts.
func (a *aloft) says(agentID string, words ...string) {
	a.t.Helper()
	events := a.events(agentID)
	for _, want := range words {
		if !strings.Contains(events, want) {
			a.t.Errorf("nothing in the run says %q\n%s", want, events)
		}
	}
}

// project is a web server with its test tools, which npm installs and tests:
// about ninety packages with dependencies.
var project = map[string]string{
	"package.json": `{"name": "greeter", "version": "1.0.0", "private": true, "scripts": {"test": "node --test"},
  "dependencies": {"express": "4.21.2"}, "devDependencies": {"supertest": "7.0.0"}}`,
	"greeter.js": `module.exports = require('express')().get('/:name', (q, s) => s.json({hello: q.params.name}))`,
	"greeter.test.js": `const test = require('node:test'), request = require('supertest'), greeter = require('./greeter')
test('greets', () => request(greeter).get('/ann').expect(200, {hello: 'ann'}))
test('knows nothing else', () => request(greeter).get('/a/b').expect(404))`,
	".gitignore": "node_modules\n",
}

// TestRealPrograms has npm install and test a project, and has go and curl
// fetch a module, all from the servers that this host is configured to use.
func TestRealPrograms(t *testing.T) {
	t.Parallel()
	need.Command(t, "curl")
	registry, proxy := asks(t, "npm", "config", "get", "registry"), asks(t, "go", "env", "GOPROXY")
	hosts := []string{reachable(t, registry), reachable(t, proxy)}
	const command = `export npm_config_registry=@npm@ GOPROXY=@go@
npm install --no-audit --no-fund 2>&1 | grep -E '^added|npm ERR|npm error'
npm test 2>&1 | sed 's/^/npm:/'
curl -sS -m 60 $GOPROXY/golang.org/x/text/@v/v0.3.0.info | sed s/^/curl:/
export PATH=$PATH:/usr/local/go/bin GOSUMDB=off GOTOOLCHAIN=local GOPATH=/tmp/gopath GOCACHE=/tmp/gocache
mkdir -p /tmp/m && cd /tmp/m && go mod init x.test >/dev/null 2>&1; go mod download -json golang.org/x/text@v0.3.0 2>&1 | grep -c '"Zip"' | sed s/^/go:/
`
	git := gittest.New(t)
	a := start(t, scripted(t, shellScript(strings.NewReplacer("@npm@", registry, "@go@", strings.TrimSuffix(proxy, "/")).Replace(command))))
	r := a.finish(a.create(git.Repo("greeter", project), "Use the network", nil))
	a.says(r.AgentID, "added ", "npm:# pass 2", "npm:# fail 0", `curl:{\"Version\"`, "go:1")
	a.reached(r.AgentID, hosts...)
}

// TestAptInstall has the agent's user install a Debian package with apt in a
// Debian machine.
func TestAptInstall(t *testing.T) {
	t.Parallel()
	need.Command(t, "mmdebstrap")
	host := reachable(t, aptSource(t))
	image, err := filepath.Abs("../../.bin/debian-image")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("../../hack/debian-image.sh", image).CombinedOutput(); err != nil {
		t.Fatalf("make the image: %v\n%s", err, out)
	}
	const command = `id -un | sed s/^/user:/
command -v hello || echo there is none | sed s/^/before:/
sudo apt-get -qq update && sudo DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 install -y hello 2>&1 | tail -3
hello; dpkg-query -W -f '${Status}' hello`
	for name, config := range map[string]string{"runc": "", "runsc": "  class: strong\n  strong: " + runsc(t) + "\n"} {
		t.Run(name, func(t *testing.T) {
			a := start(t, scripted(t, shellScript(command))+"machine:\n  image: rootfs:"+image+"\n"+config)
			r := a.finish(a.create("", "Install hello", nil))
			a.says(r.AgentID, "user:ubuntu", "before:there is none", "Hello, world!", "install ok installed")
			a.reached(r.AgentID, host)
		})
	}
}

// TestDefaultMachine uses a server without configuration. Its first agent installs a
// package, and uses this host's programs.
func TestDefaultMachine(t *testing.T) {
	t.Parallel()
	host := reachable(t, aptSource(t))
	for _, name := range []string{"git", "gcc", "python3", "node"} {
		need.Command(t, name)
	}
	const command = `sudo apt-get update && sudo apt-get install -y hello && hello | sed s/^/says:/
echo 'int main(void) { return 7; }' > /tmp/seven.c && gcc -o /tmp/seven /tmp/seven.c && { /tmp/seven; echo gcc:$?; }
python3 -c 'print("python:", 6 * 7)'; node -p '"node: " + 6 * 7'; git --version; go version | sed s/^/go:/; sudo go version | sed s/^/sudo-go:/
sudo cat /etc/shadow | cut -d: -f2 | sort -u | tr '\n' ' ' | sed s/^/passwords:/; sudo ls /root /home /etc/ssh | sed s/^/sees:/`
	a := start(t, scripted(t, shellScript(command)))
	r := a.finish(a.create("", "Install hello", nil))
	a.says(r.AgentID, "says:Hello, world!", "gcc:7", "python: 42", "node: 42", "git version", "go:go version", "sudo-go:go version", "passwords:! * ",
		`"packageManager":"apt-get","root":true`)
	if t.Failed() {
		return
	}
	a.reached(r.AgentID, host)
	if events := a.events(r.AgentID); strings.Contains(events, "sees:ssh_host") || strings.Contains(events, "unsandboxed") {
		t.Errorf("the machine shows too much, or apt lacks a privilege:\n%s", events)
	}
}

// TestIncompleteImage uses an image without bash and git. The run ends before
// the first model request, and its error names the missing programs.
func TestIncompleteImage(t *testing.T) {
	t.Parallel()
	image := t.TempDir()
	if err := os.Mkdir(filepath.Join(image, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(image, "bin/sh"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	git := gittest.New(t)
	a := start(t, scripted(t, shellScript("true"))+"machine:\n  image: rootfs:"+image+"\n")
	r := a.wait(a.create(git.Repo("x", project), "Work", nil))
	if r.Status != "ERROR" {
		t.Errorf("the run is %s", r.Status)
	}
	a.says(r.AgentID, "lacks programs that agents need: bash, git", "image_incomplete")
	if events := a.events(r.AgentID); strings.Contains(events, `"kind":"turn.replied"`) {
		t.Errorf("the model was asked:\n%s", events)
	}
}
