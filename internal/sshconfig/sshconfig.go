// Package sshconfig edits the two OpenSSH client files that Aloft writes: a section of
// the user's ssh configuration, between two marker lines, and Aloft's own known_hosts
// file. It works on text and does no I/O.
package sshconfig

import (
	"errors"
	"fmt"
	"strings"
)

// The marker lines around Aloft's section of a configuration.
const (
	begin = "# >>> aloft: written by `aloft config-ssh`; changes between these lines are lost"
	end   = "# <<< aloft"
)

// ErrMarks is returned if the marker lines are not exactly one pair.
var ErrMarks = errors.New("the marker lines of Aloft's section are damaged: remove that section by hand, and try again")

// Options returns the ssh options for connecting to a machine. proxy is the command that
// makes the connection, with one argument per word; Options appends the host's name to
// it. knownHosts is a file.
func Options(proxy []string, knownHosts string) ([]string, error) {
	var command strings.Builder
	for _, word := range proxy {
		if strings.ContainsAny(word, "\n\r\x00") {
			return nil, fmt.Errorf("%q is not allowed in an ssh configuration", word)
		}
		// Quote for the shell that ssh uses, and escape % for ssh.
		command.WriteString("'" + strings.ReplaceAll(strings.ReplaceAll(word, "'", `'\''`), "%", "%%") + "' ")
	}
	if strings.ContainsAny(knownHosts, "\"\\\n\r\x00") || strings.Contains(knownHosts, "${") {
		return nil, fmt.Errorf("%q is not allowed in an ssh configuration", knownHosts)
	}
	return []string{
		"ProxyCommand " + command.String() + "%n",
		"User ubuntu",
		`UserKnownHostsFile "` + strings.ReplaceAll(knownHosts, "%", "%%") + `"`,
		// Accept the key of a new machine, since the connection goes through the server, which
		// is authenticated. Refuse a changed key of a known machine.
		"StrictHostKeyChecking accept-new",
		"HashKnownHosts no",
		"UpdateHostKeys no",
		// Do not give machines access to the user's keys.
		"ForwardAgent no",
		"ForwardX11 no",
		"ServerAliveInterval 30",
	}, nil
}

// Stanza returns Aloft's section of a configuration, for all hosts that are
// agents.
func Stanza(options []string) string {
	var b strings.Builder
	b.WriteString(begin + "\nHost bc-* aloft.*\n")
	for _, o := range options {
		b.WriteString("    " + o + "\n")
	}
	b.WriteString(end + "\n")
	return b.String()
}

// Set returns the configuration with the stanza: in place of the existing one, or at the
// end, where it does not affect earlier sections. An empty stanza removes the existing
// one. old is the previous stanza.
func Set(config, stanza string) (changed, old string, err error) {
	from, to, err := find(config)
	if err != nil {
		return config, "", err
	}
	if from < 0 {
		if stanza == "" {
			return config, "", nil
		}
		switch {
		case config == "":
		case !strings.HasSuffix(config, "\n"):
			config += "\n\n"
		case !strings.HasSuffix(config, "\n\n"):
			config += "\n"
		}
		return config + stanza, "", nil
	}
	before, after := config[:from], config[to:]
	if stanza == "" && after == "" && strings.HasSuffix(before, "\n\n") {
		before = strings.TrimSuffix(before, "\n") // the blank line that Set added
	}
	return before + stanza + after, config[from:to], nil
}

// find returns the range of Aloft's section; from is -1 if there is none.
func find(config string) (from, to int, err error) {
	from, to = -1, -1
	at := 0
	for line := range strings.Lines(config) {
		switch strings.TrimRight(line, "\r\n") {
		case begin:
			if from >= 0 {
				return 0, 0, ErrMarks
			}
			from = at
		case end:
			if from < 0 || to >= 0 {
				return 0, 0, ErrMarks
			}
			to = at + len(line)
		}
		at += len(line)
	}
	if from >= 0 && to < 0 {
		return 0, 0, ErrMarks
	}
	return from, to, nil
}
