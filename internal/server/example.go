package server

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// ExampleConfig is an example configuration.
//
//go:embed example.yaml
var ExampleConfig string

// Missing returns a message about the parts that the server needs for real work
// but lacks, and how to add them, or "". file is the path of the configuration,
// or "".
func (s *Server) Missing(file string) string { return s.config.missing(file) }

func (c Config) missing(file string) string {
	var out strings.Builder
	if !slices.ContainsFunc(c.Models, func(m ModelConfig) bool { return m.Provider != "scripted" }) {
		out.WriteString("No real model is configured: the only model is the scripted one.\n")
	}
	if len(c.Git.Credentials) == 0 {
		out.WriteString("No git credentials are configured: agents cannot push or open pull requests.\n")
	}
	switch {
	case out.Len() == 0:
	case file == "":
		out.WriteString("To fix this: sign in and follow the steps there; or aloft serve --example > aloft.yaml, fill it in, and start with --config aloft.yaml\n")
	default:
		fmt.Fprintf(&out, "To fix this: set models and git.credentials in %s (aloft serve --example shows how) and restart; or sign in and follow the steps there\n", file)
	}
	return out.String()
}
