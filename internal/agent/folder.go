package agent

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Workspace is where a machine has the repository, and the folder that holds
// all of several.
const Workspace = "/workspace"

// Artifacts is where a machine has the files that outlive it.
const Artifacts = "/opt/cursor/artifacts"

// Folders are where a machine has the repositories: one is the workspace
// itself, and several lie beside each other in it, each by its own name.
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

// folderName is the last part of a repository's URL, fit for a folder.
func folderName(url string) string {
	const longest = 100
	url = strings.TrimRight(url, "/")
	name := strings.TrimSuffix(url[strings.LastIndexAny(url, "/:")+1:], ".git")
	name = strings.Trim(notInFolder.ReplaceAllString(name, "-"), ".-")
	return cmp.Or(name[:min(len(name), longest)], "repository")
}
