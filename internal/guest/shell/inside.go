package shell

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Inside makes a command run in a separate bash inside a wrapper, which is a sandbox.
// The state after such a command (variables, functions, aliases, options) is kept only
// for the next command with the same Key. A shell outside never reads state from a
// sandbox, except for the command's last working directory. The wrapped command sees the
// session's exported variables.
type Inside struct {
	Key string // the policy; each policy has its own state
	// Wrap returns the command line that runs argv inside the wrapper. The
	// wrapper must hide the folder private of the shell, except for its
	// subfolder state, which must be writable.
	Wrap func(private, state string, argv ...string) ([]string, error)
}

// insideScript restores the state after the previous command, runs a command,
// and saves the state after it. Variables exported by the outer session apply
// unless a command inside has changed them.
const insideScript = `\builtin declare -p >|%[1]s/base
[ -r %[1]s/variables ] && \builtin . %[1]s/variables 2>/dev/null
[ -r %[1]s/functions ] && \builtin . %[1]s/functions 2>/dev/null
\builtin shopt -s expand_aliases
__aloft_leave() {
	{ \builtin shopt -p; \builtin set +o; \builtin alias -p; \builtin declare -f; } >|%[1]s/functions
	\builtin declare -p | command grep -vxFf %[1]s/base | command grep -vE '^declare -[^ ]* (BASH|DIRSTACK|EPOCH|FUNCNAME|LINENO|PIPESTATUS|PPID|RANDOM|SECONDS|SHLVL|SHELLOPTS|SRANDOM|UID|EUID|GROUPS|_=|__aloft)' >|%[1]s/variables
	\builtin printf %%s "$PWD" >|%[1]s/folder
}
\builtin trap __aloft_leave EXIT
\builtin . %[1]s/command-%[2]s
`

// insideBody returns the script with which the session's bash runs a command
// inside a wrapper.
func (s *Session) insideBody(c Command, mark string) (string, error) {
	state, err := s.insideState(c.Inside.Key)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(state, "command-"+mark), []byte(c.Text+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("shell: write the command to a file: %w", err)
	}
	script := fmt.Sprintf(insideScript, quote(state), mark)
	argv, err := c.Inside.Wrap(s.dir, state, s.cfg.Bash, "--noprofile", "--norc", "-c", script)
	if err != nil {
		return "", err
	}
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = quote(a)
	}
	return `\builtin command -- ` + strings.Join(words, " "), nil
}

// insideState returns the folder for the state of commands with a key.
func (s *Session) insideState(key string) (string, error) {
	sum := sha256.Sum256([]byte(key))
	dir := s.file("inside-" + hex.EncodeToString(sum[:8]))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("shell: %w", err)
	}
	return dir, nil
}

// maxFolder is the longest path that is accepted from inside, in bytes.
const maxFolder = 4096

// leaveInside changes the session's folder to the folder in which a command inside
// ended. A process in the sandbox wrote the file with that folder, so its content is
// untrusted.
func (s *Session) leaveInside(key, mark string) {
	dir, err := s.insideState(key)
	if err != nil {
		return
	}
	_ = os.Remove(filepath.Join(dir, "command-"+mark))
	f, err := os.OpenFile(filepath.Join(dir, "folder"), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFolder+1))
	name := string(text)
	if err != nil || len(name) > maxFolder || !filepath.IsAbs(name) || strings.ContainsRune(name, 0) {
		return
	}
	if st, err := os.Stat(name); err != nil || !st.IsDir() {
		return
	}
	s.cwd = name
	s.pending = append(s.pending, `\builtin cd -- `+quote(name))
}
