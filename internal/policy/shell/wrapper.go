package shell

import (
	"regexp"
	"slices"
	"strings"
)

// A wrapper is a program that runs the command in its arguments and has no other
// relevant effect. The function returns the words of that command. If it returns none,
// the wrapper is judged like any other program.
type wrapper func(args []word) (inner []word, why string)

var wrappers map[string]wrapper

func init() { // set in init, because these wrappers refer to the map themselves
	wrappers = map[string]wrapper{
		"env":     env,
		"nohup":   plain(),
		"setsid":  plain("-c", "--ctty", "-f", "--fork", "-w", "--wait"),
		"time":    plain("-p"),
		"nice":    valued("n", "--adjustment"),
		"ionice":  valued("cn", "--class", "--classdata", "-t"),
		"timeout": timeout,
		"stdbuf":  valued("ioe", "--input", "--output", "--error"),
		"xargs":   xargs,
		"find":    find,
		"command": command,
		"builtin": plain(),
		"bash":    shellLine,
		"sh":      shellLine,
		"dash":    shellLine,
	}
}

const unknownOption = "has an option that is not analyzed"

// plain returns a wrapper that accepts only these options, none of which takes
// a value.
func plain(options ...string) wrapper { return valued("", options...) }

// valued returns a wrapper whose options take values: letters with an attached
// or separate value, and long options with = or a separate value. A long option
// that starts with a single dash takes no value.
func valued(letters string, long ...string) wrapper {
	return func(args []word) ([]word, string) {
		for len(args) > 0 {
			a := args[0]
			switch {
			case a.kind != literal:
				return nil, "which program it starts is known only when it runs"
			case a.value == "--":
				return args[1:], ""
			case !strings.HasPrefix(a.value, "-") || a.value == "-":
				return args, ""
			}
			n := optionLength(a.value, letters, long)
			if n == 0 || n > len(args) {
				return nil, a.value + ": " + unknownOption
			}
			if args[n-1].kind != literal { // the word may become several words, or none
				return nil, args[n-1].text + " is known only when it runs, and may be the program too"
			}
			args = args[n:]
		}
		return nil, ""
	}
}

// optionLength returns how many words an option takes together with its value, or 0 if
// the option is unknown.
func optionLength(arg, letters string, long []string) int {
	for _, l := range long {
		switch {
		case arg == l && (!strings.HasPrefix(l, "--") || letters == ""):
			return 1
		case arg == l:
			return 2
		case strings.HasPrefix(l, "--") && strings.HasPrefix(arg, l+"="):
			return 1
		}
	}
	switch {
	case len(arg) < 2 || arg[1] == '-' || letters == "" || !strings.Contains(letters, arg[1:2]):
		return 0
	case len(arg) == 2:
		return 2
	}
	return 1
}

// env sets variables and runs a program. Only harmless variables are allowed.
func env(args []word) ([]word, string) {
	for i, a := range args {
		if a.kind != literal {
			return nil, "which program it starts is known only when it runs"
		}
		name, value, assigns := strings.Cut(a.value, "=")
		switch {
		case a.value == "-i" || a.value == "-":
		case strings.HasPrefix(a.value, "-"):
			return nil, a.value + ": " + unknownOption
		case assigns && !(harmlessName(name) && harmlessValue(name, word{value: value})):
			return nil, name + " is set, which other programs may obey"
		case assigns:
		default:
			return args[i:], ""
		}
	}
	return nil, ""
}

// timeout has a duration before the program.
func timeout(args []word) ([]word, string) {
	rest, why := valued("ks", "--kill-after", "--signal")(dropFlags(args, "--foreground", "--preserve-status", "-v", "--verbose", "-p", "-f"))
	if why != "" || len(rest) == 0 {
		return nil, why
	}
	return rest[1:], ""
}

// dropFlags removes leading flags from the arguments.
func dropFlags(args []word, flags ...string) []word {
	for len(args) > 0 && args[0].kind == literal && contains(flags, args[0].value) {
		args = args[1:]
	}
	return args
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// command is bash's builtin that bypasses functions.
func command(args []word) ([]word, string) {
	if len(args) > 0 && (args[0].value == "-v" || args[0].value == "-V") {
		return nil, ""
	}
	return plain()(args)
}

// xargs runs a program with arguments from standard input.
func xargs(args []word) ([]word, string) {
	flags := []string{"-0", "-r", "-t", "-x", "--null", "--no-run-if-empty", "--verbose", "--exit"}
	var replaced []string // texts that xargs replaces by its input
	for {
		before := len(args)
		args = dropFlags(args, flags...)
		if len(args) > 0 && args[0].kind == literal {
			option := args[0].value
			if n := optionLength(option, "nLPIdEs", []string{
				"--max-args", "--max-procs", "--delimiter", "--max-chars",
			}); n > 0 && n <= len(args) {
				if args[n-1].kind != literal {
					return nil, args[n-1].text + " is known only when it runs, and may be the program too"
				}
				switch {
				case option == "-I":
					replaced = append(replaced, args[1].value)
				case strings.HasPrefix(option, "-I"):
					replaced = append(replaced, option[2:])
				}
				args = args[n:]
			}
		}
		if len(args) == before {
			break
		}
	}
	inner, why := plain()(args)
	if why != "" || len(inner) == 0 {
		return nil, why
	}
	return append(standIns(inner, replaced...), word{kind: dynamic, text: "the input of xargs"}), ""
}

// standIns marks the words that contain one of the texts as known only at run
// time.
func standIns(words []word, texts ...string) []word {
	out := slices.Clone(words)
	for i, w := range out {
		if slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(w.value, t) }) {
			out[i] = word{kind: dynamic, text: w.text}
		}
	}
	return out
}

// shellLine accepts bash -c only, because other shells may parse a line differently.
func shellLine(args []word) ([]word, string) {
	if len(args) == 0 {
		return nil, "a shell runs what it reads"
	}
	if args[0].kind != literal {
		return nil, "what the shell runs is known only when it runs"
	}
	if a := args[0].value; strings.HasPrefix(a, "-") || strings.HasPrefix(a, "+") {
		return nil, a + ": a command line inside a command line is allowed only if an entry spells it out"
	}
	return nil, ""
}

// find runs programs with -exec and similar actions.
func find(args []word) ([]word, string) {
	for i, a := range args {
		switch {
		case a.kind != literal:
			continue
		case contains(execs, a.value):
			for _, w := range args {
				if w.kind == dynamic || w.kind == filename && !namesFile.MatchString(w.text) {
					return nil, w.text + " is known only when it runs, and may make find run another program"
				}
			}
			return findExec(args[i+1:])
		case a.value == "-delete" || strings.HasPrefix(a.value, "-fprint") || a.value == "-fls" || a.value == "-files0-from":
			return nil, a.value + " removes or writes files, or reads names"
		}
	}
	return nil, ""
}

var execs = []string{"-exec", "-execdir", "-ok", "-okdir"}

// namesFile matches an argument that cannot become an operator of find.
var namesFile = regexp.MustCompile(`^[./~\w]`)

// findExec returns the words up to the ; or + that ends the command. The remaining
// arguments must not run another command.
func findExec(args []word) ([]word, string) {
	for i, a := range args {
		if a.kind == literal && (a.value == ";" || a.value == "+") {
			if rest, why := find(args[i+1:]); why != "" || len(rest) > 0 {
				return nil, "find runs more than one program"
			}
			if i == 0 {
				return nil, "find names no program"
			}
			return standIns(args[:i], "{}"), ""
		}
	}
	return nil, "find's -exec has no end"
}
