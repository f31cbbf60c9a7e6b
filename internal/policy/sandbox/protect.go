package sandbox

import (
	"path"
	"strings"
)

// Protection is a name that must not be changed in any root, regardless of sandbox.json.
// A folder's protection covers all its content except Open.
type Protection struct {
	Name string   // relative to the root; the last element may be a pattern of package path
	Dir  bool     // the name is a folder
	Open []string // names in the folder that may be changed
	// Late means that the name cannot be blocked before it exists, because it is a pattern,
	// or because git would misread an empty file. A file with that name is renamed when it
	// appears.
	Late bool
}

// ownFolders are the folders within the configuration folders that are meant for the
// work of people and agents.
var ownFolders = []string{"rules", "commands", "worktrees", "skills", "agents"}

// Protections are the built-in rules. In .cursor and similar folders, all files are
// protected except the folders meant for the agent. At least the *.json files must be
// protected; this covers more.
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
	{Name: ".git/commondir", Late: true}, // with this file, git would read its configuration from another folder
}

// HomeProtections are the names that must not be changed in the home folder, if
// a policy makes it writable: files from which shells, git, ssh and other
// programs run commands when they start outside of the sandbox.
var HomeProtections = homeProtections()

func homeProtections() []Protection {
	all := []Protection{
		{Name: ".ssh", Dir: true}, {Name: ".gnupg", Dir: true},
		{Name: ".config/git", Dir: true}, {Name: ".config/fish", Dir: true}, {Name: ".config/systemd", Dir: true},
		{Name: ".config/autostart", Dir: true}, {Name: ".config/environment.d", Dir: true},
	}
	for _, name := range guardedFiles {
		if name != ".gitmodules" { // git reads .gitmodules only in a repository
			all = append(all, Protection{Name: name})
		}
	}
	return all
}

// protecting returns the protection that covers name in root.
func protecting(protections []Protection, root, name string) (string, bool) {
	if !Below(root, name) || name == root {
		return "", false
	}
	rel := strings.ToLower(strings.TrimPrefix(name, strings.TrimSuffix(root, "/")+"/"))
	for _, p := range protections {
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
		// The parent folder of a protected name cannot be moved or removed.
		if dir := path.Dir(p.Name); dir != "." && rel == dir {
			return p.Name, true
		}
	}
	return "", false
}
