package terminal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"aloft/internal/fault"
	"aloft/internal/terminal"
)

// Limits on data sent to and read from tmux, in bytes.
const (
	maxTyped = 256 << 10 // in one Send
	maxPiece = 2 << 10   // in one argument: a tmux message has at most 16 KiB
	maxRead  = 8 << 20   // in one Read
	maxSaid  = 1 << 20   // of a list
)

// tmuxTimeout is the timeout of one tmux command.
const tmuxTimeout = 10 * time.Second

// Tmux talks to a tmux server. Its methods are safe for concurrent use. If no
// server is running, Create starts one as a daemon, which outlives this
// process.
type Tmux struct {
	Program string // path of tmux; "tmux" by default
	Socket  string // absolute; Create makes its folder if missing
	Dir     string // where terminals start, absolute
	// Environ returns the environment of a server that Create starts.
	Environ func() []string
	// Kept says that another process keeps a server running: Create then starts
	// none, and waits briefly for one that is starting.
	Kept bool
}

// serverPatience is how long Create waits for a server that is starting.
const serverPatience = 5 * time.Second

// Keys is input to type: Text literally, or one Key by tmux's name.
type Keys struct{ Text, Key string }

// errNoServer says that no tmux server listens on the socket.
var errNoServer = errors.New("no tmux server is running")

// List returns the terminals, sorted by name.
func (t *Tmux) List(ctx context.Context) ([]terminal.Terminal, error) {
	out, err := t.run(ctx, maxSaid, "list-sessions", "-F", listFormat)
	if errors.Is(err, errNoServer) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseList(out), nil
}

// Find returns one terminal.
func (t *Tmux) Find(ctx context.Context, name string) (terminal.Terminal, error) {
	list, err := t.List(ctx)
	if err != nil {
		return terminal.Terminal{}, err
	}
	for _, found := range list {
		if found.Name == name {
			return found, nil
		}
	}
	return terminal.Terminal{}, noTerminal(name)
}

func noTerminal(name string) error {
	return fault.NotFound("no terminal %.70q", name).Named("terminal_not_found").At("name").Hint("list them, or create it")
}

// Create creates a terminal, or returns the existing one with that name.
func (t *Tmux) Create(ctx context.Context, n terminal.New) (made terminal.Terminal, created bool, err error) {
	if n.Name == "" {
		if n.Name, err = t.freeName(ctx); err != nil {
			return terminal.Terminal{}, false, err
		}
	}
	if !idForm.MatchString(n.Name) {
		return terminal.Terminal{}, false, fault.Invalid("%.70q is not a valid terminal name", n.Name).At("name").
			Hint("use 1 to 64 letters, digits, _ and -")
	}
	if err := t.awaitServer(ctx); err != nil {
		return terminal.Terminal{}, false, err
	}
	if old, err := t.Find(ctx, n.Name); err == nil {
		return old, false, nil
	} else if !fault.Is(err, fault.KindNotFound) {
		return terminal.Terminal{}, false, err
	}
	args, err := t.newSession(n)
	if err != nil {
		return terminal.Terminal{}, false, err
	}
	if !t.Kept {
		if err := os.MkdirAll(filepath.Dir(t.Socket), 0o700); err != nil {
			return terminal.Terminal{}, false, err
		}
	}
	_, err = t.run(ctx, maxSaid, args...)
	if err != nil && !strings.Contains(err.Error(), "duplicate session") { // another caller created it first
		return terminal.Terminal{}, false, err
	}
	made, findErr := t.Find(ctx, n.Name)
	return made, err == nil, findErr
}

// awaitServer waits for a server that another process keeps running.
func (t *Tmux) awaitServer(ctx context.Context) error {
	if !t.Kept {
		return nil
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(serverPatience); ; {
		_, err := t.run(ctx, maxSaid, "list-sessions", "-F", listFormat)
		switch {
		case !errors.Is(err, errNoServer):
			return err
		case time.Now().After(deadline):
			return fault.Unavailable("the machine's tmux server is not running").Named("tmux_stopped").
				Hint("it restarts automatically; if it does not, look at the log of the process terminals")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// newSession returns the tmux command that creates a terminal.
func (t *Tmux) newSession(n terminal.New) ([]string, error) {
	dir := cmp.Or(n.Dir, t.Dir, "/")
	if info, err := os.Stat(dir); err != nil || !info.IsDir() || !filepath.IsAbs(dir) {
		return nil, fault.Invalid("%.200q is not the absolute path of a folder", dir).At("directory").Because(err)
	}
	args := []string{"new-session", "-d", "-s", n.Name, "-c", dir,
		"-x", strconv.Itoa(cmp.Or(n.Columns, 80)), "-y", strconv.Itoa(cmp.Or(n.Rows, 24))}
	size := len(n.Command)
	for name, value := range n.Env {
		size += len(name) + len(value)
		if !variableForm.MatchString(name) || strings.ContainsRune(value, 0) {
			return nil, fault.Invalid("%.70q is not a valid variable name", name).At("env")
		}
		args = append(args, "-e", name+"="+value)
	}
	if size > 3*maxPiece || strings.ContainsRune(n.Command, 0) {
		return nil, fault.Invalid("the command and its environment are longer than %d KiB, or contain a NUL byte", 3*maxPiece>>10).
			At("command").Hint("write the command to a file and run that")
	}
	if n.Command != "" {
		args = append(args, "--", n.Command)
	}
	// The views of a terminal show its name themselves, so a status line would only take a
	// row.
	args = append(args, separator, "set-option", "-t", "="+n.Name+":", "status", "off")
	if n.Command != "" {
		// Keep the terminal after a command ends, so that its output can be
		// read; a user who exits a shell wants the terminal closed.
		args = append(args, separator, "set-option", "-w", "-t", "="+n.Name+":", "remain-on-exit", "on")
	}
	return args, nil
}

func (t *Tmux) freeName(ctx context.Context) (string, error) {
	list, err := t.List(ctx)
	if err != nil {
		return "", err
	}
	taken := make(map[string]bool)
	for _, other := range list {
		taken[other.Name] = true
	}
	for i := 1; ; i++ {
		if name := "term-" + strconv.Itoa(i); !taken[name] {
			return name, nil
		}
	}
}

// Read returns the screen's text, preceded by that many lines of history; a
// negative number means all. escapes keeps colors.
func (t *Tmux) Read(ctx context.Context, name string, history int, escapes bool) (text string, truncated bool, err error) {
	args := []string{"capture-pane", "-p", "-t", target(name)}
	switch {
	case history < 0:
		args = append(args, "-S", "-")
	case history > 0:
		args = append(args, "-S", "-"+strconv.Itoa(history))
	}
	if escapes {
		args = append(args, "-e")
	}
	out, err := t.run(ctx, 0, args...)
	if err != nil {
		return "", false, t.missingTerminal(name, err)
	}
	if truncated = len(out) > maxRead; truncated {
		out = out[len(out)-maxRead:]
		out = out[bytes.IndexByte(out, '\n')+1:]
	}
	return strings.ToValidUTF8(string(out), "\uFFFD"), truncated, nil
}

// Send types keys, in order.
func (t *Tmux) Send(ctx context.Context, name string, keys []Keys) error {
	size := 0
	for _, k := range keys {
		size += len(k.Text)
		if k.Key != "" && !keyForm.MatchString(k.Key) {
			return fault.Invalid("%.40q is not the name of a key", k.Key).At("keys").Hint("use names such as Enter, C-c, Up, F5 or M-x")
		}
		if strings.ContainsRune(k.Text, 0) {
			return fault.Invalid("the text contains a NUL byte").At("keys").Hint("send the key C-Space")
		}
	}
	if size > maxTyped {
		return fault.Exhausted("%d KiB is too much to type", size>>10).At("keys").Hint("write it to a file")
	}
	for _, k := range keys {
		if k.Key != "" {
			if _, err := t.run(ctx, maxSaid, "send-keys", "-t", target(name), "--", k.Key); err != nil {
				return t.missingTerminal(name, err)
			}
		}
		for _, piece := range pieces(k.Text, maxPiece) {
			if _, err := t.run(ctx, maxSaid, "send-keys", "-t", target(name), "-l", "--", piece); err != nil {
				return t.missingTerminal(name, err)
			}
		}
	}
	return nil
}

// End closes a terminal and kills the processes in it.
func (t *Tmux) End(ctx context.Context, name string) error {
	_, err := t.run(ctx, maxSaid, "kill-session", "-t", "="+name)
	return t.missingTerminal(name, err)
}

// Cursor returns the cursor's position, counted from 0.
func (t *Tmux) Cursor(ctx context.Context, name string) (column, row int, err error) {
	out, err := t.run(ctx, maxSaid, "display-message", "-p", "-t", target(name), "#{cursor_x} #{cursor_y}")
	if err != nil {
		return 0, 0, t.missingTerminal(name, err)
	}
	if x, y, ok := strings.Cut(strings.TrimSpace(string(out)), " "); ok {
		column, _ = strconv.Atoi(x) // errors are ignored: 0 is an acceptable position
		row, _ = strconv.Atoi(y)
	}
	return column, row, nil
}

// target matches a terminal by its exact name; tmux would also match a prefix.
func target(name string) string { return "=" + name + ":" }

// missingTerminal converts tmux's error for a missing terminal.
func (t *Tmux) missingTerminal(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNoServer), strings.Contains(err.Error(), "can't find "), strings.Contains(err.Error(), "no current target"): // the server is exiting
		return noTerminal(name)
	}
	return err
}

// command returns a tmux command line; separator separates its commands.
func (t *Tmux) command(args ...string) []string {
	line := []string{cmp.Or(t.Program, "tmux"), "-u", "-S", t.Socket}
	if t.Kept {
		line = append(line, "-N")
	}
	for _, arg := range args {
		line = append(line, argument(arg))
	}
	return line
}

// separator is an argument that separates two tmux commands.
const separator = "\x00;"

// argument escapes a semicolon at the end of arg, which tmux would take as a
// separator.
func argument(arg string) string {
	if arg == separator {
		return ";"
	}
	if body, ok := strings.CutSuffix(arg, ";"); ok {
		return body + `\;`
	}
	return arg
}

// run runs tmux and returns the last limit bytes of its output; 0 means the limit of a
// Read.
func (t *Tmux) run(ctx context.Context, limit int, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, tmuxTimeout, fault.Unavailable("tmux did not answer within %s", tmuxTimeout))
	defer cancel()
	line := t.command(args...)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.WaitDelay = time.Second
	if t.Environ != nil {
		cmd.Env = t.Environ()
	}
	cmd.Dir = cmp.Or(t.Dir, "/")
	var out, stderr tail
	out.most, stderr.most = cmp.Or(limit, maxRead+1), 4<<10
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	switch words := strings.ToValidUTF8(strings.TrimSpace(string(stderr.bytes)), ""); {
	case err == nil:
		return out.bytes, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, exec.ErrNotFound):
		return nil, fault.NotImplemented("there is no tmux in this machine").Named("tmux_missing").
			Hint("add the package tmux to the environment's image")
	case strings.Contains(words, "no server running"), strings.Contains(words, "error connecting to"),
		strings.Contains(words, "server exited"), strings.Contains(words, "lost server"): // the server exits with its last terminal
		return nil, errNoServer
	default:
		return nil, fault.Conflict("tmux: %.500s", cmp.Or(words, err.Error()))
	}
}

// tail is a writer that keeps the last bytes.
type tail struct {
	most  int
	bytes []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.bytes = append(t.bytes, p...)
	if len(t.bytes) > 2*t.most {
		t.bytes = append(t.bytes[:0], t.bytes[len(t.bytes)-t.most:]...)
	}
	return len(p), nil
}
