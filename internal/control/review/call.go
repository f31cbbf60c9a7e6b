package review

import (
	"encoding/json"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/conversation"
	"aloft/internal/policy/permit"
	"aloft/internal/policy/sandbox"
)

// described describes a call for the run modes and for people.
type described struct {
	permit.Call
	subject string
	reason  string
	folder  string // working directory of a shell command, if given
	grant   string // the grant that is recorded if a person allows similar calls
	change  string // content of a changed file, or text of a pull request
}

// maxReviewed is the maximum size in bytes of a call that a person can review.
// Longer calls cannot be approved, because truncating them could hide the
// important part.
const maxReviewed = 256 << 10

// reviewable reports whether a person can be shown the whole call.
func (d described) reviewable() bool { return len(d.subject)+len(d.change) <= maxReviewed }

// arguments holds the arguments of all tools that describe handles.
type arguments struct {
	Command             string          `json:"command"`
	Description         string          `json:"description"`
	RequiredPermissions []string        `json:"required_permissions"`
	Path                string          `json:"path"`
	TargetNotebook      string          `json:"target_notebook"`
	URL                 string          `json:"url"`
	SearchTerm          string          `json:"search_term"`
	FilePath            string          `json:"file_path"`
	References          []string        `json:"reference_image_paths"`
	Explanation         string          `json:"explanation"`
	Server              string          `json:"server"`
	ToolName            string          `json:"tool_name"`
	Arguments           json.RawMessage `json:"arguments"`
	URI                 string          `json:"uri"`
	DownloadPath        string          `json:"downloadPath"`
	UpdateScript        string          `json:"update_script"`
	Action              string          `json:"action"`
	Title               string          `json:"title"`
	Body                string          `json:"body"`
	BaseBranch          string          `json:"base_branch"`
	RepoURL             string          `json:"repo_url"`
	ThreadID            string          `json:"thread_id"`
	Draft               bool            `json:"draft"`
	WorkingDirectory    string          `json:"working_directory"`
	PID                 any             `json:"pid"`
	Contents            string          `json:"contents"`
	OldString           string          `json:"old_string"`
	NewString           string          `json:"new_string"`
	Actions             []deed          `json:"actions"`
}

// A deed is one action on the desktop: its name and parameters.
type deed map[string]json.RawMessage

// onlyLooks reports whether the actions only observe the desktop.
func onlyLooks(all []deed) bool {
	for _, d := range all {
		for name := range d {
			switch name {
			case "screenshot", "wait", "cursor_position", "cursorPosition":
			default:
				return false
			}
		}
	}
	return len(all) > 0
}

// describeDeeds formats actions for people.
func describeDeeds(all []deed) string {
	var b strings.Builder
	for _, d := range all {
		for _, name := range slices.Sorted(maps.Keys(d)) {
			if b.Len() > 0 {
				b.WriteString("; ")
			}
			b.WriteString(name)
			if with := string(d[name]); with != "{}" {
				b.WriteString(" " + with)
			}
		}
	}
	return b.String()
}

// outside is the permission value of a command that asks to run without the
// sandbox.
const outside = "all"

// describe describes a call. It assumes that unknown tools affect only the
// workspace and the conversation.
func describe(c conversation.ToolCall) described {
	var a arguments
	if json.Unmarshal(c.Args, &a) != nil {
		a = arguments{} // the tool rejects malformed arguments; here they count as empty
	}
	switch c.Name {
	case "Shell":
		return described{
			Call:    permit.Call{Kind: permit.Shell, Line: a.Command, Unsandboxed: slices.Contains(a.RequiredPermissions, outside)},
			subject: a.Command, reason: a.Description, folder: a.WorkingDirectory, grant: a.Command,
		}
	case "WriteShellStdin": // the effect of input to a running program is unknown
		return described{Call: permit.Call{Kind: permit.Shell, Unsandboxed: true}, subject: "input of a running command: " + string(c.Args), grant: "*"}
	case "SetupVmEnvironment": // the tool affects machines of future agents in every run mode
		return described{Call: permit.Call{Kind: permit.Shell, Unsandboxed: true}, subject: "install script for later machines: " + a.UpdateScript, grant: a.UpdateScript}
	case "PrManagement": // the pull request is visible outside; the project decides to whom
		if agent.PullReads(a.Action) {
			break
		}
		return described{Call: permit.Call{Kind: permit.Shell, Unsandboxed: true}, subject: a.pullRequest(), change: a.Body, grant: "*"}
	case "ReadLints": // a linter's configuration may contain the project's code
		return described{Call: permit.Call{Kind: permit.Shell, Unsandboxed: true}, subject: "run the project's linters", grant: "*"}
	case "Fetch", "WebFetch":
		d := described{Call: permit.Call{Kind: permit.Fetch}, subject: a.URL}
		if u, err := url.Parse(a.URL); err == nil {
			d.grant = strings.ToLower(u.Host)
		}
		return d
	case "WebSearch": // the query is sent to the search provider
		return described{Call: permit.Call{Kind: permit.Fetch}, subject: "search the web: " + a.SearchTerm, reason: a.Explanation, grant: "*"}
	case "GenerateImage": // the description and the reference images are sent to the model's provider
		d := described{Call: permit.Call{Kind: permit.Fetch}, grant: "*"}
		if to, guarded := guard(a.FilePath); guarded && a.FilePath != "" {
			d = to
		}
		d.subject, d.change = strings.TrimSpace("generate an image "+a.FilePath), a.Description
		if len(a.References) > 0 {
			d.subject += " from " + strings.Join(a.References, ", ")
		}
		return d
	case "ComputerUse":
		if onlyLooks(a.Actions) {
			break
		}
		return described{Call: permit.Call{Kind: permit.Desktop}, subject: "on the desktop: " + describeDeeds(a.Actions), grant: "*"}
	case "Write", "StrReplace", "Delete", "EditNotebook":
		file := a.Path
		if file == "" {
			file = a.TargetNotebook
		}
		if d, guarded := guard(file); guarded && file != "" {
			d.subject, d.change = strings.ToLower(c.Name)+" "+file, a.change(c.Name)
			return d
		}
	}
	switch c.Name {
	case callMCP:
		if a.ToolName != "" { // without a name, the call only lists tools
			return describeMCP(a.Server, a.ToolName, string(a.Arguments))
		}
	case fetchMCP:
		if d, guarded := guard(a.DownloadPath); guarded && a.DownloadPath != "" {
			d.subject, d.change = "write what "+a.Server+" gives to "+a.DownloadPath, a.URI
			return d
		}
		return describeMCP(a.Server, fetchMCP, a.URI)
	}
	return described{Call: permit.Call{Kind: permit.Other}}
}

// fileGuard defines which files a file tool may change without a review.
var fileGuard = sandbox.Guard{Workspaces: []string{agent.Workspace}, Free: append([]string{agent.Artifacts}, sandbox.TempFolders...)}

// guard describes a change to a file that needs a review. Relative paths are
// relative to the workspace.
func guard(file string) (described, bool) {
	if isRules(file) {
		return described{Call: permit.Call{Kind: permit.Config}}, true
	}
	if !path.IsAbs(file) {
		file = path.Join(agent.Workspace, file)
	}
	why := fileGuard.Judge(file)
	return described{Call: permit.Call{Kind: permit.Protected, Rule: why}}, why != ""
}

// Protected reports whether a change to the file needs a review in every run
// mode but run-everything.
func Protected(file string) bool {
	_, guarded := guard(file)
	return guarded
}

// change returns the content that a file tool would write: the whole file, or
// the removed and added lines.
func (a arguments) change(tool string) string {
	if tool == "StrReplace" || tool == "EditNotebook" {
		return marked("- ", a.OldString) + marked("+ ", a.NewString)
	}
	return a.Contents
}

// pullRequest describes a call of PrManagement, including the pull request's
// text.
func (a arguments) pullRequest() string {
	words := []string{"pull request: " + a.Title}
	switch a.Action {
	case "PR_ACTION_UPDATE":
		words[0] = "update the pull request: " + a.Title
	case "PR_ACTION_COMMENT":
		words[0] = "comment on the pull request"
	case "PR_ACTION_REPLY":
		words[0] = "reply to the review thread " + a.ThreadID
	case "PR_ACTION_RESOLVE":
		words[0] = "resolve the review thread " + a.ThreadID
	}
	if a.BaseBranch != "" {
		words = append(words, "into "+a.BaseBranch)
	}
	if a.RepoURL != "" {
		words = append(words, "at "+a.RepoURL)
	}
	if a.Draft {
		words = append(words, "as a draft")
	}
	return strings.Join(words, "\n")
}

// marked prefixes each line with a mark.
func marked(mark, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(mark + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}

// The tools with which a model accesses MCP servers. For rules, reading a
// resource counts as the tool fetchMCP of the server.
const (
	callMCP  = "CallMcpTool"
	fetchMCP = "FetchMcpResource"
)

// describeMCP describes a call of a server's tool with its arguments. If a rule
// would interpret the name as a pattern, the call cannot be granted
// permanently.
func describeMCP(server, tool, arguments string) described {
	d := described{Call: permit.Call{Kind: permit.MCP, Server: server, Tool: tool}, subject: server + ":" + tool}
	if arguments != "" && arguments != "null" {
		d.subject += " " + arguments
	}
	if server != "" && !strings.ContainsAny(server+tool, "*:") {
		d.grant = server + ":" + tool
	}
	return d
}

// grantedMCP splits the entry in an approval of an MCP call into server and
// tool.
func grantedMCP(q agent.Approval) (server, tool string, ok bool) {
	if q.Tool != callMCP && q.Tool != fetchMCP || len(q.Entries) != 1 {
		return "", "", false
	}
	return strings.Cut(q.Entries[0], ":")
}

// isRules reports whether a path leads to a file with rules for the agent. It
// ignores case and dot segments, because some file systems do.
func isRules(file string) bool {
	file = strings.ToLower(path.Clean("/" + strings.ReplaceAll(file, `\`, "/")))
	for _, folder := range []string{"/.aloft/", "/.cursor/", "/.claude/"} {
		_, name, found := cutLast(file, folder)
		if found && (strings.HasPrefix(name, "plugins/") || name == "permissions.json" || name == "sandbox.json" || name == "hooks.json" || name == "mcp.json" || folder == "/.claude/" && strings.HasPrefix(name, "settings")) {
			return true
		}
	}
	return strings.HasSuffix(file, "/.cursorignore")
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// entries returns entries that would allow the call. For a shell command, the
// entries are the parts of the command that no entry allows yet, verbatim.
func (d described) entries(p permit.Permissions) []string {
	if d.Kind != permit.Shell || d.Line == "" {
		if d.grant == "" {
			return nil
		}
		return []string{d.grant}
	}
	if d.Unsandboxed {
		return []string{d.grant}
	}
	var out []string
	for _, c := range p.JudgeLine(d.Line).Commands {
		more := append(slices.Clone(p.TerminalAllowlist), c.Text)
		probe := permit.Permissions{TerminalAllowlist: more}
		if !c.Allowed && !slices.Contains(out, c.Text) && probe.JudgeLine(c.Text).Allowed {
			out = append(out, c.Text)
		}
	}
	all := permit.Permissions{TerminalAllowlist: append(slices.Clone(p.TerminalAllowlist), out...)}
	if !all.JudgeLine(d.Line).Allowed { // a line that its parts do not allow needs a new approval each time
		return nil
	}
	return out
}
