package sandbox

import (
	"path"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// TempFolders are the folders for temporary files of every machine.
var TempFolders = []string{"/tmp", "/var/tmp", "/dev/shm"}

// A Guard says which files a file tool may change without a review. File tools
// run outside of the sandbox, so a file that changes what other programs run
// would carry a command out of it. Its paths are absolute.
type Guard struct {
	Workspaces []string
	Free       []string // other folders that need no review: for temporary files, for artifacts
}

// Outside is what [Guard.Judge] says of a path in none of the guard's folders.
const Outside = "outside of the workspace and of the folders for temporary files"

// guardedFolders are protected with all that is in them, in every folder of a
// workspace: they hold what git, editors and ssh run.
var guardedFolders = []string{".git", ".vscode", ".idea", ".devcontainer", ".husky", ".githooks", ".ssh", ".gnupg"}

// guardedFiles are protected in every folder of a workspace: programs that start
// there, or for which that is the home folder, run commands that these name.
var guardedFiles = []string{
	".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".kshrc", ".inputrc",
	".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".xprofile", ".xinitrc", ".pam_environment",
	".gitconfig", ".gitmodules", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".pypirc", ".netrc", ".curlrc", ".wgetrc", ".ripgreprc",
	".envrc", ".vimrc", ".exrc", ".nvimrc", ".emacs", ".tmux.conf", ".screenrc", ".gdbinit", ".lldbinit", ".mcp.json", ".claude.json",
}

// gitDirFiles make their folder a repository of git's, or lead one elsewhere.
// They are protected in this spelling.
var gitDirFiles = []string{"HEAD", "commondir"}

// Judge returns why a file tool needs a review to change name, an absolute path;
// "" if it needs none. It looks at the path alone, so that who can follow
// symbolic links judges the path that they lead to. Names are compared as file
// systems do that fold case.
func (g Guard) Judge(name string) string {
	name = path.Clean("/" + strings.ReplaceAll(name, `\`, "/"))
	for _, root := range slices.Concat(g.Workspaces, g.Free) {
		if Below(root, name) && name != root {
			return guarded(strings.TrimPrefix(name, strings.TrimSuffix(root, "/")+"/"))
		}
	}
	return Outside
}

// guarded judges a path below a root.
func guarded(rel string) string {
	parts := strings.Split(rel, "/")
	for i, part := range parts {
		p, last := fold(part), i == len(parts)-1
		switch {
		case slices.Contains(guardedFolders, p), slices.Contains(guardedFiles, p), strings.HasSuffix(p, ".code-workspace"), last && slices.Contains(gitDirFiles, part):
			return "protected: " + p
		case p == ".cursor" || p == ".aloft" || p == ".claude":
			if i+2 < len(parts) && slices.Contains(ownFolders, fold(parts[i+1])) {
				continue
			}
			return "protected: " + p
		case strings.HasPrefix(p, ".cursor"):
			return "protected: " + p
		}
	}
	return ""
}

// GuardedNames are the names that [Guard.Judge] protects in every folder, without
// those that are patterns. Who can look at files compares them by identity too.
func GuardedNames() []string {
	return slices.Concat(guardedFolders, guardedFiles, []string{".cursor", ".aloft", ".claude", ".cursorignore"})
}

// fold is a name as file systems compare it that ignore case: ext4 and APFS
// without characters that are not seen, NTFS without dots and spaces at the end.
func fold(name string) string {
	name = strings.ReplaceAll(strings.ToLower(norm.NFKC.String(name)), "ß", "ss")
	name = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			return -1
		}
		return r
	}, name)
	return strings.TrimRight(name, " .")
}
