package environment

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"aloft/internal/policy"
)

// Limits on a file. They are far above any real file, and keep the cost of a hostile
// file low.
const (
	maxCommand   = 256 << 10 // bytes of install, start or a terminal's command
	maxLine      = 4 << 10   // bytes of a one-line value
	maxTerminals = 256
	maxPorts     = 256
	maxEntries   = 1000
	maxVariable  = 32 << 10 // bytes of a variable's value
	maxChecks    = 20
	maxCheck     = 8 << 10 // bytes of a check's command
)

var (
	line    = text{max: maxLine}
	command = text{what: "a shell command", max: maxCommand, empty: true}

	terminalKeys = []Key{
		{Name: "command", Example: `"npm run dev"`, Meaning: "The command, which the user's shell runs.", shape: text{what: "a shell command", max: maxCommand}},
		{Name: "name", Example: `"web"`, Meaning: "Its name for people and the agent. The default comes from its position in the list.", shape: text{max: maxLine, empty: true}},
		{Name: "description", Example: `"Serves on port 3000"`, Meaning: "What it is for. The agent reads this.", shape: text{max: maxLine, empty: true}},
	}
	portKeys = []Key{
		{Name: "port", Example: `3000`, Meaning: "The port, on loopback or any other address of the machine.", shape: number{1, 65535}},
		{Name: "name", Example: `"web"`, Meaning: "Its name.", shape: text{max: maxLine, empty: true}},
	}
	buildKeys = []Key{
		{Name: "dockerfile", Example: `"Dockerfile"`, Meaning: "The Dockerfile, from the folder of `environment.json`. Do not copy the project into the image: the checkout comes later.", shape: text{what: "a path", max: maxLine}},
		{Name: "dockerfileContents", Example: `"FROM debian:12\nRUN apt-get update"`, Meaning: "The Dockerfile's text, instead.", shape: text{max: maxCommand}},
		{Name: "context", Example: `".."`, Meaning: "The build context, which COPY and ADD can read, relative to the folder of `environment.json`. `.`, `./` and `..` are the root of the repository. Without the key, it is the folder of `environment.json`.", shape: text{what: "a path", max: maxLine, empty: true}},
	}
	mcpKeys = []Key{
		{Name: "serverUrl", Example: `"https://mcp.example.com/sse"`, Meaning: "The URL of the server.", shape: text{what: "a URL", max: maxLine}},
		{Name: "command", Example: `"npx -y @example/mcp"`, Meaning: "The command that starts the server.", shape: text{max: maxLine}},
		{Name: "name", Example: `"tickets"`, Meaning: "Its name.", shape: text{max: maxLine, empty: true}},
		{Name: "toolAllowlist", Example: `["search"]`, Meaning: "Its tools that may be used; all of them without the key.", shape: list{of: line, max: maxEntries},
			closed: &closed{[]any{}, "none of its tools may be used"}},
	}
)

// keys defines the format. The schema, the guide and the parser are derived
// from it.
var keys = []Key{
	{Name: "name", Example: `"web app"`, Meaning: "The name of the environment.", shape: text{max: 255, empty: true}},
	{Name: "user", Example: `"ubuntu"`, Meaning: "The Unix user that `install`, `start`, the terminals and the agent run as. Without it, the image's own (`ubuntu` on the default base).", shape: text{what: "a user name", max: 32, check: checkUser}},
	{Name: "install", Example: `"npm ci"`, Meaning: "Installs what the project needs. It runs in the root of the checkout when the environment is built, may run again over its own result, and may have many lines. Only its changes to the disk are kept: processes that it started are gone.", shape: command},
	{Name: "start", Example: `"sudo service postgresql start"`, Meaning: "Runs each time the machine starts, before the terminals, and must return.", shape: command},
	{Name: "terminals", Example: `[{"name": "web", "command": "npm run dev"}]`, Meaning: "Commands that run while the agent works, each in a tmux session that people and the agent share.", Keys: terminalKeys,
		shape: list{flatten: true, max: maxTerminals, of: either{short: terminalKeys[0].shape, key: "command", odd: true, object: object{"terminals", terminalKeys, []string{"command"}}}}},
	{Name: "ports", Example: `[3000, {"port": 5432, "name": "db"}]`, Meaning: "Ports that people forward.", Keys: portKeys,
		shape: list{max: maxPorts, of: either{short: number{1, 65535}, key: "port", object: object{"ports, each a number or an object", portKeys, []string{"port"}}}}},
	{Name: "build", Example: `{"dockerfile": "Dockerfile", "context": ".."}`, Meaning: "The base is an image that is built from a Dockerfile.", Keys: buildKeys,
		shape: object{"object", buildKeys, []string{"dockerfile", "dockerfileContents"}}},
	{Name: "image", Example: `"debian:12"`, Meaning: "The base is this OCI image.", shape: text{what: "an image reference", max: maxLine, check: checkImage}},
	{Name: "snapshot", Example: `"POPULATED_FROM_SETTINGS"`, Meaning: "The base is a saved disk. It takes precedence over `image` and `build`, which are used only if the snapshot is unknown or has expired. `POPULATED_FROM_SETTINGS` is the one stored for the environment.", shape: text{what: "the id of a snapshot", max: 255, check: checkSnapshot}},
	{Name: "agentCanUpdateSnapshot", Example: `true`, Meaning: "May the agent save a new snapshot? By default yes with a snapshot or the default base. With `build` or `image` never.", shape: boolean{}},
	{Name: "repositoryDependencies", Example: `["github.com/acme/protos"]`, Meaning: "Repositories that the agent may read besides its own. They are not cloned automatically.", shape: list{max: maxEntries, of: text{what: "a repository", max: maxLine, check: checkRepository}}},
	{Name: "disableAllMcpServers", Example: `false`, Meaning: "Blocks the MCP servers of the user and the team.", shape: boolean{}, closed: &closed{true, "all MCP servers are blocked"}},
	{Name: "mcpServerAllowlist", Example: `[{"serverUrl": "https://mcp.example.com/sse"}]`, Meaning: "The MCP servers, and their tools, that may be used.", Keys: mcpKeys,
		shape:  list{max: maxEntries, of: object{"objects", mcpKeys, []string{"serverUrl", "command"}}},
		closed: &closed{[]any{}, "no MCP server may be used"}},
	{Name: "egressMode", Example: `"default_with_network_settings"`, Meaning: "How the machine's network is restricted. It can only narrow what the operator allows.",
		shape:  choice{string(EgressAllowAll), string(EgressParentPlusSettings), string(EgressDefaultWithSettings), string(EgressSettingsOnly)},
		closed: &closed{string(EgressSettingsOnly), "it is " + string(EgressSettingsOnly)}},
	{Name: "egressAllowlist", Example: `["*.npmjs.org"]`, Meaning: "Domains, `*.domains` and address ranges that machines may reach. Without `egressMode` the mode is `default_with_network_settings`.",
		shape:  list{max: maxEntries, of: text{what: "a domain", max: 255, check: checkDomain}},
		closed: &closed{[]any{}, "it counts as empty"}},
	{Name: "chromeExecutablePath", Example: `"/usr/bin/google-chrome"`, Meaning: "The browser of the desktop, and of programs that read `CHROME_PATH` or `PUPPETEER_EXECUTABLE_PATH`.", shape: text{what: "a path", max: maxLine, check: checkAbsolute}},
	{Name: "enable_testing", Example: `true`, Meaning: "Whether the agent is asked to run the project's tests; true by default.", shape: boolean{quoted: true}},
	{Name: "checks", Example: `["make test", "make lint"]`, Meaning: "Shell commands that must pass on the commit that a run pushes. They run in the root of the checkout when the agent has ended its turn.", shape: list{max: maxChecks, of: text{what: "a shell command", max: maxCheck}}},
	{Name: "env", Example: `{"NODE_ENV": "development"}`, Meaning: "Environment variables, in plain text. Secrets do not belong here: see `aloft secret`.", shape: mapping{name: checkVariable, max: maxVariable}},
	{Name: "$schema", Example: `"https://example.com/environment.schema.json"`, Meaning: "For editors; no effect.", shape: text{what: "a URL", max: maxLine, empty: true}},
}

var topLevel = object{what: "object", keys: keys}

var (
	userName   = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_.-]{0,31}|[0-9]{1,9})$`)
	snapshotID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	imageRef   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$`)
	variable   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	repository = regexp.MustCompile(`^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+(:[0-9]+)?(/[A-Za-z0-9._~+-]+){2,}/?$`)
)

func checkUser(s string) *complaint {
	if !userName.MatchString(s) {
		return &complaint{"not a valid user name", `write a name such as "ubuntu"`}
	}
	return nil
}

func checkImage(s string) *complaint {
	if !imageRef.MatchString(s) {
		return &complaint{"not a valid image reference", `write one such as "debian:12" or "registry.example.com/team/image:tag"`}
	}
	return nil
}

func checkSnapshot(s string) *complaint {
	if !snapshotID.MatchString(s) {
		return &complaint{"not a valid snapshot id", "write " + FromSettings + ", or an id as `aloft env builds` shows it"}
	}
	return nil
}

// checkRepository accepts host/path and URLs. Its complaints do not repeat a URL, which
// may contain a password.
func checkRepository(s string) *complaint {
	wrong := &complaint{"not a repository", `write it as "github.com/org/repo" or as an https URL`}
	rest := s
	if scp, ok := strings.CutPrefix(s, "git@"); ok {
		rest = strings.Replace(scp, ":", "/", 1)
	} else if strings.Contains(s, "://") {
		u, err := url.Parse(s)
		if err != nil || !slices.Contains([]string{"https", "http", "ssh", "git"}, u.Scheme) {
			return wrong
		}
		if _, secret := u.User.Password(); secret || u.User != nil && u.Scheme != "ssh" {
			return &complaint{"contains a user name or a password", "remove what is before the @; access comes from the server's settings"}
		}
		if u.RawQuery != "" || u.Fragment != "" || u.Host == "" || strings.Trim(u.Path, "/") == "" {
			return wrong
		}
		return nil
	}
	if !repository.MatchString(rest) || strings.Contains(rest, "/../") || strings.Contains(rest, "/./") {
		return wrong
	}
	return nil
}

func checkDomain(s string) *complaint {
	if _, err := (policy.Network{Mode: policy.List, Allow: []string{s}}).Compile(); err == nil {
		return nil
	}
	instead := `write a domain, as in "packages.npmjs.org" or "*.npmjs.org"`
	if u, err := url.Parse(s); err == nil && u.Hostname() != "" {
		instead = `write the domain alone: "` + u.Hostname() + `"`
	}
	return &complaint{"not a domain or an address range", instead}
}

func checkAbsolute(s string) *complaint {
	if !strings.HasPrefix(s, "/") {
		return &complaint{"this path does not begin at the root", `write it whole, as in "/usr/bin/google-chrome"`}
	}
	return nil
}

func checkVariable(s string) *complaint {
	switch upper := strings.ToUpper(s); {
	case !variable.MatchString(s) || len(s) > 255:
		return &complaint{"not a valid variable name", "use letters, digits and _, and no digit first"}
	case strings.HasPrefix(upper, "CURSOR_"), strings.HasPrefix(upper, "ALOFT_"), strings.HasPrefix(upper, "EXEC_DAEMON_"):
		return &complaint{"names that begin so are the machine's own", "choose another name"}
	}
	return nil
}
