package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// exampleConfig is an example configuration.
//
//go:embed serve_example.yaml
var exampleConfig string

// lacks returns a message about what the configuration lacks for real work, and how to
// fix it, or "" if it lacks nothing. file is the path of the configuration.
func (c serverConfig) lacks(file string) string {
	var out strings.Builder
	if !slices.ContainsFunc(c.Models, func(m modelConfig) bool { return m.Provider != "scripted" }) {
		out.WriteString("No real model is configured: the only model follows a script.\n")
	}
	if len(c.Git.Credentials) == 0 {
		out.WriteString("No git credentials are configured: agents cannot push or open pull requests.\n")
	}
	switch {
	case out.Len() == 0:
	case file == "":
		out.WriteString("To fix this: aloft serve --example > aloft.yaml, fill it in, and start with --config aloft.yaml\n")
	default:
		fmt.Fprintf(&out, "To fix this: set models and git.credentials in %s (aloft serve --example shows how), and restart\n", file)
	}
	return out.String()
}
