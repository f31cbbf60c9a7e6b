package main

import (
	"regexp"
	"strings"
)

const widest = 400 // maximum length of a line in bytes

var (
	// says matches the start of a test's error or log message.
	says = regexp.MustCompile(`^ {4,}[\w.-]+\.go:\d+: `)
	// breaks matches the start of the message that a crashing process prints.
	breaks = regexp.MustCompile(`^(panic: |fatal error: |SIG[A-Z]+: |WARNING: DATA RACE|# |.*_?\w+\.go:\d+:\d+: )`)
	// ours matches the location of a stack frame in this repository's code, or the
	// name of a test that timed out.
	ours = regexp.MustCompile(`^\s.*/(cmd|hack|internal|test|bench)/.*\.go:\d+ |^\t\tTest\S* \(`)
)

// reasons extracts from a test's output why the test failed: the beginning and end of
// each of its messages, the first message first; or the panic and its location. It
// returns at most limit lines, and none for a test that failed only because of its
// subtests.
func reasons(output string, limit int) []string {
	var own [][]string
	var broken []string
	for line := range strings.Lines(output) {
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
	if room := limit - min(len(broken), limit/2); len(own) > 0 {
		own = own[:min(len(own), room)]
		each := room / len(own)
		for _, words := range own {
			out = append(out, ends(words, each)...)
		}
	}
	out = append(out, ends(broken, limit-len(out))...)
	for i, line := range out {
		if len(line) > widest {
			out[i] = line[:widest/2] + " … " + line[len(line)-widest/2:]
		}
	}
	return out
}

// ends removes the middle lines if there are more than limit.
func ends(lines []string, limit int) []string {
	if len(lines) <= limit {
		return lines
	}
	if limit < 2 {
		return lines[:max(0, limit)]
	}
	head := limit / 2
	tail := lines[len(lines)-(limit-head):]
	if len(tail) > 1 {
		tail = append([]string{"        …"}, tail[1:]...)
	}
	return append(lines[:head:head], tail...)
}
