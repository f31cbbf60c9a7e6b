package lsp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// abreast is how many linters run at once; it leaves some CPU for the agent's
// other work.
const abreast = 2

// lint runs all kinds of linters for each file's language, and adds the results
// to the report.
func (p *Pool) lint(ctx context.Context, r *Report, files, changed []string) {
	byLanguage := make(map[*language][]string)
	for _, f := range files {
		lang := languageOf(f)
		byLanguage[lang] = append(byLanguage[lang], f)
	}
	type outcome struct {
		found   []Diagnostic
		sources []string
		notes   []string
	}
	var outcomes []*outcome
	var wg sync.WaitGroup
	free := make(chan struct{}, abreast)
	for _, lang := range languages {
		if len(byLanguage[lang]) == 0 {
			continue
		}
		for _, k := range lang.kinds {
			o := new(outcome)
			outcomes = append(outcomes, o)
			wg.Go(func() {
				free <- struct{}{}
				defer func() { <-free }()
				var part Report
				p.byKind(ctx, &part, lang, k, byLanguage[lang], changed)
				o.found, o.sources, o.notes = part.Diagnostics, part.Sources, part.Notes
			})
		}
	}
	wg.Wait()
	for _, o := range outcomes {
		r.Diagnostics = append(r.Diagnostics, o.found...)
		r.Sources = append(r.Sources, o.sources...)
		r.Notes = append(r.Notes, o.notes...)
	}
	r.Sources = unique(r.Sources)
	wanted := make(map[string]bool, len(files))
	for _, f := range files {
		wanted[f] = true
	}
	r.Diagnostics = slices.DeleteFunc(r.Diagnostics, func(d Diagnostic) bool { return !wanted[d.Path] })
}

// byKind has each file checked by the preferred installed linter of a kind, and passes
// files that this linter could not check to the next linter. It adds a note about files
// that none could check.
func (p *Pool) byKind(ctx context.Context, r *Report, lang *language, k kind, files, changed []string) {
	if k.asked != nil {
		asks := func(f string) bool {
			return k.asked(rootOf(f, p.cfg.Dir, k.linters[0].roots)) || k.asked(p.cfg.Dir)
		}
		if !slices.ContainsFunc(files, asks) {
			if !k.always {
				return
			}
			k.linters = slices.DeleteFunc(slices.Clone(k.linters), func(l *linter) bool { return p.find(l.command, p.cfg.Dir) == "" })
		}
	}
	left := files
	var missing []*linter
	spoke := ""
	for _, l := range k.linters {
		var next []string
		for root, of := range byRoot(left, p.cfg.Dir, l) {
			command := p.find(l.command, root)
			if command == "" {
				if !slices.Contains(missing, l) {
					missing = append(missing, l)
				}
				next = append(next, of...)
				continue
			}
			took, rest := split(of, l)
			next = append(next, rest...)
			if len(took) == 0 {
				continue
			}
			found, partial, err := p.ask(ctx, l, command, root, took, changed)
			r.Diagnostics = append(r.Diagnostics, found...)
			switch {
			case err == nil && partial == "":
				spoke = l.name
			case partial != "":
				spoke = l.name
				r.note("%s: %s; these are its results so far. It is still working: call again for the rest", l.name, partial)
			case ctx.Err() != nil:
				r.note("%s did not finish: %v", l.name, context.Cause(ctx))
				return
			default:
				r.note("%s failed: %v", l.name, err)
				next = append(next, took...)
			}
		}
		if spoke == l.name {
			r.Sources = append(r.Sources, l.name)
		}
		if left = next; len(left) == 0 {
			break
		}
	}
	if len(missing) > 0 && spoke != missing[0].name {
		instead := ""
		if spoke != "" {
			instead = fmt.Sprintf(", so only %s ran", spoke)
		}
		r.note("%s: %s is not installed%s; install it with: %s", lang.name, missing[0].name, instead, missing[0].install)
	}
	if len(left) > 0 && len(k.linters) > 0 {
		r.note("%s files not checked: %d", lang.name, len(left))
	}
}

func split(files []string, l *linter) (takes, rest []string) {
	for _, f := range files {
		if l.takes(f) {
			takes = append(takes, f)
		} else {
			rest = append(rest, f)
		}
	}
	return takes, rest
}

// byRoot yields the files of each project, in order.
func byRoot(files []string, top string, l *linter) func(func(string, []string) bool) {
	of := make(map[string][]string)
	for _, f := range files {
		root := rootOf(f, top, l.roots)
		of[root] = append(of[root], f)
	}
	return func(yield func(string, []string) bool) {
		for _, root := range slices.Sorted(maps.Keys(of)) {
			if !yield(root, of[root]) {
				return
			}
		}
	}
}

// ask runs one linter on files of one root.
func (p *Pool) ask(ctx context.Context, l *linter, command, root string, files, changed []string) ([]Diagnostic, string, error) {
	if !l.serves() {
		found, err := runOnce(ctx, l, command, root, p.env(), files)
		return found, "", err
	}
	key := serverKey{l.name, root}
	if f := p.failed(key); f.count >= maxFailures && time.Since(f.last) < coolDown {
		return nil, "", fmt.Errorf("it failed %d times and is disabled for some minutes: %w", f.count, f.why)
	}
	for try := 1; ; try++ {
		s, err := p.server(ctx, l, command, root)
		if err == nil {
			var found []Diagnostic
			var partial string
			if found, partial, err = s.lint(ctx, files, changed); err == nil {
				p.worked(key)
				return found, partial, nil
			}
		}
		if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errPatience) {
			return nil, "", err
		}
		p.note(key, err)
		if try == 2 || ctx.Err() != nil {
			return nil, "", err
		}
	}
}

func (p *Pool) failed(key serverKey) failure {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failures[key]
}

func (p *Pool) worked(key serverKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.failures, key)
}

// note counts a failure of a server and stops that server.
func (p *Pool) note(key serverKey, why error) {
	p.mu.Lock()
	f := p.failures[key]
	p.failures[key] = failure{count: f.count + 1, last: time.Now(), why: why}
	s := p.servers[key]
	delete(p.servers, key)
	p.mu.Unlock()
	p.cfg.Log.Warn("language server failed", "server", key.linter, "root", key.root, "error", why)
	if s != nil {
		s.kill()
	}
}

// server returns the server for a root, and starts it if necessary. If too many
// are running, it stops the least recently used one.
func (p *Pool) server(ctx context.Context, l *linter, command, root string) (*server, error) {
	key := serverKey{l.name, root}
	p.mu.Lock()
	s := p.servers[key]
	if s != nil && s.alive() {
		s.touch()
		p.mu.Unlock()
		return s, nil
	}
	delete(p.servers, key)
	var oldest *server
	for k, other := range p.servers {
		if len(p.servers) >= maxServers && (oldest == nil || other.lastUse().Before(oldest.lastUse())) {
			oldest = p.servers[k]
		}
	}
	if oldest != nil {
		delete(p.servers, serverKey{oldest.linter.name, oldest.root})
	}
	p.mu.Unlock()
	if oldest != nil {
		oldest.stop()
	}
	begun := time.Now()
	s, err := start(ctx, l, command, root, p.env())
	if err != nil {
		return nil, err
	}
	p.cfg.Log.Info("language server started", "server", l.name, "root", root, "took", time.Since(begun))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers[key] = s
	p.tend()
	return s, nil
}

func (s *server) lastUse() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastUsed
}

func (s *server) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastUsed = time.Now()
}

// env returns the environment of linters: this process's, with a PATH that
// includes the usual folders of installed tools.
func (p *Pool) env() []string {
	return append(slices.Clone(p.cfg.Env), "PATH="+strings.Join(p.path(), ":"))
}

// path returns the folders of PATH, plus those that a login shell would add.
func (p *Pool) path() []string {
	path, home := "", ""
	for _, v := range p.cfg.Env {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			path = value
		}
		if value, ok := strings.CutPrefix(v, "HOME="); ok {
			home = value
		}
	}
	dirs := filepath.SplitList(path)
	if home != "" {
		for _, d := range []string{"go/bin", ".local/bin", ".npm-global/bin", ".cargo/bin"} {
			dirs = append(dirs, filepath.Join(home, d))
		}
	}
	return append(dirs, "/usr/local/go/bin", "/go/bin", "/usr/local/bin")
}

// find returns the path of a program, preferring the project's own to the
// machine's; empty if there is none.
func (p *Pool) find(name, root string) string {
	if p.cfg.Only != nil && !slices.Contains(p.cfg.Only, name) {
		return ""
	}
	for dir := root; ; dir = filepath.Dir(dir) {
		for _, bin := range []string{"node_modules/.bin", ".venv/bin", "venv/bin"} {
			if path := filepath.Join(dir, bin, name); executable(path) {
				return path
			}
		}
		if dir == p.cfg.Dir || dir == "/" || !inside(dir, p.cfg.Dir) {
			break
		}
	}
	for _, dir := range p.path() {
		if path := filepath.Join(dir, name); filepath.IsAbs(dir) && executable(path) {
			return path
		}
	}
	return ""
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func unique(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
