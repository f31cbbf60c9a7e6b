package rulefile

import "strings"

// cloudHeading is the heading of the section of AGENTS.md that is only for
// background agents, such as notes about their machine.
const cloudHeading = "cursor cloud specific instructions"

// withoutCloudNotes removes the sections for background agents. A section extends from
// its heading to the next heading of the same or a higher level.
func withoutCloudNotes(text string) string {
	var b strings.Builder
	cutting := 0 // level of the heading of the section being removed
	fenced := false
	for l := range strings.Lines(text) {
		if trimmed := strings.TrimSpace(l); strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~") {
			fenced = !fenced
		}
		if level, title := heading(l); level > 0 && !fenced {
			switch {
			case strings.EqualFold(title, cloudHeading):
				cutting = level
			case level <= cutting:
				cutting = 0
			}
		}
		if cutting == 0 {
			b.WriteString(l)
		}
	}
	return b.String()
}

// heading returns the level and the title of a Markdown heading; 0 for other
// lines.
func heading(l string) (level int, title string) {
	rest := strings.TrimLeft(l, "#")
	if level = len(l) - len(rest); level == 0 || level > 6 || !strings.HasPrefix(rest, " ") {
		return 0, ""
	}
	return level, strings.TrimSpace(strings.TrimRight(strings.TrimSpace(rest), "#"))
}
