package guard

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"aloft/internal/gitcmd"
	"aloft/internal/guest/file"
	"aloft/internal/guest/shell"
	sandboxpolicy "aloft/internal/policy/sandbox"
	"aloft/internal/wire/agentv1"
)

// Line returns the sandbox policy for a call of Shell, with notes for the model.
// Unreviewed sandboxed commands may have changed which programs an allowed line really
// starts. In that case the line runs in the sandbox, or is refused if it requested to
// run outside. The caller calls release when the line has ended.
func (s *Sandbox) Line(ctx context.Context, session *shell.Session, args *agentv1.ShellArgs) (p *agentv1.SandboxPolicy, notes []string, release func(), err error) {
	guard, release := args.GetGuard(), func() {}
	if s == nil || guard == nil {
		return args.GetRequestedSandboxPolicy(), nil, release, nil
	}
	why := stillRunning
	if !guard.GetGit() || s.gate.TryLock() {
		if guard.GetGit() {
			release = s.gate.Unlock
		}
		if why, err = s.doubt(ctx, session, args); err != nil {
			why = err.Error()
		}
	}
	if why == "" {
		return args.GetRequestedSandboxPolicy(), nil, release, nil
	}
	release() // since the caller locks it for reading
	release = func() {}
	if guard.GetRefuse() {
		return nil, nil, release, file.Denied("not run outside the sandbox, though the allowlist allows it: %s. Run it without required_permissions, which runs it in the sandbox, or ask the user to run it", why)
	}
	return guard.GetSandboxPolicy(), []string{"ran in the sandbox, though the allowlist allows it outside: " + why}, release, nil
}

// stillRunning is the reason to distrust git while a sandboxed command runs.
const stillRunning = "a sandboxed command is still running, and could change git's configuration meanwhile. Wait for it, or end it"

// doubt returns why an allowed line may start programs other than those that it names,
// or "".
func (s *Sandbox) doubt(ctx context.Context, session *shell.Session, args *agentv1.ShellArgs) (string, error) {
	guard := args.GetGuard()
	request, err := s.Request(guard.GetSandboxPolicy())
	if err != nil {
		return "", err
	}
	rules, err := request.Rules(os.Getenv) //nolint:forbidigo // sandboxed commands run in this process's environment
	if err != nil {
		return "", err
	}
	d := doubter{trusted: s.trusted, seen: map[string]bool{}, writable: []string{file.RealPath(s.Workspace)}}
	for _, g := range rules.Writable {
		d.writable = append(d.writable, file.RealPath(g.Path))
	}
	path, err := session.Variable(ctx, "PATH")
	if err != nil {
		return "", err
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) || d.canWrite(file.RealPath(dir)) {
			return fmt.Sprintf("PATH has the folder %q, in which sandboxed commands can put programs", dir), nil
		}
	}
	if !guard.GetGit() {
		return "", nil
	}
	if args.GetIsBackground() {
		return "git would run in the background, while sandboxed commands can start", nil
	}
	if guard.GetElsewhere() {
		return "in which folder it runs git is known only when it runs", nil
	}
	if where, err := session.Variable(ctx, "CDPATH"); err != nil || where != "" {
		return "CDPATH is set, so in which folder it runs git is known only when it runs", err
	}
	if s.running() {
		return stillRunning, nil
	}
	from := args.GetWorkingDirectory()
	if from == "" {
		from = session.Dir()
	}
	all := foldersOf(from, guard.GetFolders())
	if last := all[len(all)-1]; len(all) > maxFolders || !isFolder(last) {
		return fmt.Sprintf("the folder %s does not exist yet", last), nil
	}
	for _, dir := range slices.DeleteFunc(all, func(dir string) bool { return !isFolder(dir) }) {
		if why, err := d.folder(ctx, dir); why != "" || err != nil {
			return why, err
		}
	}
	return "", nil
}

// jobs are background commands in the sandbox that this process started.
type jobs struct {
	mu  sync.Mutex
	all []shellJob
}

type shellJob struct {
	session *shell.Session
	pid     int
}

func (j *jobs) add(session *shell.Session, pid int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all = append(j.all, shellJob{session, pid})
}

// running reports whether one of the commands is running, and forgets ended
// ones.
func (j *jobs) running() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all = slices.DeleteFunc(j.all, func(one shellJob) bool {
		return !slices.ContainsFunc(one.session.Jobs(), func(known shell.Job) bool { return known.PID == one.pid && known.Running })
	})
	return len(j.all) > 0
}

// running reports whether a command is running in the sandbox. The helper outlives
// everything that it starts, but a background command may not have started its helper
// yet.
func (s *Sandbox) running() bool {
	if s.jobs.running() {
		return true
	}
	helper, err := os.Stat(s.Helper)
	processes, globErr := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil || globErr != nil {
		return true
	}
	return slices.ContainsFunc(processes, func(name string) bool {
		program, err := os.Stat(name)
		return err == nil && os.SameFile(program, helper)
	})
}

// maxFolders limits the number of folders that a line may run git in.
const maxFolders = 64

// foldersOf returns the working directories that a line can reach with its cd commands,
// with and without following links. The last is the working directory after all cd
// commands.
func foldersOf(from string, changes []string) []string {
	last := filepath.Clean(from)
	all := []string{last}
	for _, to := range changes {
		after := last
		for _, dir := range slices.Clone(all) {
			for _, base := range []string{dir, file.RealPath(dir)} {
				next := filepath.Join(base, to)
				if filepath.IsAbs(to) {
					next = filepath.Clean(to)
				}
				if !slices.Contains(all, next) && len(all) <= maxFolders {
					all = append(all, next)
				}
				if dir == last {
					after = next
				}
			}
		}
		last = after
	}
	return append(slices.DeleteFunc(all, func(dir string) bool { return dir == last }), last)
}

func isFolder(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.IsDir()
}

// doubter finds out whether git would start programs that a sandboxed command has
// configured.
type doubter struct {
	trusted  *trusted
	writable []string        // folders that sandboxed commands can change
	seen     map[string]bool // working trees that were checked
}

// canWrite reports whether sandboxed commands can change a path, which has no
// symbolic links. They cannot change the configuration and the hooks of trusted
// repositories.
func (d doubter) canWrite(name string) bool {
	below := func(dir string) bool { return sandboxpolicy.Below(dir, name) }
	return slices.ContainsFunc(d.writable, below) && !slices.ContainsFunc(d.trusted.GitDirs, func(git string) bool {
		return name == git+"/config" || below(git+"/hooks")
	})
}

// folder checks the repository that git finds from a folder.
func (d doubter) folder(ctx context.Context, dir string) (string, error) {
	for at := file.RealPath(dir); ; at = filepath.Dir(at) {
		if r, ok := gitcmd.Open(at); ok {
			return d.repository(ctx, r)
		}
		if looksBare(at) && !slices.Contains(d.trusted.GitDirs, at) {
			return untrusted(at), nil
		}
		if at == filepath.Dir(at) {
			return "", nil
		}
	}
}

func untrusted(dir string) string {
	return fmt.Sprintf("the repository in %s appeared after sandboxed commands could make one, and its configuration may start programs", dir)
}

// repository checks a repository and the submodules that git enters by itself.
func (d doubter) repository(ctx context.Context, r gitcmd.Repository) (string, error) {
	if d.seen[r.WorkTree] {
		return "", nil
	}
	d.seen[r.WorkTree] = true
	if !d.trusted.has(r) {
		return untrusted(r.WorkTree), nil
	}
	if why, err := d.configuration(ctx, r); why != "" || err != nil {
		return why, err
	}
	links, err := gitLinks(ctx, r.WorkTree)
	if err != nil {
		return "", err
	}
	for _, name := range links {
		dir := filepath.Join(r.WorkTree, name)
		sub, ok := gitcmd.Open(file.RealPath(dir))
		switch {
		case !ok && looksBare(dir):
			return untrusted(dir), nil
		case !ok:
			continue // not checked out
		}
		if why, err := d.repository(ctx, sub); why != "" || err != nil {
			return why, err
		}
	}
	return "", nil
}

// gitLinks returns the paths in a repository's index that are other
// repositories.
func gitLinks(ctx context.Context, dir string) (links []string, err error) {
	cmd := gitcmd.Git{Config: [][2]string{{"safe.directory", "*"}}}.Command(ctx, "ls-files", "--stage", "-z", "--full-name", ":/")
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("list the submodules: %w", err)
	}
	const most = 1000
	for in := bufio.NewReader(out); len(links) <= most; {
		entry, err := in.ReadString(0)
		if err != nil {
			break // the exit status says whether the output was complete
		}
		if _, name, ok := strings.Cut(strings.TrimSuffix(entry, "\x00"), "\t"); ok && strings.HasPrefix(entry, "160000 ") {
			links = append(links, name)
		}
	}
	_ = out.Close()
	if err := cmd.Wait(); err != nil || len(links) > most {
		return nil, errors.Join(fmt.Errorf("the submodules of %s cannot be listed", dir), err)
	}
	return links, nil
}

// harmlessKeys are prefixes of configuration keys whose values git never executes or
// includes as a configuration file.
var harmlessKeys = []string{"branch.", "user.", "author.", "committer.", "url.", "safe.", "color.", "core.excludesfile", "core.worktree", "lfs.", "submodule."}

// configuration checks that no value of the repository's whole configuration
// leads to a file that sandboxed commands can change, such as a hook, a filter
// or another configuration file.
func (d doubter) configuration(ctx context.Context, r gitcmd.Repository) (string, error) {
	argv := gitcmd.AsUser("config", "--list", "--includes", "-z")
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = r.WorkTree
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git's configuration in %s cannot be read: %w", r.WorkTree, err)
	}
	for entry := range strings.SplitSeq(string(text), "\x00") {
		key, value, _ := strings.Cut(entry, "\n")
		if key = strings.ToLower(key); slices.ContainsFunc(harmlessKeys, func(begin string) bool { return strings.HasPrefix(key, begin) }) && !strings.HasSuffix(key, ".update") || strings.HasSuffix(key, "url") {
			continue
		}
		if name := d.leads(r, key, value); name != "" {
			return fmt.Sprintf("git's configuration has %s, which leads to %s, and sandboxed commands can change that", key, name), nil
		}
	}
	return "", nil
}

// leads returns the first file or folder that a value names and that sandboxed
// commands can change.
func (d doubter) leads(r gitcmd.Repository, key, value string) string {
	path := key == "core.hookspath" || strings.HasPrefix(key, "include")
	words := []string{value}
	if strings.HasPrefix(key, "filter.lfs.") && strings.HasPrefix(value, "git-lfs ") {
		return ""
	}
	if !path { // it may be a command line
		words = strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune(" \t\n'\"!;&|()<>=`", c) })
	}
	for i, word := range words {
		if i == 0 && !path && !strings.Contains(word, "/") {
			continue // a program in PATH, or no program
		}
		if home := os.Getenv("HOME"); strings.HasPrefix(word, "~/") { //nolint:forbidigo // git expands it too
			word = home + word[1:]
		}
		for _, base := range []string{r.WorkTree, r.GitDir, r.CommonDir} {
			name := word
			if !filepath.IsAbs(name) {
				name = filepath.Join(base, name)
			}
			_, err := os.Lstat(name)
			if at := file.RealPath(name); word != "" && name != base && (path || err == nil) && d.canWrite(at) {
				return at
			}
		}
	}
	return ""
}
