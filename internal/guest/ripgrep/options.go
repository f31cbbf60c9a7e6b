package ripgrep

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"
)

// options are the parsed arguments.
type options struct {
	files, names, count bool // --files, --files-with-matches, --count
	null                bool
	noIgnore            bool
	ignoreCase          bool
	multiline, dotall   bool
	before, after       int
	sort                string // path, modified, accessed or created; "" is any order
	reverse             bool
	globs               []string
	types               []string            // selected
	defined             map[string][]string // globs of the types that --type-add defines
	pattern             string
	paths               []string
}

// valued are the options that take a value, in the same or in the next argument.
var valued = []string{"--context", "--after-context", "--before-context", "--sort", "--sortr", "--glob", "--type", "--type-add", "--regexp"}

// ignored are options without effect, because they are the defaults here.
var ignored = []string{"--no-config", "--color=never", "--no-messages", "--hidden", "--no-require-git", "--with-filename", "--line-number", "--no-heading"}

func parse(args []string) (options, error) {
	o := options{defined: map[string][]string{}}
	context := [3]int{-1, -1, -1} // around, after, before
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			o.paths = append(o.paths, args[i+1:]...)
			break
		}
		if !strings.HasPrefix(arg, "-") {
			o.paths = append(o.paths, arg)
			continue
		}
		name, value, given := strings.Cut(arg, "=")
		if slices.Contains(valued, name) && !given {
			if i++; i == len(args) {
				return o, wrong("the flag %s requires a value", name)
			}
			value = args[i]
		}
		switch name {
		case "--files":
			o.files = true
		case "--files-with-matches":
			o.names = true
		case "--count":
			o.count = true
		case "--no-ignore":
			o.noIgnore = true
		case "--null":
			o.null = true
		case "--ignore-case":
			o.ignoreCase = true
		case "--multiline":
			o.multiline = true
		case "--multiline-dotall":
			o.dotall = true
		case "--context", "--after-context", "--before-context":
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 {
				return o, wrong("invalid number of lines: %s", arg)
			}
			context[slices.Index([]string{"--context", "--after-context", "--before-context"}, name)] = n
		case "--sort", "--sortr":
			o.sort, o.reverse = value, name == "--sortr"
		case "--glob":
			o.globs = append(o.globs, value)
		case "--type":
			o.types = append(o.types, value)
		case "--type-add":
			kind, glob, _ := strings.Cut(value, ":")
			o.defined[kind] = append(o.defined[kind], glob)
		case "--regexp":
			o.pattern = value
		default:
			if !slices.Contains(ignored, arg) {
				return o, wrong("unrecognized flag: %s", arg)
			}
		}
	}
	o.after, o.before = max(context[0], context[1], 0), max(context[0], context[2], 0)
	if context[1] >= 0 {
		o.after = context[1]
	}
	if context[2] >= 0 {
		o.before = context[2]
	}
	if len(o.paths) == 0 {
		o.paths = []string{"./"}
	}
	return o, nil
}

// typesText lists rg's file types, as `rg --type-list` prints them: one a line,
// "go: *.go".
//
//go:embed types.txt
var typesText string

// typeGlobs returns the globs of the selected types.
func (o options) typeGlobs() ([]string, error) {
	var globs []string
	for _, name := range o.types {
		if own := o.defined[name]; own != nil {
			globs = append(globs, own...)
			continue
		}
		at := strings.Index("\n"+typesText, "\n"+name+": ")
		if at < 0 || strings.ContainsAny(name, "\n:") {
			return nil, wrong("unrecognized file type: %s", name)
		}
		line, _, _ := strings.Cut(typesText[at:], "\n")
		globs = append(globs, strings.Split(line[len(name)+2:], ", ")...)
	}
	return globs, nil
}
