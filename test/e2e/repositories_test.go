package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/need"
)

const severalScript = `
scripts:
  - match: two
    turns:
      - text: I look, and change two of three.
        calls:
          - {tool: Shell, args: {command: "pwd; ls; cat app/README.md app-2/README.md; git -C app-2 branch --show-current; cat ~/installed; echo app >> app/README.md; echo lib >> app-2/README.md"}}
      - text: Done.
  - match: third
    turns:
      - text: I change the third.
        calls:
          - {tool: Shell, args: {command: "ls; echo docs >> docs/README.md; git -C app push origin HEAD:main 2>&1 || true"}}
      - text: Done.
`

// branchOf returns the branch that the run has pushed to a repository.
func (r run) branchOf(url string) string {
	for _, b := range r.Git.Branches {
		if b.RepoURL == strings.TrimPrefix(url, "http://") {
			return b.Branch
		}
	}
	return ""
}

// An agent works on several repositories, each in its own folder. Only branches
// of the repositories that it has changed are pushed.
func TestSeveralRepositories(t *testing.T) {
	t.Parallel()
	app, other := gittest.New(t), gittest.New(t)
	readme := func(s string) map[string]string { return map[string]string{"README.md": s + "\n"} }
	first := readme("the app")
	first[".aloft/environment.json"] = `{"install": "cat ../app/READ* ../app-2/READ* > ~/installed"}`
	urls := []string{app.Repo("app", first), other.Repo("app", readme("the other app")), app.Repo("docs", readme("docs"))}
	other.Commit("app", "next", "Next", readme("the next app"))
	a := start(t, scripted(t, severalScript))
	r := a.finish(a.create("", "Change two", object{"repos": []object{{"url": urls[0]}, {"url": urls[1], "startingRef": "next"}, {"url": urls[2]}}}))
	branch := r.branchOf(urls[0])
	if branch == "" || r.branchOf(urls[1]) != branch || r.branchOf(urls[2]) != "" {
		t.Fatalf("branches %+v\n%s", r.Git.Branches, a.events(r.AgentID))
	}
	if got := gittest.Git(t, app.Path("app"), "show", branch+":README.md"); got != "the app\napp" {
		t.Errorf("the first has %q", got)
	}
	if got := gittest.Git(t, other.Path("app"), "show", branch+":README.md"); got != "the next app\nlib" {
		t.Errorf("the second has %q", got)
	}
	if got := app.Branch("docs", branch); got != "" {
		t.Errorf("the third was pushed without a change, at %s", got)
	}
	if events := a.events(r.AgentID); !strings.Contains(events, `/workspace\napp\napp-2\ndocs\nthe app\nthe next app\n`+branch+`\nthe app\nthe other app\n`) || !strings.Contains(events, `"layer":"bld-`) || strings.Contains(events, `"name":"install"`) {
		t.Errorf("the agent did not find the folders, or what their build has made:\n%s", events)
	}
	_, diff := a.do("GET", "/v1/agents/"+r.AgentID+"/diff", nil)
	for _, want := range []string{"# " + urls[0], "+app", "# " + urls[1], "+lib"} {
		if !strings.Contains(diff, want) {
			t.Errorf("the diff does not have %s:\n%s", want, diff)
		}
	}

	before := app.Branch("app", "main")
	r = a.finish(a.followUp(r, "Change the third"))
	if got := gittest.Git(t, app.Path("docs"), "show", branch+":README.md"); got != "docs\ndocs" {
		t.Errorf("the third has %q", got)
	}
	if app.Branch("app", "main") != before {
		t.Error("the agent has pushed to main")
	}
	if events := a.events(r.AgentID); !strings.Contains(events, "not this run's branch") {
		t.Errorf("no word of the push to main:\n%s", events)
	}
}

// The team's base branch applies to the repositories that have such a branch.
// The others start at their default branch, and the journal says so.
func TestTeamBaseBranch(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	readme := func(s string) map[string]string { return map[string]string{"README.md": s + "\n"} }
	urls := []string{git.Repo("app", readme("main of app")), git.Repo("lib", readme("main of lib"))}
	git.Commit("app", "develop", "Develop", readme("develop of app"))
	a := start(t, scripted(t, `
scripts:
  - turns:
      - calls:
          - {tool: Shell, args: {command: "cat app/README.md lib/README.md"}}
      - text: Done.
`))
	if status, body := a.do("PATCH", "/v1/settings", object{"baseBranch": "develop"}); status != 200 {
		t.Fatalf("settings: %d %s", status, body)
	}
	r := a.finish(a.create("", "Look", object{"repos": []object{{"url": urls[0]}, {"url": urls[1]}}}))
	events := a.events(r.AgentID)
	if !strings.Contains(events, `develop of app\nmain of lib`) {
		t.Errorf("the work does not start at develop and main:\n%s", events)
	}
	if !strings.Contains(events, urls[1]+" has no branch develop") || strings.Contains(events, urls[0]+" has no branch") {
		t.Errorf("the journal does not tell which repository lacks the branch:\n%s", events)
	}
}

// The server is killed after it has pushed the first of two repositories, while
// the second push is blocked. In the end each repository is pushed and reported
// once.
func TestServerIsKilledBetweenPushes(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	urls := []string{git.Repo("one", map[string]string{"a": "a\n"}), git.Repo("two", map[string]string{"a": "a\n"})}
	git.Hook("two", "pre-receive", "while test -e "+git.Dir+"/hold; do sleep 0.1; done\n")
	gittest.Write(t, git.Dir, map[string]string{"hold": ""})
	a := start(t, scripted(t, `
scripts:
  - turns:
      - calls:
          - {tool: Shell, args: {command: "echo b >> one/a; echo b >> two/a"}}
      - text: Done.
`))
	r := a.create("", "Change both", object{"repos": []object{{"url": urls[0]}, {"url": urls[1]}}})
	eventually(t, "the first is pushed", func() bool { return strings.Contains(a.events(r.AgentID), `"pushed"`) })
	a.Kill()
	if err := os.Remove(filepath.Join(git.Dir, "hold")); err != nil {
		t.Fatal(err)
	}
	a.Start()
	r = a.finish(r)
	for i, name := range []string{"one", "two"} {
		if got := gittest.Git(t, git.Path(name), "show", r.branchOf(urls[i])+":a"); got != "a\nb" {
			t.Errorf("%s has %q", name, got)
		}
		if got := gittest.Git(t, git.Path(name), "rev-list", "--count", r.branchOf(urls[i])); got != "2" {
			t.Errorf("%s has %s commits", name, got)
		}
	}
	if n := strings.Count(a.events(r.AgentID), `"kind":"pushed"`); n != 2 {
		t.Errorf("%d pushes are told of\n%s", n, a.events(r.AgentID))
	}
}

// Two repositories, one with submodules and a large file: git can fetch
// repositories of the same owner and named dependencies, and an error names
// each repository that it may not fetch. A large file that the agent commits is
// uploaded before its branch.
func TestSubmodulesAndLargeFiles(t *testing.T) {
	t.Parallel()
	need.Command(t, "git-lfs")
	git, foreign := gittest.New(t), gittest.New(t)
	store := git.LFS()
	secret := foreign.Repo("secret", map[string]string{"s": "the foreign secret\n"})
	git.Repo("deep", map[string]string{"d": "deep\n"})
	named := git.Repo("named", map[string]string{"n": "named\n"})
	git.Repo("lib", map[string]string{"l": "lib\n"})
	git.Submodule("lib", "deep", "../deep.git")
	app := git.Repo("app", map[string]string{
		".gitattributes":          "*.bin filter=lfs diff=lfs merge=lfs -text\n",
		"theirs.bin":              store.Put("a large file of theirs\n"),
		".aloft/environment.json": `{"repositoryDependencies": ["` + named + `", "` + secret + `"]}`,
	})
	git.Submodule("app", "lib", "../lib.git")
	git.Submodule("app", "secret", secret)
	docs := git.Repo("docs", map[string]string{"README.md": "docs\n"})
	a := start(t, scripted(t, `
scripts:
  - turns:
      - calls:
          - {tool: Shell, args: {command: "cd app && cat lib/l lib/deep/d; head -c 7 theirs.bin; echo; git lfs pull && cat theirs.bin; git clone -q `+named+` /tmp/named && cat /tmp/named/n; git clone -q `+secret+` /tmp/secret; echo mine > mine.bin; echo more >> ../docs/README.md; env | grep -c storage-token"}}
      - text: Done.
`))
	r := a.finish(a.create("", "Look, and add a large file", object{"repos": []object{{"url": app}, {"url": docs}}}))
	events := a.events(r.AgentID)
	for _, want := range []string{
		`lib\ndeep\nversion\na large file of theirs\nnamed\n`,
		"submodule secret could not be checked out", "This run may not use the repository " + strings.TrimSuffix(secret, ".git"),
		"The dependency " + secret + " is not available to this agent",
	} {
		if !strings.Contains(events, want) {
			t.Errorf("the journal does not have %s", want)
		}
	}
	for _, not := range []string{"the foreign secret", store.Token()} {
		if strings.Contains(events, not) {
			t.Errorf("the journal has %s", not)
		}
	}
	if got := gittest.Git(t, git.Path("app"), "show", r.branchOf(app)+":mine.bin"); !strings.HasPrefix(got, "version https://git-lfs") || !store.Has("mine\n") {
		t.Errorf("the large file is not on the server; its branch has %q", got)
	}
	if got := gittest.Git(t, git.Path("docs"), "show", r.branchOf(docs)+":README.md"); got != "docs\nmore" {
		t.Errorf("docs has %q", got)
	}
	if t.Failed() {
		t.Log(events)
	}
}
