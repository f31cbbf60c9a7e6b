package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/tailscale/hujson"

	"aloft/internal/hook"
	"aloft/internal/text"
)

// Sources are the sources of hooks.
type Sources struct {
	System  string // a file such as /etc/cursor/hooks.json
	Team    []byte // the team's hooks.json; nil if there is none
	Project string // root folder of the repository
	User    []byte // the agent owner's hooks.json; nil if there is none
	Home    string // home folder of the agent's user
}

// A Set is the hooks of all sources, by event. It is immutable and safe for
// concurrent use.
type Set struct {
	hooks map[hook.Event][]Hook
	// Warnings say what could not be parsed, each with its file.
	Warnings []string

	plugin string // folder of the plugin whose hooks Load is reading, or ""
}

// Load reads the hooks of all sources, in order of precedence: the machine's,
// the team's, the project's and those of its plugins, the user's. It skips hooks that it cannot parse,
// and adds a warning.
func Load(p Sources) *Set {
	s := &Set{hooks: map[hook.Event][]Hook{}}
	s.read(p.System, (*Set).add)
	if p.Team != nil {
		s.add("the team's hooks", p.Team)
	}
	s.readFolder(p.Project)
	if p.Project != "" {
		s.readPlugins(p.Project)
	}
	if p.User != nil {
		s.add("your hooks", p.User)
	}
	s.readFolder(p.Home)
	return s
}

// readFolder reads the hooks of a repository or home folder; "" means none.
func (s *Set) readFolder(dir string) {
	if dir == "" {
		return
	}
	if !s.read(filepath.Join(dir, ".aloft", "hooks.json"), (*Set).add) {
		s.read(filepath.Join(dir, ".cursor", "hooks.json"), (*Set).add)
	}
	s.read(filepath.Join(dir, ".claude", "settings.json"), (*Set).addClaude)
}

// Has reports whether the event has hooks.
func (s *Set) Has(e hook.Event) bool { return len(s.hooks[e]) > 0 }

// read reads a file and passes it to add. It reports whether the file exists.
func (s *Set) read(file string, add func(*Set, string, []byte)) bool {
	if file == "" {
		return false
	}
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false
	case err != nil:
		s.warn("%v", err)
		return true
	case !info.Mode().IsRegular():
		s.warn("%s is not a regular file", file)
		return true
	case info.Size() > maxFile:
		s.warn("%s is longer than %d bytes", file, maxFile)
		return true
	}
	data, err := os.ReadFile(file)
	if err != nil {
		s.warn("%v", err)
		return true
	}
	add(s, file, data)
	return true
}

func (s *Set) warn(format string, args ...any) {
	s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
}

// entry is one hook in the format of a file.
type entry struct {
	Command    string   `json:"command"`
	Type       string   `json:"type"`
	Timeout    *float64 `json:"timeout"` // seconds
	Matcher    string   `json:"matcher"`
	FailClosed bool     `json:"failClosed"`
	LoopLimit  *int     `json:"loop_limit"`
}

// add adds the hooks of a hooks.json.
func (s *Set) add(file string, data []byte) {
	var top struct {
		Version *float64                     `json:"version"`
		Hooks   map[string][]json.RawMessage `json:"hooks"`
	}
	if !s.decode(file, data, &top) {
		return
	}
	if top.Version != nil && *top.Version != 1 {
		s.warn("%s: version %v is not supported; use version 1", file, *top.Version)
	}
	for name, list := range top.Hooks {
		if !slices.Contains(hook.Events, hook.Event(name)) {
			s.warn("%s: unknown event %q", file, name)
			continue
		}
		for i, raw := range list {
			var e entry
			if err := json.Unmarshal(raw, &e); err != nil {
				s.warn("%s: %s[%d]: %v", file, name, i, err)
				continue
			}
			s.append(file, hook.Event(name), e, false)
		}
	}
}

// append adds one hook.
func (s *Set) append(file string, event hook.Event, e entry, claude bool) {
	switch {
	case e.Type != "" && e.Type != "command":
		s.warn("%s: %s: hooks of type %q are not supported; use \"command\"", file, event, e.Type)
		return
	case e.Command == "":
		s.warn("%s: %s: a hook has no command", file, event)
		return
	case len(s.hooks[event]) >= maxHooks:
		s.warn("%s: %s: hooks after the first %d are not run", file, event, maxHooks)
		return
	}
	h := Hook{Command: e.Command, Timeout: defaultTimeout, FailClosed: e.FailClosed, LoopLimit: defaultLoopLimit, File: file, claude: claude, plugin: s.plugin}
	if e.Timeout != nil && *e.Timeout > 0 {
		h.Timeout = min(time.Duration(*e.Timeout*float64(time.Second)), maxTimeout)
	}
	if e.LoopLimit != nil {
		h.LoopLimit = *e.LoopLimit
	}
	if e.Matcher != "" && e.Matcher != "*" {
		re, err := regexp.Compile(e.Matcher)
		if err != nil { // run a hook that may deny rather than lose it
			s.warn("%s: %s: the matcher %q is not valid (%v), so the hook runs for every event", file, event, e.Matcher, err)
		}
		h.matcher = re
	}
	s.hooks[event] = append(s.hooks[event], h)
}

func (s *Set) decode(file string, data []byte, to any) bool {
	if err := text.CheckJSON(data); err != nil {
		s.warn("%s: %v", file, err)
		return false
	}
	plain, err := hujson.Standardize(slices.Clone(bytes.TrimPrefix(data, []byte("\ufeff"))))
	if err == nil {
		err = json.Unmarshal(plain, to)
	}
	if err != nil {
		s.warn("%s: %v", file, err)
	}
	return err == nil
}
