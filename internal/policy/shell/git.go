package shell

import (
	"path"
	"strings"
)

// Git says where a line runs git. git starts programs that the configuration of
// a repository names, so whoever runs the line must know who wrote that
// configuration.
type Git struct {
	// Folders are the folders to which the line changes before it runs git, in
	// order. Each is absolute or relative to those before it.
	Folders []string
	// Elsewhere means that the line may run git in other folders too.
	Elsewhere bool
}

// visit records the folders in which a simple command runs git, or to which it
// changes. It includes parts of the line that may not run.
func (j *judge) visit(words []word) {
	switch name := path.Base(words[0].value); {
	case words[0].kind != literal:
	case name == "cd":
		j.changeFolder(words[1:])
	case name == "find": // it may run git in each folder that it finds
		j.git.Elsewhere = true
	case name == "git" || strings.HasPrefix(name, "git-"):
		j.runsGit = true
		for i, w := range words[1:] { // only an entry that spells it out allows such an option
			switch {
			case w.value == "-C" && i+2 < len(words):
				j.changeFolder(words[i+2 : i+3])
			case strings.HasPrefix(w.value, "--git-dir"), strings.HasPrefix(w.value, "--work-tree"):
				j.git.Elsewhere = true
			}
		}
	}
}

// changeFolder records the arguments of a cd.
func (j *judge) changeFolder(args []word) {
	for len(args) > 0 && args[0].kind == literal && (args[0].value == "--" || args[0].value == "-P" || args[0].value == "-L") {
		args = args[1:]
	}
	if len(args) != 1 || args[0].kind != literal || args[0].value == "" || strings.HasPrefix(args[0].text, "~") || strings.HasPrefix(args[0].value, "-") {
		j.git.Elsewhere = true
		return
	}
	j.git.Folders = append(j.git.Folders, args[0].value)
}
