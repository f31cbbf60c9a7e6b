package lsp

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// language is a group of file types, with its linters.
type language struct {
	name  string
	ids   map[string]string // the protocol's language ids, by file extension
	kinds []kind
}

// kind is a group of linters that check the same things, in order of preference.
type kind struct {
	linters []*linter
	// asked reports whether a project is configured for these linters; nil means that every
	// project is. If asked returns false, a missing linter is not reported, and linters run
	// only if always is set.
	asked  func(root string) bool
	always bool
}

// linter is a program that finds problems in files.
type linter struct {
	name     string
	language *language
	command  string
	args     []string
	env      []string
	install  string   // command to install it
	roots    []string // files that mark a project's root
	handles  []string // file extensions; by default all of the language

	// For a program that exits after linting: run returns the executions to make, each with
	// a function that parses the output. It is nil for a language server.
	run func(root string, files []string) []run

	// Only for a language server:
	ask      func(context.Context, *server, string) ([]Diagnostic, error) // nil for the protocol's own request
	settings func(root string) map[string]any
	initial  map[string]any
	answers  map[string]any // responses to the server's own requests
	rereads  bool           // must be told to re-read files when other files have changed
	logs     bool           // reports a file that it cannot check only as a logged error
}

func (l *linter) options(string) any {
	if l.initial == nil {
		return struct{}{}
	}
	return l.initial
}

// serves reports whether the linter is a language server.
func (l *linter) serves() bool { return l.run == nil }

// takes reports whether the linter can check a file.
func (l *linter) takes(path string) bool {
	if len(l.handles) == 0 {
		return true
	}
	for _, e := range l.handles {
		if filepath.Ext(path) == e {
			return true
		}
	}
	return false
}

const npmInstall = "npm install --global "

// languages are the supported languages, in the order in which a report lists
// them.
var languages = func() []*language {
	all := []*language{
		{
			name: "Go", ids: map[string]string{".go": "go"},
			kinds: []kind{{linters: []*linter{
				{name: "gopls", command: "gopls", args: []string{"serve"}, env: []string{"GOMEMLIMIT=1GiB"}, roots: []string{"go.work", "go.mod"},
					install: "go install golang.org/x/tools/gopls@latest", initial: map[string]any{"pullDiagnostics": true}},
				{name: "go vet", command: "go", roots: []string{"go.mod"}, install: "https://go.dev/dl", run: runGoVet},
			}}},
		},
		{
			name: "TypeScript and JavaScript",
			ids: map[string]string{".ts": "typescript", ".mts": "typescript", ".cts": "typescript", ".tsx": "typescriptreact",
				".js": "javascript", ".mjs": "javascript", ".cjs": "javascript", ".jsx": "javascriptreact"},
			kinds: []kind{
				{linters: []*linter{
					{name: "typescript-language-server", command: "typescript-language-server", args: []string{"--stdio"}, env: nodeMemory,
						roots: []string{"tsconfig.json", "jsconfig.json", "package.json"}, install: npmInstall + "typescript typescript-language-server", ask: askTypescript},
					{name: "node --check", command: "node", handles: []string{".js", ".mjs", ".cjs"}, install: "apt-get install nodejs", run: runNodeCheck},
				}},
				{asked: hasESLint, linters: []*linter{
					{name: "vscode-eslint-language-server", command: "vscode-eslint-language-server", args: []string{"--stdio"}, env: nodeMemory,
						roots: eslintConfigs, install: npmInstall + "vscode-langservers-extracted", settings: eslintSettings, logs: true,
						answers: map[string]any{"eslint/confirmESLintExecution": 4, "eslint/noLibrary": nil, "eslint/noConfig": nil, "eslint/openDoc": nil, "eslint/probeFailed": nil}},
					{name: "eslint", command: "eslint", roots: eslintConfigs, install: "npm install --save-dev eslint", run: runESLint},
				}},
			},
		},
		{
			name: "Python", ids: map[string]string{".py": "python", ".pyi": "python"},
			kinds: []kind{
				{linters: []*linter{
					{name: "pyright", command: "pyright-langserver", args: []string{"--stdio"}, env: nodeMemory,
						roots: []string{"pyrightconfig.json", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"}, install: npmInstall + "pyright", settings: pyrightSettings},
					{name: "python3", command: "python3", install: "apt-get install python3", run: runPython},
				}},
				{always: true, asked: hasRuff, linters: []*linter{
					{name: "ruff", command: "ruff", args: []string{"server"}, roots: []string{"ruff.toml", ".ruff.toml", "pyproject.toml"}, install: "pip install ruff"},
					{name: "ruff check", command: "ruff", roots: []string{"ruff.toml", ".ruff.toml", "pyproject.toml"}, install: "pip install ruff", run: runRuff},
				}},
			},
		},
		{
			name: "shell", ids: map[string]string{".sh": "shellscript", ".bash": "shellscript"},
			kinds: []kind{{linters: []*linter{
				{name: "shellcheck", command: "shellcheck", install: "apt-get install shellcheck", run: runShellcheck},
				{name: "bash -n", command: "bash", install: "apt-get install bash", run: runBash},
			}}},
		},
		{
			name: "C and C++",
			ids:  map[string]string{".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp", ".hh": "cpp", ".hpp": "cpp", ".hxx": "cpp"},
			kinds: []kind{{linters: []*linter{
				{name: "clangd", command: "clangd", args: []string{"--background-index=false", "-j=2"}, roots: []string{"compile_commands.json", "compile_flags.txt", ".clangd"}, install: "apt-get install clangd", rereads: true},
			}}},
		},
	}
	for _, lang := range all {
		for _, k := range lang.kinds {
			for _, l := range k.linters {
				l.language = lang
			}
		}
	}
	return all
}()

// nodeMemory limits the memory of a server that runs in Node.js, in MiB.
var nodeMemory = []string{"NODE_OPTIONS=--max-old-space-size=1536"}

// languageOf returns the language of a file; nil if it is not supported.
func languageOf(path string) *language {
	for _, lang := range languages {
		if lang.ids[filepath.Ext(path)] != "" {
			return lang
		}
	}
	return nil
}

var eslintConfigs = []string{
	"eslint.config.js", "eslint.config.mjs", "eslint.config.cjs", "eslint.config.ts",
	".eslintrc.js", ".eslintrc.cjs", ".eslintrc.json", ".eslintrc.yaml", ".eslintrc.yml", ".eslintrc",
}

func hasESLint(root string) bool {
	return hasAny(root, eslintConfigs) || mentions(filepath.Join(root, "package.json"), `"eslintConfig"`)
}

func hasRuff(root string) bool {
	return hasAny(root, []string{"ruff.toml", ".ruff.toml"}) || mentions(filepath.Join(root, "pyproject.toml"), "[tool.ruff")
}

func hasAny(dir string, names []string) bool {
	for _, n := range names {
		if _, err := os.Stat(filepath.Join(dir, n)); err == nil {
			return true
		}
	}
	return false
}

func mentions(path, what string) bool {
	text, ok := source(path)
	return ok && strings.Contains(text, what)
}

// eslintSettings are the settings that the server of VS Code's extension
// requires.
func eslintSettings(root string) map[string]any {
	flat := hasAny(root, eslintConfigs[:4])
	return map[string]any{
		"validate": "on", "run": "onType", "quiet": false, "onIgnoredFiles": "off", "packageManager": nil, "nodePath": nil, "options": map[string]any{},
		"useESLintClass": true, "experimental": map[string]any{"useFlatConfig": flat}, "useFlatConfig": flat, "problems": map[string]any{"shortenToSingleLine": false},
		"rulesCustomizations": []any{}, "codeActionOnSave": map[string]any{"mode": "all"}, "format": false,
		"codeAction":       map[string]any{"disableRuleComment": map[string]any{"enable": false}, "showDocumentation": map[string]any{"enable": false}},
		"workingDirectory": map[string]any{"mode": "auto"}, "workspaceFolder": map[string]any{"uri": uri(root), "name": filepath.Base(root)},
	}
}

func pyrightSettings(string) map[string]any {
	return map[string]any{"python": map[string]any{"analysis": map[string]any{"diagnosticMode": "openFilesOnly", "autoSearchPaths": true, "useLibraryCodeForTypes": true}}}
}

// rootOf returns the nearest folder above a file, within top, that contains one
// of the marks; top if none does.
func rootOf(path, top string, marks []string) string {
	stop := filepath.Dir(path)
	if inside(path, top) {
		stop = top
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if hasAny(dir, marks) {
			return dir
		}
		if dir == stop || dir == "/" {
			return stop
		}
	}
}

// inside reports whether a path is a folder or is below it.
func inside(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
