package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/need"
)

// command returns a bin/aloft command that is configured for the server.
func (a *aloft) command(ctx context.Context, args ...string) *exec.Cmd {
	a.t.Helper()
	cmd := exec.CommandContext(ctx, binary(a.t), args...)
	cmd.Env = append(os.Environ(), "ALOFT_URL="+a.URL, "ALOFT_API_KEY="+a.Key, "TERM=xterm")
	return cmd
}

// A person runs commands in an agent's machine and shares a terminal with it,
// although no run is active and exec-daemon is killed.
func TestAccess(t *testing.T) {
	t.Parallel()
	need.Command(t, "tmux")
	git := gittest.New(t)
	url := git.Repo("access", map[string]string{"README.md": "access\n"})
	a := start(t, scripted(t, crashScript))
	r := a.finish(a.create(url, "Write one line", nil))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	run := func(stdin io.Reader, args ...string) (code int, out, errs string) {
		t.Helper()
		cmd := a.command(ctx, append([]string{"agent", "exec", "-e", "GIVEN=x", r.AgentID, "--"}, args...)...)
		var stdout, stderr bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
		err := cmd.Run()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if err != nil && !ok {
			t.Fatal(err)
		}
		if ok {
			code = exit.ExitCode()
		}
		return code, stdout.String(), stderr.String()
	}
	all := bytes.Repeat([]byte("0123456789\n\x00\xff"), 1<<18)
	for _, tt := range []struct {
		stdin     io.Reader
		args      []string
		code      int
		out, errs string
	}{
		{nil, []string{"pwd"}, 0, "/workspace\n", ""},
		{nil, []string{"sh", "-c", "echo out $GIVEN; echo err >&2; exit 42"}, 42, "out x\n", "err\n"},
		{bytes.NewReader(all), []string{"cat"}, 0, string(all), ""},
	} {
		code, out, errs := run(tt.stdin, tt.args...)
		if code != tt.code || out != tt.out || errs != tt.errs {
			t.Errorf("%v: %d, %.200q (%d bytes), %.200q", tt.args, code, out, len(out), errs)
		}
	}
	if code, _, errs := run(nil, "/no/such/program"); code != 1 || !strings.Contains(errs, "cannot be started") {
		t.Errorf("%d, %q", code, errs)
	}

	// Two people attach to one terminal.
	attach := func() (*os.File, *screen) {
		t.Helper()
		cmd := a.command(ctx, "agent", "attach", r.AgentID)
		f, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 90, Rows: 25})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close(); _ = cmd.Wait() })
		s := new(screen)
		go func() { _, _ = io.Copy(s, f) }()
		return f, s
	}
	ann, annSees := attach()
	ben, benSees := attach()
	shows := func(s *screen, what string) {
		t.Helper()
		eventually(t, what, func() bool { return strings.Contains(s.String(), what) })
	}
	const attached = "\x1b[?1049h" // each attachment switches to the alternate screen
	shows(annSees, attached)
	shows(benSees, attached)
	say := func(f *os.File, text string) {
		t.Helper()
		if _, err := io.WriteString(f, text); err != nil {
			t.Fatal(err)
		}
	}
	say(ann, "echo from-ann-$((40+2)) $(stty size)\r")
	shows(benSees, "from-ann-42 25 90")
	say(ben, "echo from-ben-$((40+3))\r")
	shows(annSees, "from-ben-43")
	// Both reconnect automatically to the same terminal.
	attachments := func() int { return strings.Count(annSees.String(), attached) }
	before := attachments()
	kill(t, r.AgentID, "exec-daemon")
	eventually(t, "she is attached again", func() bool { return attachments() > before })
	say(ann, "echo again-$((40+4))\r")
	shows(annSees, "again-44")
	if status, body := a.do("GET", "/v1/agents/"+r.AgentID+"/terminals", nil); status != 200 || !strings.Contains(body, `"name":"main"`) {
		t.Errorf("%d %s", status, body)
	}
	say(ann, "\x02d") // Ann detaches
	// A run works as usual meanwhile.
	if r = a.finish(a.followUp(r, "Again")); r.Status != "FINISHED" {
		t.Errorf("%+v", r)
	}
}

// screen collects the output of a terminal.
type screen struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}
