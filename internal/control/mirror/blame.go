package mirror

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var blameHead = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64}) [0-9]{1,9} ([0-9]{1,9}) ([0-9]{1,9})$`)

// parseBlame parses the output of git blame --incremental: for each range, a
// line with the commit and the numbers, and lines about the commit, of which the
// last begins with "filename". If bounded, ranges of boundary commits are left
// out, because they are older than the base.
func parseBlame(text string, bounded bool) []Lines {
	var all []Lines
	var now Lines
	boundary := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if m := blameHead.FindStringSubmatch(line); m != nil {
			first, _ := strconv.Atoi(m[2]) // at most nine digits
			count, _ := strconv.Atoi(m[3])
			now = Lines{First: first, Last: first + count - 1, Commit: m[1]}
			continue
		}
		switch {
		case line == "boundary": // said once for each commit
			boundary[now.Commit] = true
		case strings.HasPrefix(line, "filename ") && now.Commit != "":
			if !bounded || !boundary[now.Commit] {
				all = append(all, now)
			}
			now = Lines{}
		}
	}
	slices.SortFunc(all, func(a, b Lines) int { return a.First - b.First })
	merged := all[:0]
	for _, l := range all {
		if n := len(merged); n > 0 && merged[n-1].Commit == l.Commit && merged[n-1].Last+1 == l.First {
			merged[n-1].Last = l.Last
			continue
		}
		merged = append(merged, l)
	}
	return merged
}
