package sandbox

import (
	"path"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// TempFolders are the folders for temporary files in every machine.
var TempFolders = []string{"/tmp", "/var/tmp", "/dev/shm"}

// A Guard decides which files a file tool may change without a review. File tools run
// outside of the sandbox, so changing a file that other programs execute would allow
// leaving the sandbox. Its paths are absolute.
type Guard struct {
	Workspaces []string
	Free       []string // other folders that need no review, for temporary files and artifacts
}

// Outside is the result of [Guard.Judge] for a path that is in none of the guard's
// folders.
const Outside = "outside the workspace and the folders for temporary files"

// guardedFolders are protected with all their content, in every folder of a
// workspace: they contain commands that git, editors and ssh execute.
var guardedFolders = []string{".git", ".vscode", ".idea", ".devcontainer", ".husky", ".githooks", ".ssh", ".gnupg"}

// guardedFiles are protected in every folder of a workspace. Programs that start in the
// folder, or use it as their home, run commands from these files.
var guardedFiles = []string{
	".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".kshrc", ".inputrc",
	".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".xprofile", ".xinitrc", ".pam_environment",
	".gitconfig", ".gitmodules", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".pypirc", ".netrc", ".curlrc", ".wgetrc", ".ripgreprc",
	".envrc", ".vimrc", ".exrc", ".nvimrc", ".emacs", ".tmux.conf", ".screenrc", ".gdbinit", ".lldbinit", ".mcp.json", ".claude.json",
}

// gitDirFiles turn their folder into a git repository, or redirect git to another
// repository. Their names are case-sensitive.
var gitDirFiles = []string{"HEAD", "commondir"}

// Judge returns why changing name, an absolute path, with a file tool needs a review, or
// "" if no review is needed. It looks only at the path: callers that can resolve
// symbolic links should pass the resolved path. It compares names as case-insensitive
// file systems do.
func (g Guard) Judge(name string) string {
	name = path.Clean("/" + strings.ReplaceAll(name, `\`, "/"))
	for _, root := range slices.Concat(g.Workspaces, g.Free) {
		if Below(root, name) && name != root {
			return guarded(strings.TrimPrefix(name, strings.TrimSuffix(root, "/")+"/"))
		}
	}
	return Outside
}

// guarded judges a path relative to a root.
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

// GuardedNames returns the names that [Guard.Judge] protects in every folder, except
// patterns. Callers with access to the files also compare files by identity.
func GuardedNames() []string {
	return slices.Concat(guardedFolders, guardedFiles, []string{".cursor", ".aloft", ".claude", ".cursorignore"})
}

// fold normalizes a name as file systems do that ignore case: ext4 and APFS ignore
// invisible characters, NTFS ignores dots and spaces at the end.
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
