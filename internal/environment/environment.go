// Package environment defines environment.json, the description of a machine: its
// format, validation and meaning.
//
// Parsing is lenient, because people write the file by hand in repositories that Aloft
// does not own. An unknown key causes a warning. An invalid key causes an error and is
// ignored; the other keys count. An invalid key that restricts something, such as
// mcpServerAllowlist, allows nothing. So [Parse] always returns a usable environment,
// and its findings say which parts of the file have no effect. Comments, trailing commas
// and a byte order mark are accepted.
//
// The JSON schema, the table of keys in the guide, and the parser are all derived from
// the table in keys.go. The package does no I/O.
package environment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
)

// MaxSize is the maximum size of a file in bytes. The file is untrusted input
// from a repository.
const MaxSize = 1 << 20

// Files are the paths of an environment file in a repository. Only the first
// existing one is read.
var Files = []string{".aloft/environment.json", ".cursor/environment.json"}

// FromSettings is the value of snapshot that selects the snapshot stored for the
// environment.
const FromSettings = "POPULATED_FROM_SETTINGS"

// DefaultUser is the user of the agent's processes in a machine of the default base
// image.
const DefaultUser = "ubuntu"

// Environment is a parsed file. The zero value is the environment of a
// repository without a file, except for EnableTesting.
type Environment struct {
	Name      string     `json:"name,omitempty"`
	User      string     `json:"user,omitempty"`    // "" means the image's default
	Install   string     `json:"install,omitempty"` // shell script, possibly of several lines
	Start     string     `json:"start,omitempty"`   // shell script, possibly of several lines
	Terminals []Terminal `json:"terminals,omitempty"`
	Ports     []Port     `json:"ports,omitempty"`

	Build    *Build `json:"build,omitempty"`
	Image    string `json:"image,omitempty"`
	Snapshot string `json:"snapshot,omitempty"`
	// AgentCanUpdateSnapshot is nil if the file does not set it; see
	// [Environment.MaySave].
	AgentCanUpdateSnapshot *bool `json:"agentCanUpdateSnapshot,omitempty"`

	RepositoryDependencies []string          `json:"repositoryDependencies,omitempty"`
	DisableAllMCPServers   bool              `json:"disableAllMcpServers,omitempty"`
	MCPServerAllowlist     []MCPServer       `json:"mcpServerAllowlist,omitzero"`
	EgressMode             EgressMode        `json:"egressMode,omitempty"`
	EgressAllowlist        []string          `json:"egressAllowlist,omitempty"`
	ChromeExecutablePath   string            `json:"chromeExecutablePath,omitempty"`
	EnableTesting          *bool             `json:"enable_testing,omitempty"` // nil means true
	Env                    map[string]string `json:"env,omitempty"`
	Checks                 []string          `json:"checks,omitempty"` // shell commands
}

// Terminal is a command that runs while the agent works, in a tmux session
// shared by people and the agent. Its name is one line and unique in the
// environment.
type Terminal struct {
	Name        string `json:"name"`
	Command     string `json:"command"`
	Description string `json:"description,omitempty"`
}

// Port is a forwarded port, 1–65535.
type Port struct {
	Port int    `json:"port"`
	Name string `json:"name,omitempty"`
}

// Build describes an image to build from a Dockerfile. Exactly one of
// Dockerfile and DockerfileContents is set. Paths are relative to the root of
// the repository and stay inside of it; "." is the root.
type Build struct {
	Dockerfile         string `json:"dockerfile,omitempty"`
	DockerfileContents string `json:"dockerfileContents,omitempty"`
	Context            string `json:"context"`
}

// MCPServer is an allowed MCP server. One of ServerURL and Command is set. A
// nil ToolAllowlist allows every tool, an empty one none.
type MCPServer struct {
	Name          string   `json:"name,omitempty"`
	ServerURL     string   `json:"serverUrl,omitempty"`
	Command       string   `json:"command,omitempty"`
	ToolAllowlist []string `json:"toolAllowlist,omitzero"`
}

// EgressMode determines how the file's domains are combined with the domains of the
// settings.
type EgressMode string

// Egress modes. The zero value leaves the choice to the settings.
const (
	EgressAllowAll            EgressMode = "allow_all"
	EgressParentPlusSettings  EgressMode = "parent_plus_network_settings"
	EgressDefaultWithSettings EgressMode = "default_with_network_settings"
	EgressSettingsOnly        EgressMode = "network_settings_only"
)

// Base is the kind of base on which an environment's machines are built.
type Base string

// The kinds of bases, in order of precedence.
const (
	BaseSnapshot   Base = "snapshot"
	BaseDockerfile Base = "dockerfile"
	BaseImage      Base = "image"
	BaseDefault    Base = "default"
)

// Base returns the base of the environment's machines.
func (e Environment) Base() Base {
	switch {
	case e.Snapshot != "":
		return BaseSnapshot
	case e.Build != nil:
		return BaseDockerfile
	case e.Image != "":
		return BaseImage
	}
	return BaseDefault
}

// WithoutSnapshot returns the environment without its snapshot, for use if the snapshot
// is unknown or has expired.
func (e Environment) WithoutSnapshot() Environment {
	e.Snapshot = ""
	return e
}

// MaySave reports whether the agent may save a new snapshot. With a snapshot or the
// default base, the file decides, and the default is yes. With any other base the answer
// is always no.
func (e Environment) MaySave() bool {
	switch e.Base() {
	case BaseSnapshot, BaseDefault:
		return e.AgentCanUpdateSnapshot == nil || *e.AgentCanUpdateSnapshot
	}
	return false
}

// BrowserVariables are the environment variables that name the browser: Aloft's
// desktop reads the first, Lighthouse and other users of chrome-launcher the
// second, Puppeteer the third.
var BrowserVariables = []string{"CHROME_EXECUTABLE_PATH", "CHROME_PATH", "PUPPETEER_EXECUTABLE_PATH"}

// Variables returns the environment variables of the machine's processes: those of the
// file and, unless the file sets them, [BrowserVariables].
func (e Environment) Variables() map[string]string {
	all := map[string]string{}
	if e.ChromeExecutablePath != "" {
		for _, name := range BrowserVariables {
			all[name] = e.ChromeExecutablePath
		}
	}
	maps.Copy(all, e.Env)
	return all
}

// Testing reports whether the agent should test its work.
func (e Environment) Testing() bool { return e.EnableTesting == nil || *e.EnableTesting }

// Digest identifies the content of the environment, regardless of comments,
// order and white space: 64 hex digits.
func (e Environment) Digest() string { return digest(e) }

// BuildDigest identifies everything that determines the result of a build:
// base, user, install, variables and network. Terminals and ports, for example,
// do not change it.
func (e Environment) BuildDigest() string {
	return digest(Environment{User: e.User, Install: e.Install, Build: e.Build, Image: e.Image, Snapshot: e.Snapshot, Env: e.Env, EgressMode: e.EgressMode, EgressAllowlist: e.EgressAllowlist})
}

func digest(e Environment) string {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings, numbers and booleans always encode
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Parse parses the file called name, a path in the repository such as one of
// [Files]. The result is always safe to use; the findings are in the order of
// the file.
func Parse(name string, data []byte) (Environment, Findings) {
	d := &decoder{file: name}
	var e Environment
	n, ok := d.open(data)
	if !ok {
		return e, d.findings
	}
	value, ok := topLevel.read(d, "", n)
	if !ok {
		return e, d.findings
	}
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &e)
	}
	if err != nil {
		panic(fmt.Sprintf("environment: the table of keys and the type differ: %v", err))
	}
	d.validate(&e, path.Dir(name))
	return e, d.sorted()
}
