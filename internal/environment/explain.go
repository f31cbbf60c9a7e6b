package environment

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Line is one part of an explanation.
type Line struct {
	What string `json:"what"`
	Says string `json:"says"`
}

// Explain says what an environment means, in the order in which its parts take effect.
// Each text is sanitized and on one line.
func (e Environment) Explain() []Line {
	var lines []Line
	add := func(what, format string, args ...any) {
		lines = append(lines, Line{what, clean(strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "), 200)})
	}
	if e.Name != "" {
		add("name", "%s", e.Name)
	}
	add("base", "%s", e.explainBase())
	switch {
	case e.User != "":
		add("user", "%s", e.User)
	case e.Base() == BaseDefault:
		add("user", "%s", DefaultUser)
	default:
		add("user", "the one of the base")
	}
	if len(e.Env) > 0 {
		add("variables", "%s", strings.Join(slices.Sorted(maps.Keys(e.Env)), ", "))
	}
	if e.Install != "" {
		add("install", "%s", e.Install)
	} else {
		add("install", "nothing")
	}
	if e.Start != "" {
		add("start", "%s", e.Start)
	}
	for _, t := range e.Terminals {
		add("terminal", "%s: %s", t.Name, t.Command)
	}
	for _, p := range e.Ports {
		add("port", "%d %s", p.Port, p.Name)
	}
	if e.EgressMode != "" || len(e.EgressAllowlist) > 0 {
		add("network", "%s %s", e.EgressMode, strings.Join(e.EgressAllowlist, ", "))
	}
	if len(e.RepositoryDependencies) > 0 {
		add("may read", "%s", strings.Join(e.RepositoryDependencies, ", "))
	}
	switch {
	case e.DisableAllMCPServers:
		add("MCP servers", "none")
	case e.MCPServerAllowlist != nil:
		add("MCP servers", "at most the %d of the allowlist", len(e.MCPServerAllowlist))
	}
	if e.Base() == BaseSnapshot || !e.MaySave() {
		add("agent may save the disk", "%s", map[bool]string{true: "yes", false: "no"}[e.MaySave()])
	}
	if e.ChromeExecutablePath != "" {
		add("browser", "%s", e.ChromeExecutablePath)
	}
	if !e.Testing() {
		add("testing", "not asked for")
	}
	return lines
}

func (e Environment) explainBase() string {
	switch e.Base() {
	case BaseSnapshot:
		words := "snapshot " + e.Snapshot
		if e.Snapshot == FromSettings {
			words = "the snapshot stored for the environment"
		}
		return words + ", and if it is not there: " + e.WithoutSnapshot().explainBase()
	case BaseImage:
		return "image " + e.Image
	case BaseDockerfile:
		if e.Build.Dockerfile == "" {
			return "an image of the Dockerfile in the file; context " + e.Build.Context
		}
		return "an image of " + e.Build.Dockerfile + "; context " + e.Build.Context
	}
	return "the default image"
}
