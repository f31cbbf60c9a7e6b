package agent

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Workspace is the folder of the repository in a machine. If there are several
// repositories, it contains their folders.
const Workspace = "/workspace"

// Artifacts is the folder in a machine whose files outlive the machine.
const Artifacts = "/opt/cursor/artifacts"

// Folders returns the folders of the repositories in a machine. A single
// repository is the workspace itself; several are folders inside it, each with
// its own name.
func Folders(repos []Repo) []string {
	if len(repos) < 2 {
		return []string{Workspace}
	}
	out := make([]string, len(repos))
	taken := map[string]bool{}
	for i, r := range repos {
		name := folderName(r.URL)
		out[i] = name
		for n := 2; taken[strings.ToLower(out[i])]; n++ {
			out[i] = fmt.Sprintf("%s-%d", name, n)
		}
		taken[strings.ToLower(out[i])] = true
	}
	for i := range out {
		out[i] = path.Join(Workspace, out[i])
	}
	return out
}

var notInFolder = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// folderName returns the last part of a repository's URL, with characters
// replaced that are not allowed in a folder name.
func folderName(url string) string {
	const longest = 100
	url = strings.TrimRight(url, "/")
	name := strings.TrimSuffix(url[strings.LastIndexAny(url, "/:")+1:], ".git")
	name = strings.Trim(notInFolder.ReplaceAllString(name, "-"), ".-")
	return cmp.Or(name[:min(len(name), longest)], "repository")
}
