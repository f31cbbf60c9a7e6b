package main

import (
	"regexp"
	"strings"
)

const widest = 400 // bytes of a line of a reason

var (
	// says is how a test's own words begin, whether an error or a log.
	says = regexp.MustCompile(`^ {4,}[\w.-]+\.go:\d+: `)
	// breaks begins what a test that has no more to say dies of.
	breaks = regexp.MustCompile(`^(panic: |fatal error: |SIG[A-Z]+: |WARNING: DATA RACE|# |.*_?\w+\.go:\d+:\d+: )`)
	// ours is a line of a stack that is in this repository's code, or a test that ran out of time.
	ours = regexp.MustCompile(`^\s.*/(cmd|hack|internal|test|bench)/.*\.go:\d+ |^\t\tTest\S* \(`)
)

// reasons finds in what a test has said why it failed: its own words, the first
// of them before the others, and of each the beginning and the end; or what it
// panicked with, and where. A test that only failed with its subtests has none.
func reasons(said string, most int) []string {
	var own [][]string
	var broken []string
	for line := range strings.Lines(said) {
		line = strings.TrimRight(line, "\n")
		switch {
		case len(broken) > 0:
			if ours.MatchString(line) || breaks.MatchString(line) {
				broken = append(broken, line)
			}
		case says.MatchString(line):
			own = append(own, []string{line})
		case len(own) > 0 && strings.HasPrefix(line, "        "):
			own[len(own)-1] = append(own[len(own)-1], line)
		case breaks.MatchString(line):
			broken = []string{line}
		}
	}
	var out []string
	if room := most - min(len(broken), most/2); len(own) > 0 {
		own = own[:min(len(own), room)]
		each := room / len(own)
		for _, words := range own {
			out = append(out, ends(words, each)...)
		}
	}
	out = append(out, ends(broken, most-len(out))...)
	for i, line := range out {
		if len(line) > widest {
			out[i] = line[:widest/2] + " … " + line[len(line)-widest/2:]
		}
	}
	return out
}

// ends leaves out the middle of what is longer than most lines.
func ends(lines []string, most int) []string {
	if len(lines) <= most {
		return lines
	}
	if most < 2 {
		return lines[:max(0, most)]
	}
	head := most / 2
	tail := lines[len(lines)-(most-head):]
	if len(tail) > 1 {
		tail = append([]string{"        …"}, tail[1:]...)
	}
	return append(lines[:head:head], tail...)
}
