package shell

import (
	"path"
	"strings"
)

// Git says where a line runs git. git starts programs that a repository's configuration
// names, so a caller that runs the line must know who wrote that configuration.
type Git struct {
	// Folders are the folders to which the line changes before it runs git, in order. Each
	// is absolute or relative to the previous ones.
	Folders []string
	// Elsewhere means that the line may run git in other folders too.
	Elsewhere bool
}

// visit records the folders in which a simple command runs git and those to which the
// command changes, even for parts of the line that may not run.
func (j *judge) visit(words []word) {
	switch name := path.Base(words[0].value); {
	case words[0].kind != literal:
	case name == "cd":
		j.changeFolder(words[1:])
	case name == "find": // find may run git in each folder that it finds
		j.git.Elsewhere = true
	case name == "git" || strings.HasPrefix(name, "git-"):
		j.runsGit = true
		for i, w := range words[1:] { // such an option is allowed only if an entry contains it
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
