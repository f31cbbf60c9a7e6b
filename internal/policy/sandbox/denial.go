package sandbox

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"
)

// refusals are the errors that programs print when the sandbox refuses an access.
var refusals = []string{
	"permission denied", "read-only file system", "operation not permitted", "device or resource busy", "eacces", "erofs", "eperm", "ebusy",
	"invalid cross-device link",
}

// quoted matches a possible path in a line: quoted text or a word. It is
// compiled on first use, since starting the sandbox does not need it.
var quoted = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("'([^']+)'|\"([^\"]+)\"|`([^`]+)`|‘([^’]+)’|([^\\s'\"`‘’]+)")
})

// maxDenials is how many denials Explain returns.
const maxDenials = 5

// Explain reads the output of a failed command that ran in the folder dir. It returns
// which errors the sandbox caused, by which rule, and how to ask for access. It omits
// accesses that the rules allow, since the sandbox did not refuse them.
func (r Rules) Explain(dir, output string) []string {
	var found []string
	for line := range strings.Lines(output) {
		low, refused := strings.ToLower(line), -1
		for _, w := range refusals {
			refused = max(refused, strings.Index(low, w))
		}
		if refused < 0 {
			continue
		}
		// The word before the error is a path, even if it does not look like one.
		name := ""
		if words := strings.Fields(line[:min(refused, len(line))]); len(words) > 1 && strings.HasSuffix(words[len(words)-1], ":") {
			name = words[len(words)-1]
		}
		if d, ok := r.explainLine(dir, line, trimName(name)); ok {
			found = unite(found, []string{d})
		}
		if len(found) == maxDenials {
			break
		}
	}
	return found
}

// trimName removes quotes and punctuation around a name.
func trimName(s string) string { return strings.Trim(s, "'\"`‘’,;:()[]") }

func (r Rules) explainLine(dir, line, named string) (string, bool) {
	// Check the word before the complaint first: the name of the script may
	// precede it.
	for _, m := range append([]string{named}, quoted().FindAllString(line, 64)...) {
		name := trimName(m)
		if name == "" || strings.Contains(name, "\x00") || len(name) > 4096 {
			continue
		}
		isPath := strings.Contains(name, "/") || strings.HasPrefix(name, ".") || name == named
		full := name
		if !path.IsAbs(name) {
			full = path.Join(dir, name)
		}
		for _, access := range []Access{Read, Write} {
			v := r.Judge(access, full)
			// Treat a bare word as a path only if a rule names that path.
			if v.Allowed || !isPath && !strings.HasPrefix(v.Rule, "protected ") && !strings.HasPrefix(v.Rule, "hidden ") {
				continue
			}
			what := "read"
			if access == Write {
				what = "changed"
			}
			return fmt.Sprintf("%s may not be %s in the sandbox: %s. To fix this: %s", full, what, v.Rule, v.Ask), true
		}
	}
	return "", false
}
