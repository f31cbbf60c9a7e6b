// Package sshconfig edits the two files that OpenSSH's client reads of ours: a
// part of a person's own configuration, between two marks, and a known_hosts
// file that belongs to Aloft alone. It works on text and does no I/O.
package sshconfig

import (
	"errors"
	"fmt"
	"strings"
)

// The marks, each a line of its own, around our part of a configuration.
const (
	begin = "# >>> aloft: written by `aloft config-ssh`; changes between these lines are lost"
	end   = "# <<< aloft"
)

// ErrMarks is a configuration whose marks do not come as one pair.
var ErrMarks = errors.New("the lines that mark Aloft's part are broken: remove that part by hand, and try again")

// Options are the options of ssh that lead to a machine. proxy is the command
// that connects to it, each word one argument, to which the host's name is
// added; knownHosts is a file.
func Options(proxy []string, knownHosts string) ([]string, error) {
	var command strings.Builder
	for _, word := range proxy {
		if strings.ContainsAny(word, "\n\r\x00") {
			return nil, fmt.Errorf("%q cannot be in a configuration of ssh", word)
		}
		// For the shell that ssh runs it with, and for ssh, to which % is special.
		command.WriteString("'" + strings.ReplaceAll(strings.ReplaceAll(word, "'", `'\''`), "%", "%%") + "' ")
	}
	if strings.ContainsAny(knownHosts, "\"\\\n\r\x00") || strings.Contains(knownHosts, "${") {
		return nil, fmt.Errorf("%q cannot be in a configuration of ssh", knownHosts)
	}
	return []string{
		"ProxyCommand " + command.String() + "%n",
		"User ubuntu",
		`UserKnownHostsFile "` + strings.ReplaceAll(knownHosts, "%", "%%") + `"`,
		// A machine is new to ssh, but the way to it is the server's, which knows
		// us by our key; a known machine that shows another key is refused.
		"StrictHostKeyChecking accept-new",
		"HashKnownHosts no",
		"UpdateHostKeys no",
		// A machine is not to be lent what is ours.
		"ForwardAgent no",
		"ForwardX11 no",
		"ServerAliveInterval 30",
	}, nil
}

// Stanza is our part of a configuration: the hosts that are agents.
func Stanza(options []string) string {
	var b strings.Builder
	b.WriteString(begin + "\nHost bc-* aloft.*\n")
	for _, o := range options {
		b.WriteString("    " + o + "\n")
	}
	b.WriteString(end + "\n")
	return b.String()
}

// Set returns the configuration with the stanza in it: in the place of the one
// that is there, or at the end, where it takes nothing from what comes before.
// An empty stanza removes ours. old is what was there.
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
		before = strings.TrimSuffix(before, "\n") // the line that we have put between
	}
	return before + stanza + after, config[from:to], nil
}

// find returns where our part begins and ends; from is -1 where there is none.
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
