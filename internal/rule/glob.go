package rule

import (
	"path"
	"strings"
)

// matchGlob reports whether a glob matches a path. As in a .gitignore file, a glob
// without a slash matches the file's name in any folder, and a glob that ends with a
// slash matches all files in that folder. A segment ** matches any number of folders.
// Globs come from repositories, so the cost is limited: it is at most that of comparing
// each byte of the file with [globCost] bytes.
func matchGlob(glob, file string) bool {
	if len(file) > maxPath {
		return false
	}
	for _, g := range expandBraces(glob) {
		g = strings.TrimPrefix(strings.TrimPrefix(g, "./"), "/")
		if strings.HasSuffix(g, "/") {
			g += "**"
		}
		if !strings.Contains(g, "/") && g != "**" {
			g = "**/" + g
		}
		if matchSegments(strings.Split(g, "/"), strings.Split(file, "/")) {
			return true
		}
	}
	return false
}

// matchSegments compares segment by segment: for each prefix of the glob, it determines
// which prefixes of the path match.
func matchSegments(glob, file []string) bool {
	matched := make([]bool, len(file)+1) // matched[n]: the glob so far matches file[:n]
	matched[0] = true
	for i, g := range glob {
		next := make([]bool, len(file)+1)
		if g == "**" {
			some := false
			for n := range matched {
				if i == len(glob)-1 { // a final ** stands for at least one name
					next[n] = some
				}
				some = some || matched[n]
				if i < len(glob)-1 {
					next[n] = some
				}
			}
		} else {
			for n, name := range file {
				if matched[n] {
					next[n+1], _ = path.Match(strings.ReplaceAll(g, "**", "*"), name) // an invalid pattern matches nothing
				}
			}
		}
		matched = next
	}
	return matched[len(file)]
}

// maxPath is the length of the longest path that a glob matches, in bytes.
const maxPath = 1000

// globCost returns the cost of matching a glob, in byte comparisons per byte of the
// path.
func globCost(glob string) int { return len(expandBraces(glob)) * len(glob) }

// maxAlternatives limits the expansion of {a,b} in a glob.
const maxAlternatives = 16

// expandBraces returns the globs for which {a,b} stands. If there would be too many, or
// a brace is not closed, it returns the glob unchanged.
func expandBraces(glob string) []string {
	if !strings.Contains(glob, "{") {
		return []string{glob}
	}
	done, todo := []string(nil), []string{glob}
	for len(todo) > 0 {
		g := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		from, to, parts := firstBraces(g)
		if parts == nil {
			done = append(done, g)
			continue
		}
		for _, p := range parts {
			todo = append(todo, g[:from]+p+g[to:])
		}
		if len(done)+len(todo) > maxAlternatives {
			return []string{glob}
		}
	}
	return done
}

// firstBraces returns the first closed group of braces: its start, its end, and its
// alternatives. parts is nil if there is none.
func firstBraces(g string) (from, to int, parts []string) {
	from = strings.IndexByte(g, '{')
	if from < 0 {
		return 0, 0, nil
	}
	level, start := 0, from+1
	for i := from; i < len(g); i++ {
		switch g[i] {
		case '{':
			level++
		case '}':
			if level--; level == 0 {
				return from, i + 1, append(parts, g[start:i])
			}
		case ',':
			if level == 1 {
				parts = append(parts, g[start:i])
				start = i + 1
			}
		}
	}
	return 0, 0, nil
}
