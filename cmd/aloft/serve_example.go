package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// exampleConfig is a configuration to begin with.
//
//go:embed serve_example.yaml
var exampleConfig string

// lacks says what a server can not do for real work as it is configured, and how
// to mend it; "" is that it lacks nothing. file is its configuration.
func (c serverConfig) lacks(file string) string {
	var out strings.Builder
	if !slices.ContainsFunc(c.Models, func(m modelConfig) bool { return m.Provider != "scripted" }) {
		out.WriteString("Its only model plays a script: no model for real work is configured.\n")
	}
	if len(c.Git.Credentials) == 0 {
		out.WriteString("No git server's token is configured: agents cannot push there, nor open pull requests.\n")
	}
	switch {
	case out.Len() == 0:
	case file == "":
		out.WriteString("To mend that: aloft serve --example > aloft.yaml, fill it in, and start with --config aloft.yaml\n")
	default:
		fmt.Fprintf(&out, "To mend that: fill in models and git.credentials in %s (aloft serve --example shows how), and start again\n", file)
	}
	return out.String()
}
