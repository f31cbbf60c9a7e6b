package sandbox

import (
	"path"
	"strings"
)

// Protection is a name that may not be changed in any root, whatever a file
// says. Those of a folder hold for all in it but Open.
type Protection struct {
	Name string   // relative to the root; the last part may be a pattern of package path
	Dir  bool     // it is a folder
	Open []string // names in it that may be changed
	// Late says that the name cannot be held before it exists: any could be
	// chosen, or git takes the mere file amiss. What appears is set aside.
	Late bool
}

// ownFolders are of people's working with agents, in what configures them.
var ownFolders = []string{"rules", "commands", "worktrees", "skills", "agents"}

// Protections are the built-in rules. In .cursor and its like all is protected
// but the folders that are for the agent, which is more than the *.json that
// must be.
var Protections = []Protection{
	{Name: ".cursor", Dir: true, Open: ownFolders},
	{Name: ".aloft", Dir: true, Open: ownFolders},
	{Name: ".claude", Dir: true, Open: ownFolders},
	{Name: ".vscode", Dir: true},
	{Name: ".git/hooks", Dir: true},
	{Name: ".git/config"},
	{Name: ".git/info/attributes"},
	{Name: ".cursorignore"},
	{Name: "*.code-workspace", Late: true},
	{Name: ".git/commondir", Late: true}, // would have git take its configuration from elsewhere
}

// protecting returns the protection that covers name in root.
func protecting(root, name string) (string, bool) {
	if !Below(root, name) || name == root {
		return "", false
	}
	rel := strings.ToLower(strings.TrimPrefix(name, strings.TrimSuffix(root, "/")+"/"))
	for _, p := range Protections {
		switch {
		case p.Dir && Below(p.Name, rel):
			first, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(rel, p.Name), "/"), "/")
			open := false
			for _, o := range p.Open {
				open = open || first == o && rel != p.Name+"/"+o
			}
			if !open {
				return p.Name, true
			}
		case !p.Dir:
			if ok, err := path.Match(p.Name, rel); ok && err == nil {
				return p.Name, true
			}
		}
		// The folder that holds a protected name cannot be moved or removed.
		if dir := path.Dir(p.Name); dir != "." && rel == dir {
			return p.Name, true
		}
	}
	return "", false
}
