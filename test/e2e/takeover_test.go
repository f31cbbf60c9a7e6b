package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/loopbacktest"
	"aloft/internal/need"
)

const doneAtOnce = `
scripts:
  - turns:
      - calls: [{tool: Shell, args: {command: "echo made > made.txt"}}]
      - text: Done.
`

// visitor is a user with OpenSSH, configured by `aloft config-ssh`.
type visitor struct {
	t    *testing.T
	a    *aloft
	home string
}

func (a *aloft) visitor() *visitor {
	a.t.Helper()
	need.Command(a.t, "ssh")
	v := &visitor{t: a.t, a: a, home: a.t.TempDir()}
	v.want("Written.", v.command(nil, binary(a.t), "config-ssh", "--yes"))
	return v
}

// command returns a command that the visitor runs. ssh and related programs use
// the visitor's configuration.
func (v *visitor) command(stdin io.Reader, name string, args ...string) *exec.Cmd {
	v.t.Helper()
	switch name {
	case "ssh", "scp", "sftp":
		args = append([]string{"-F", filepath.Join(v.home, ".ssh", "config")}, args...)
	}
	cmd := exec.CommandContext(v.t.Context(), name, args...)
	cmd.Stdin = stdin
	cmd.Env = append(os.Environ(), "HOME="+v.home, "XDG_CONFIG_HOME="+filepath.Join(v.home, ".config"),
		"ALOFT_URL="+v.a.URL, "ALOFT_API_KEY="+v.a.Key)
	return cmd
}

// run runs a command and returns its output and its exit code.
func (v *visitor) run(cmd *exec.Cmd) (string, int) {
	v.t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		v.t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

func (v *visitor) want(words string, cmd *exec.Cmd) {
	v.t.Helper()
	if out, code := v.run(cmd); code != 0 || !strings.Contains(out, words) {
		v.t.Fatalf("%v: exit code %d, want %q in:\n%s", cmd.Args[1:], code, words, out)
	}
}

func (v *visitor) write(name, text string, mode os.FileMode) string {
	v.t.Helper()
	path := filepath.Join(v.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		v.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		v.t.Fatal(err)
	}
	return path
}

func TestOpenSSHTakesAMachineOver(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("r", map[string]string{"README.md": "r\n"})
	a := start(t, scripted(t, doneAtOnce))
	r := a.finish(a.create(url, "Make it", nil))
	id := r.AgentID
	v := a.visitor()

	t.Run("Exec", func(t *testing.T) {
		v.t = t
		v.want("made\n", v.command(nil, "ssh", id, "whoami; cat /workspace/made.txt"))
		v.want("ubuntu", v.command(nil, "ssh", "aloft."+id, "whoami"))
		if out, code := v.run(v.command(nil, "ssh", id, "echo out; echo err >&2; exit 7")); code != 7 || out != "out\nerr\n" && out != "err\nout\n" {
			t.Errorf("exit code %d, %q", code, out)
		}
		if out, code := v.run(v.command(nil, "ssh", id, "kill -TERM $$")); code != 255 && code != 143 {
			t.Errorf("a command that a signal ended: %d %s", code, out)
		}
		v.want("[a b]", v.command(nil, "ssh", "-o", "SetEnv=MARK=a\\ b", id, `echo "[$MARK]"; echo "[a b]"`))
		v.want("over", v.command(nil, "ssh", id, "sleep 1000 & echo over"))
		if _, code := v.run(v.command(nil, "ssh", id, "exit 0")); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
	t.Run("ScriptFromInput", func(t *testing.T) { // editors install their servers this way
		v.t = t
		v.want("HOME=/home/ubuntu\nlines 50000", v.command(strings.NewReader("echo HOME=$HOME\nseq 50000 > /tmp/n\necho lines $(wc -l < /tmp/n)\n"), "ssh", "-T", id, "bash"))
		v.want("shell 1", v.command(strings.NewReader("echo shell $((2-1))\n"), "ssh", "-T", id))
	})
	t.Run("Terminal", func(t *testing.T) {
		v.t = t
		v.want("/dev/pts/", v.command(nil, "ssh", "-tt", id, "tty; stty size; printf 'a\\nb\\n' | od -c | head -1"))
		v.want("/workspace", v.command(strings.NewReader("pwd\nexit\n"), binary(t), "agent", "ssh", id, "--", "-tt"))
		v.want("/workspace\n", v.command(nil, binary(t), "agent", "ssh", id, "--", "pwd"))
		if out, code := v.run(v.command(strings.NewReader("exit 5\n"), "ssh", "-tt", id)); code != 5 {
			t.Errorf("exit code %d:\n%s", code, out)
		}
	})
	t.Run("BigOutput", func(t *testing.T) {
		v.t = t
		sum := `| sha256sum | cut -c1-16`
		want, _ := v.run(v.command(nil, "sh", "-c", "seq 4000000 "+sum))
		v.want(want, v.command(nil, "sh", "-c", fmt.Sprintf("ssh -F %s/.ssh/config %s seq 4000000 %s", v.home, id, sum)))
		v.want(want, v.command(nil, "sh", "-c", fmt.Sprintf("seq 4000000 | ssh -F %s/.ssh/config %s \"cat %s\"", v.home, id, sum)))
	})
	t.Run("Files", func(t *testing.T) {
		v.t = t
		script := v.write("up/run.sh", "#!/bin/sh\necho it runs\n", 0o755)
		v.want("", v.command(nil, "scp", "-p", script, id+":/tmp/run.sh"))
		v.want("it runs", v.command(nil, "ssh", id, "/tmp/run.sh"))
		v.want("", v.command(nil, "scp", "-O", script, id+":/tmp/old.sh"))
		v.want("", v.command(nil, "scp", id+":/workspace/made.txt", v.home+"/made.txt"))
		if got, _ := os.ReadFile(v.home + "/made.txt"); string(got) != "made\n" {
			t.Errorf("got %q", got)
		}
		v.want("made.txt", v.command(strings.NewReader("ls /workspace\npwd\n"), "sftp", "-b", "-", id))
	})
	t.Run("Cp", func(t *testing.T) {
		v.t = t
		v.write("tree/a.sh", "a\n", 0o750)
		v.write("tree/sub/b.txt", "b\n", 0o640)
		v.want("Copied 2 files", v.command(nil, binary(t), "agent", "cp", v.home+"/tree", id+":copied"))
		v.want("750 /workspace/copied/a.sh\n640 /workspace/copied/sub/b.txt", v.command(nil, "ssh", id, "cd /; stat -c '%a %n' /workspace/copied/a.sh /workspace/copied/sub/b.txt"))
		// With these files a machine might attack a user who copies them.
		v.want("", v.command(nil, "ssh", id, "cd /workspace/copied && ln -s /etc/passwd out && ln -s ../../../etc away && ln -s sub/b.txt in && mkfifo pipe && chmod 4755 a.sh"))
		v.want("Copied 2 files", v.command(nil, binary(t), "agent", "cp", id+":copied", v.home+"/back"))
		if info, err := os.Lstat(v.home + "/back/a.sh"); err != nil || info.Mode() != 0o755 {
			t.Errorf("%v %v", info, err)
		}
		for _, name := range []string{"out", "away", "pipe"} {
			if _, err := os.Lstat(v.home + "/back/" + name); err == nil {
				t.Errorf("%s was copied", name)
			}
		}
		if got, err := os.Readlink(v.home + "/back/in"); got != "sub/b.txt" {
			t.Errorf("link to %q, %v", got, err)
		}
		v.want("Copied 1 files", v.command(nil, binary(t), "agent", "cp", id+":made.txt", v.home))
		if out, code := v.run(v.command(nil, binary(t), "agent", "cp", id+":none", v.home)); code != 1 || !strings.Contains(out, "none in the machine") {
			t.Errorf("exit code %d: %s", code, out)
		}
		v.want("", v.command(nil, "ssh", id, "rm -rf /workspace/copied"))
	})
	t.Run("Rsync", func(t *testing.T) {
		v.t = t
		need.Command(t, "rsync")
		if out, code := v.run(v.command(nil, "ssh", id, "command -v rsync")); code != 0 {
			need.Missing(t, "rsync in the machine", errors.New(out))
		}
		v.want("", v.command(nil, "rsync", "-a", "-e", "ssh -F "+v.home+"/.ssh/config", v.home+"/tree/", id+":/tmp/synced/"))
		v.want("b\n", v.command(nil, "ssh", id, "cat /tmp/synced/sub/b.txt"))
	})
	t.Run("Forward", func(t *testing.T) { v.t = t; forwarding(t, v, id) })
	t.Run("AsTheDashboardShows", func(t *testing.T) { waysOfTheDashboard(t, a, id) })
	t.Run("ManyChannels", func(t *testing.T) {
		v.t = t
		socket := filepath.Join(v.home, "mux")
		master := v.command(nil, "ssh", "-MN", "-S", socket, id)
		if err := master.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = master.Process.Kill(); _ = master.Wait() }()
		eventually(t, "the shared connection is up", func() bool { _, err := os.Stat(socket); return err == nil })
		var all sync.WaitGroup
		for i := range 30 {
			cmd := v.command(nil, "ssh", "-S", socket, id, fmt.Sprintf("seq 2000 | tail -1; echo is %d", i))
			all.Go(func() {
				if out, err := cmd.CombinedOutput(); err != nil || string(out) != fmt.Sprintf("2000\nis %d\n", i) {
					t.Errorf("channel %d: %v %q", i, err, out)
				}
			})
		}
		all.Wait()
	})
	t.Run("HostKeys", func(t *testing.T) {
		v.t = t
		known, err := os.ReadFile(filepath.Join(v.home, ".config", "aloft", "known_hosts"))
		if err != nil || strings.Count(string(known), "\n"+id+" ssh-ed25519") != 1 {
			t.Errorf("%v:\n%s", err, known)
		}
		v.want("is up to date", v.command(nil, binary(t), "config-ssh", "--yes"))
		v.want("Written.", v.command(nil, binary(t), "config-ssh", "--yes", "--remove"))
		if config, err := os.ReadFile(filepath.Join(v.home, ".ssh", "config")); err != nil || len(config) > 0 {
			t.Errorf("%v: %q is left", err, config)
		}
		v.want("Written.", v.command(strings.NewReader("y\n"), binary(t), "config-ssh"))
	})
	t.Run("AfterTheMachineStopped", func(t *testing.T) {
		v.t = t
		v.run(v.command(nil, "ssh", id, "echo kept > ~/kept"))
		for _, pid := range processes(t, id, "pod-daemon") {
			v.run(v.command(nil, "kill", "-9", fmt.Sprint(pid)))
		}
		eventually(t, "the machine is gone", func() bool { return len(processes(t, id, "pod-daemon")) == 0 })
		v.want("kept", v.command(nil, "ssh", id, "cat ~/kept")) // the host key has changed, too
	})
	t.Run("TheAgentGoesOn", func(t *testing.T) {
		v.t = t
		a.finish(a.followUp(r, "Again"))
		v.want("ubuntu", v.command(nil, "ssh", id, "whoami"))
	})
	t.Run("Refusals", func(t *testing.T) {
		v.t = t
		if status, body := a.do("GET", "/v1/agents/"+id+"/ssh", nil); status != http.StatusBadRequest || !strings.Contains(body, "upgrade_required") {
			t.Errorf("%d %s", status, body)
		}
		none := "bc-00000000-0000-4000-8000-000000000000"
		if out, code := v.run(v.command(nil, "ssh", none, "true")); code != 255 || !strings.Contains(out, "no agent") {
			t.Errorf("%d %s", code, out)
		}
	})
}

// forwarding forwards ports and sockets in both directions.
func forwarding(t *testing.T, v *visitor, id string) {
	here, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "this computer") })}
	go func() { _ = web.Serve(here) }()
	defer web.Close()
	dir := t.TempDir()
	local, remote := filepath.Join(dir, "l.sock"), "/tmp/r.sock"
	const server = `import http.server,os,socketserver
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"the machine")
    def address_string(self): return "x"
class U(socketserver.ThreadingUnixStreamServer): pass
import threading
try: os.remove("/tmp/web.sock")
except OSError: pass
threading.Thread(target=U("/tmp/web.sock",H).serve_forever,daemon=True).start()
s=http.server.ThreadingHTTPServer(("127.0.0.1",0),H)
print("port",s.server_port,flush=True)
s.serve_forever()
`
	if _, code := v.run(v.command(nil, "ssh", id, "command -v python3 curl")); code != 0 {
		need.Missing(t, "python3 and curl in the machine", errors.New("command -v finds neither or one"))
	}
	in, err := os.CreateTemp(dir, "server")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = in.WriteString(server)
	_ = in.Close()
	v.want("", v.command(nil, "scp", in.Name(), id+":/tmp/server.py"))
	v.want("", v.command(nil, "ssh", id, "nohup python3 /tmp/server.py > /tmp/server.log 2>&1 &"))
	var inside string
	eventually(t, "the server in the machine listens", func() bool {
		out, _ := v.run(v.command(nil, "ssh", id, "cat /tmp/server.log"))
		_, err := fmt.Sscanf(out, "port %s", &inside)
		return err == nil
	})
	port, socks := loopbacktest.Free(t), loopbacktest.Free(t)
	ssh := v.command(nil, "ssh", "-N", "-o", "ExitOnForwardFailure=yes", "-o", "StreamLocalBindUnlink=yes",
		"-L", port+":127.0.0.1:"+inside, "-L", local+":/tmp/web.sock", "-D", socks,
		"-R", "45871:"+here.Addr().String(), "-R", remote+":"+here.Addr().String(), id)
	var log screen
	ssh.Stderr = &log
	if err := ssh.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ssh.Process.Kill(); _ = ssh.Wait() }()
	eventually(t, "the ports are forwarded", func() bool {
		out, code := v.run(v.command(nil, "ssh", id, "curl -s http://127.0.0.1:45871/; test -S /tmp/r.sock"))
		return code == 0 && out == "this computer"
	})
	v.want("this computer", v.command(nil, "ssh", id, "curl -s --unix-socket "+remote+" http://x/"))
	v.want("the machine", v.command(nil, "curl", "-s", "--noproxy", "*", "http://"+port+"/"))
	v.want("the machine", v.command(nil, "curl", "-s", "--unix-socket", local, "http://x/"))
	v.want("the machine", v.command(nil, "curl", "-s", "--proxy", "socks5h://"+socks, "--noproxy", "", "http://127.0.0.1:"+inside+"/"))
	if log := log.String(); log != "" {
		t.Logf("ssh says: %s", log)
	}
}

// A paused agent does nothing until it is resumed, even if the server is killed
// in the meantime.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	a := start(t, scripted(t, `
scripts:
  - turns:
      - calls: [{tool: Shell, args: {command: "echo begun; until [ -e /tmp/go ]; do sleep 0.05; done"}}]
      - calls: [{tool: Shell, args: {command: "echo second > /tmp/second"}}]
      - text: Done.
`))
	r := a.create("", "Begin", nil)
	v := a.visitor()
	begun := output("begun") // the command's output, not the call
	a.stream(r, "", func(f frame) bool { return !begun(f, "") })
	v.want("Paused", v.command(nil, binary(t), "agent", "pause", r.AgentID))
	v.want("paused", v.command(nil, binary(t), "agent", "show", r.AgentID))
	// The running call finishes. While the agent waits, a person works in the
	// machine.
	v.want("", v.command(nil, "ssh", r.AgentID, "touch /tmp/go"))
	eventually(t, "the first call is done", func() bool { return strings.Contains(a.events(r.AgentID), `"call.done"`) })
	a.Kill()
	a.Start()
	v = a.visitor() // the restarted server has another address
	v.want("none", v.command(nil, "ssh", r.AgentID, "test -e /tmp/second || echo none"))
	if n := strings.Count(a.events(r.AgentID), `"turn.replied"`); n != 1 {
		t.Errorf("%d replies of the model while the agent is paused", n)
	}
	v.want("Resumed", v.command(nil, binary(t), "agent", "resume", r.AgentID))
	a.finish(r)
	for _, kind := range []string{`"agent.paused"`, `"agent.resumed"`} {
		if strings.Count(a.events(r.AgentID), kind) != 1 {
			t.Errorf("the journal has not one %s", kind)
		}
	}
}
