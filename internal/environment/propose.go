package environment

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// Known holds the data from which an environment is proposed for a project. All of it is
// untrusted.
type Known struct {
	Snapshot string            // snapshot to start from; "" for none
	Files    map[string][]byte // files of the root that are listed in [ProposeFiles]; a file that is too large has nil content
	Typed    []string          // commands that a person typed in the machine's shells
}

// Proposal is an environment.json for a person to review.
type Proposal struct {
	Text string   `json:"environmentJson"`
	Why  []string `json:"why"` // origin of each part
}

// ProposeFiles are the files that [Propose] uses.
var ProposeFiles = []string{
	"package.json", "package-lock.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb", "go.mod", "Cargo.toml", "uv.lock", "poetry.lock",
	"requirements.txt", "pyproject.toml", "setup.py", "Gemfile", "composer.json", "mix.exs", "pom.xml", "gradlew", "build.gradle", "configure",
	"configure.ac", "Makefile", "CMakeLists.txt",
}

// installs are the install commands of kinds of projects, by the file that identifies
// the kind. Only the first existing file of a group counts.
var installs = [][]struct{ file, command string }{
	{{"pnpm-lock.yaml", "pnpm install --frozen-lockfile"}, {"yarn.lock", "yarn install --frozen-lockfile"}, {"bun.lock", "bun install --frozen-lockfile"},
		{"bun.lockb", "bun install --frozen-lockfile"}, {"package-lock.json", "npm ci"}, {"package.json", "npm install --no-package-lock"}},
	{{"go.mod", "go mod download"}},
	{{"Cargo.toml", "cargo fetch"}},
	{{"uv.lock", "uv sync"}, {"poetry.lock", "poetry install"},
		{"requirements.txt", "python3 -m venv ~/.venv && ~/.venv/bin/pip install -r requirements.txt"},
		{"pyproject.toml", "python3 -m venv ~/.venv && ~/.venv/bin/pip install -e ."}, {"setup.py", "python3 -m venv ~/.venv && ~/.venv/bin/pip install -e ."}},
	{{"Gemfile", "bundle install"}},
	{{"composer.json", "composer install"}},
	{{"mix.exs", "mix deps.get"}},
	{{"pom.xml", "mvn -q dependency:go-offline"}, {"gradlew", "./gradlew --quiet dependencies"}, {"build.gradle", "gradle --quiet dependencies"}},
}

// native are configure commands of compiled projects, used only if no entry of
// installs matches.
var native = []struct{ file, command string }{
	{"configure", "./configure"}, {"configure.ac", "autoreconf -i && ./configure"}, {"CMakeLists.txt", "cmake -B build"},
}

// Patterns of commands that are worth repeating after a switch of branches: commands
// that install dependencies with a package manager or a script of the project.
var (
	dependencyLine = regexp.MustCompile(`^(npm (ci|install|i)|pnpm (install|i)|yarn( install)?|bun install|go (mod download|build|install)|cargo (fetch|build)|` +
		`uv sync|poetry install|(python3? -m )?pip3? install .*(-r |-e |\.)|bundle install|bundle|composer install|mix deps\.get|mvn|(\./)?gradlew?|\./configure|` +
		`autoreconf|cmake|meson setup|make (deps|dependencies|bootstrap|setup|install-deps)|(bash |sh )?\./?\S*(install|setup|bootstrap)\S*\.sh)( |$)`)
	startLine = regexp.MustCompile(`^(sudo )?(service \S+ start|systemctl start \S+|docker compose up -d.*)$`)
	target    = regexp.MustCompile(`(?m)^(deps|dependencies|bootstrap|setup|install-deps):`)
)

// maxLines is the maximum number of typed commands in a proposal, and maxTyped the
// maximum size of a typed command.
const (
	maxLines = 20
	maxTyped = 500 // bytes
)

// Propose returns an environment for a project. Commands that a person typed
// take precedence over guesses from files.
func Propose(k Known) Proposal {
	var out struct {
		Snapshot  string     `json:"snapshot,omitempty"`
		Install   string     `json:"install,omitempty"`
		Start     string     `json:"start,omitempty"`
		Terminals []Terminal `json:"terminals"`
	}
	out.Terminals = []Terminal{}
	p := Proposal{Why: []string{}}
	if out.Snapshot = k.Snapshot; k.Snapshot != "" {
		p.Why = append(p.Why, "snapshot: the disk as you left it")
	}
	typed, started := selectCommands(k.Typed, dependencyLine), selectCommands(k.Typed, startLine)
	if out.Install = strings.Join(typed, "\n"); len(typed) > 0 {
		p.Why = append(p.Why, "install: what you ran that a switch of branches asks for again")
	} else {
		lines, files := suggested(k.Files)
		if out.Install = strings.Join(lines, "\n"); len(lines) > 0 {
			p.Why = append(p.Why, "install: by "+strings.Join(files, ", "))
		}
	}
	if out.Start = strings.Join(started, "\n"); len(started) > 0 {
		p.Why = append(p.Why, "start: services that you started")
	}
	if command := script(k.Files); command != "" {
		out.Terminals = append(out.Terminals, Terminal{Name: command[strings.LastIndexByte(command, ' ')+1:], Command: command})
		p.Why = append(p.Why, "terminals: the script of package.json")
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(out); err != nil {
		panic(err) // strings always encode
	}
	p.Text = b.String()
	return p
}

// selectCommands returns the matching commands without duplicates, ordered by last use.
func selectCommands(typed []string, fit *regexp.Regexp) []string {
	var out []string
	for _, line := range typed {
		line = strings.TrimSpace(line)
		if len(line) > maxTyped || !fit.MatchString(line) || clean(line, maxTyped) != line {
			continue
		}
		out = append(slices.DeleteFunc(out, func(o string) bool { return o == line }), line)
	}
	return out[max(0, len(out)-maxLines):]
}

// suggested returns the commands for the project's files, and the files that
// suggested them.
func suggested(files map[string][]byte) (lines, by []string) {
	for _, group := range installs {
		for _, one := range group {
			if _, ok := files[one.file]; ok {
				lines, by = append(lines, one.command), append(by, one.file)
				break
			}
		}
	}
	if m := target.FindSubmatch(files["Makefile"]); m != nil {
		lines, by = append(lines, "make "+string(m[1])), append(by, "Makefile")
	}
	if len(lines) > 0 {
		return lines, by
	}
	for _, one := range native {
		if _, ok := files[one.file]; ok {
			return []string{one.command}, []string{one.file}
		}
	}
	return nil, nil
}

// script returns the command of the project's development server, or "" if it
// has none.
func script(files map[string][]byte) string {
	var project struct {
		Scripts map[string]string `json:"scripts"`
	}
	if json.Unmarshal(files["package.json"], &project) != nil {
		return ""
	}
	runner := "npm"
	for file, other := range map[string]string{"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn"} {
		if _, ok := files[file]; ok {
			runner = other
		}
	}
	for _, name := range []string{"dev", "watch"} {
		if project.Scripts[name] != "" {
			return runner + " run " + name
		}
	}
	return ""
}
