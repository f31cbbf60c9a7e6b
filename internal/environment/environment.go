// Package environment is what a machine is made of, as a person writes it in
// environment.json: the file's format, what is wrong with a file, and what a
// file means.
//
// Reading is lenient, because the format is written by hand in repositories that
// Aloft does not own. A key that is not known is a warning. A key that is wrong
// is an error and is left out; the others count. One that restricts, such as
// mcpServerAllowlist, then allows nothing. So [Parse] always returns an
// environment that a machine can be made of, and its findings say what in the
// file had no effect. Comments, trailing commas and a byte order mark are fine.
//
// One table, in keys.go, is where the JSON schema, the table of keys in the
// guide, and the reading of the file come from. The package does no I/O.
package environment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
)

// MaxSize is how many bytes a file may have: an environment is words for people,
// and this is read on behalf of whoever wrote the repository.
const MaxSize = 1 << 20

// Files are where a repository keeps its environment. The first that exists
// counts, and the others are not read.
var Files = []string{".aloft/environment.json", ".cursor/environment.json"}

// FromSettings is the snapshot that stands for the one stored for the
// environment.
const FromSettings = "POPULATED_FROM_SETTINGS"

// DefaultUser is who works in a machine of the default base image.
const DefaultUser = "ubuntu"

// Environment is a file that was read. The zero value is the environment of a
// repository without a file, but for EnableTesting.
type Environment struct {
	Name      string     `json:"name,omitempty"`
	User      string     `json:"user,omitempty"`    // "" for the image's own
	Install   string     `json:"install,omitempty"` // shell; may have many lines
	Start     string     `json:"start,omitempty"`   // shell; may have many lines
	Terminals []Terminal `json:"terminals,omitempty"`
	Ports     []Port     `json:"ports,omitempty"`

	Build    *Build `json:"build,omitempty"`
	Image    string `json:"image,omitempty"`
	Snapshot string `json:"snapshot,omitempty"`
	// AgentCanUpdateSnapshot is nil where the file does not say; [Environment.MaySave] decides.
	AgentCanUpdateSnapshot *bool `json:"agentCanUpdateSnapshot,omitempty"`

	RepositoryDependencies []string          `json:"repositoryDependencies,omitempty"`
	DisableAllMCPServers   bool              `json:"disableAllMcpServers,omitempty"`
	MCPServerAllowlist     []MCPServer       `json:"mcpServerAllowlist,omitzero"`
	EgressMode             EgressMode        `json:"egressMode,omitempty"`
	EgressAllowlist        []string          `json:"egressAllowlist,omitempty"`
	ChromeExecutablePath   string            `json:"chromeExecutablePath,omitempty"`
	EnableTesting          *bool             `json:"enable_testing,omitempty"` // nil is true
	Env                    map[string]string `json:"env,omitempty"`
}

// Terminal is a command that runs while the agent works, in a tmux session that
// people and the agent share. Its name is unique in the environment and has one line.
type Terminal struct {
	Name        string `json:"name"`
	Command     string `json:"command"`
	Description string `json:"description,omitempty"`
}

// Port is one that is forwarded. Port is 1–65535.
type Port struct {
	Port int    `json:"port"`
	Name string `json:"name,omitempty"`
}

// Build is an image to make from a Dockerfile. Exactly one of Dockerfile and
// DockerfileContents is set. Paths are relative to the root of the repository
// and do not leave it; "." is the root.
type Build struct {
	Dockerfile         string `json:"dockerfile,omitempty"`
	DockerfileContents string `json:"dockerfileContents,omitempty"`
	Context            string `json:"context"`
}

// MCPServer is one that may be used. One of ServerURL and Command is set. No
// ToolAllowlist is every tool, and an empty one none.
type MCPServer struct {
	Name          string   `json:"name,omitempty"`
	ServerURL     string   `json:"serverUrl,omitempty"`
	Command       string   `json:"command,omitempty"`
	ToolAllowlist []string `json:"toolAllowlist,omitzero"`
}

// EgressMode says how the file's domains and those of the settings go together.
type EgressMode string

// The modes. The zero value leaves it to the settings.
const (
	EgressAllowAll            EgressMode = "allow_all"
	EgressParentPlusSettings  EgressMode = "parent_plus_network_settings"
	EgressDefaultWithSettings EgressMode = "default_with_network_settings"
	EgressSettingsOnly        EgressMode = "network_settings_only"
)

// Base is what an environment starts from.
type Base string

// The bases, in the order in which they win.
const (
	BaseSnapshot   Base = "snapshot"
	BaseDockerfile Base = "dockerfile"
	BaseImage      Base = "image"
	BaseDefault    Base = "default"
)

// Base says what the environment starts from.
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

// WithoutSnapshot is the environment to fall back to when its snapshot is
// unknown or has expired.
func (e Environment) WithoutSnapshot() Environment {
	e.Snapshot = ""
	return e
}

// MaySave reports whether the agent may save a new snapshot: as the file says
// and by default with a snapshot or the default base, never with another.
func (e Environment) MaySave() bool {
	switch e.Base() {
	case BaseSnapshot, BaseDefault:
		return e.AgentCanUpdateSnapshot == nil || *e.AgentCanUpdateSnapshot
	}
	return false
}

// Testing reports whether the agent is asked to test its work.
func (e Environment) Testing() bool { return e.EnableTesting == nil || *e.EnableTesting }

// Digest identifies what the environment says, whatever the file's comments,
// order and white space: 64 hexadecimal digits.
func (e Environment) Digest() string { return digest(e) }

// BuildDigest identifies what decides what a build makes: base, user, install,
// variables and what they may reach. Terminals and ports, for example, can
// change without one.
func (e Environment) BuildDigest() string {
	return digest(Environment{User: e.User, Install: e.Install, Build: e.Build, Image: e.Image, Snapshot: e.Snapshot, Env: e.Env, EgressMode: e.EgressMode, EgressAllowlist: e.EgressAllowlist})
}

func digest(e Environment) string {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings, numbers and booleans have a JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Parse reads the file called name, a path in the repository such as one of
// [Files], from its bytes. What it returns is safe to use whatever the findings
// say; they are in the order of the file.
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
	d.settle(&e, path.Dir(name))
	return e, d.sorted()
}
