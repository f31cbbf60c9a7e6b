package build

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/control/gateway"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

// Files reads files of repositories: [gateway.Gateway].
type Files interface {
	Files(ctx context.Context, repoURL, ref string, paths []string) (gateway.Tree, error)
	Walk(ctx context.Context, repoURL, commit string, visit func(path string, b gateway.Blob), folders ...string) error
	Contents(ctx context.Context, repoURL string, b gateway.Blob, limit int64) ([]byte, error)
	IDs(ctx context.Context, repoURL, commit string, paths []string) (map[string]string, error)
	Export(ctx context.Context, repoURL, commit, dir string) error
}

// Plan describes what an agent's machine should contain.
type Plan struct {
	Environment environment.Environment
	Where       string               // source of the environment for people; "" if there is none
	Findings    environment.Findings // mistakes in the environment
	Commit      string               // commit from which the environment was read; "" without a repository or a commit
	// Gone is the message to the agent that its saved environment was deleted,
	// and what replaces it; "" if it was not deleted.
	Gone string
	// Inputs is a digest of what install reads: manifests of dependencies and
	// files that install names, at Commit and in the other repositories.
	Inputs string

	dockerfile string // digest of the inputs of the Dockerfile's image; "" without a Dockerfile, or if it cannot be built
	noImage    error  // why the Dockerfile cannot be built
	repoURL    string
	others     []repository // further repositories in the same workspace
	userID     int64
	savedID    string // id of the saved environment; "" for the repository's own
	file       string // the environment's file in the repository
	unasked    bool   // whether this is a background check for which no machine waits
	again      bool   // whether to build even if nothing has changed
	scriptID   string // id of the saved environment whose install is used because the file has none
	chosen     string // id of the saved environment that the agent was created with; "" means that none was chosen
	agentID    string // id of the agent that was created with chosen
	deleted    bool   // whether the environment was deleted; it is then used as it was, without builds
}

// repository is a further repository of the plan, with its commit.
type repository struct {
	url    string
	commit string // "" if it has no commit
}

// commits returns the commits of the plan's repositories, as in the record of a
// build.
func (p Plan) commits() []environment.Commit {
	out := []environment.Commit{{URL: p.repoURL, Commit: p.Commit}}
	for _, r := range p.others {
		out = append(out, environment.Commit{URL: r.url, Commit: r.commit})
	}
	return out
}

// urls returns the URLs of all the plan's repositories.
func (p Plan) urls() (urls []string) {
	for _, c := range p.commits() {
		urls = append(urls, c.URL)
	}
	return urls
}

// foldersOf returns the folders of repositories in a machine.
func foldersOf(urls []string) []string {
	var repos []agent.Repo
	for _, url := range urls {
		repos = append(repos, agent.Repo{URL: url})
	}
	return agent.Folders(repos)
}

// environmentID returns the environment's id in the records of the plan's
// builds.
func (p Plan) environmentID() string {
	if id := cmp.Or(p.savedID, p.scriptID); id != "" {
		return id
	}
	return environment.OfRepository(p.urls()...)
}

// isOf reports whether a build is of the plan's repositories in the same order,
// so that they are in the same folders. A saved environment may be used for
// several sets of repositories, whose disks differ.
func (p Plan) isOf(r environment.Record) bool {
	return slices.EqualFunc(r.Commits, p.urls(), func(c environment.Commit, url string) bool { return c.URL == url })
}

// manifests are files in which projects declare their dependencies. A change to
// one of them anywhere in the repository (monorepos have many) requires a new
// build.
var manifests = []string{
	".bundle/config", ".node-version", ".npmrc", ".nvmrc", ".python-version", ".ruby-version", ".tool-versions", ".yarnrc.yml", "Brewfile",
	"Cargo.lock", "Cargo.toml", "Gemfile", "Gemfile.lock", "MODULE.bazel", "MODULE.bazel.lock", "Package.resolved", "Pipfile", "Pipfile.lock", "WORKSPACE",
	"build.gradle", "build.gradle.kts", "bun.lock", "bun.lockb", "composer.json", "composer.lock", "deno.lock", "environment.yml", "flake.lock", "flake.nix",
	"go.mod", "go.sum", "gradle.lockfile", "mix.exs", "mix.lock", "npm-shrinkwrap.json", "package-lock.json", "package.json", "pdm.lock", "pnpm-lock.yaml",
	"pnpm-workspace.yaml", "poetry.lock", "pom.xml", "pubspec.lock", "pubspec.yaml", "pyproject.toml", "requirements-dev.txt", "requirements.txt", "setup.cfg",
	"setup.py", "uv.lock", "yarn.lock",
}

// isManifest reports whether a file is a manifest of the project itself, and
// not of a vendored dependency or of test data.
func isManifest(name string) bool {
	if slices.Contains(manifests, name) {
		return true
	}
	dir, base := path.Split(name)
	return slices.Contains(manifests, base) && !slices.ContainsFunc(strings.Split(dir, "/"), func(folder string) bool {
		return folder == "node_modules" || folder == "vendor" || folder == "testdata"
	})
}

// maxInputs is how many files named by install are considered.
const maxInputs = 200

// inputs returns the files of the repository that the text of install names,
// either by their path in the repository or by a path that starts with the
// repository's folder in the machine.
func inputs(install, folder string) []string {
	var paths []string
	for word := range strings.FieldsFuncSeq(install, func(r rune) bool { return strings.ContainsRune(" \t\r\n;&|()<>\"'`=$", r) }) {
		p := path.Clean(word)
		for _, at := range []string{folder, "../" + path.Base(folder)} {
			if rest, ok := strings.CutPrefix(p, at+"/"); ok {
				p = rest
			}
		}
		if p != "." && p != ".." && !strings.HasPrefix(p, "../") && !path.IsAbs(p) && len(p) < 256 && len(paths) < maxInputs && !slices.Contains(paths, p) {
			paths = append(paths, p)
		}
	}
	return paths
}

// A source says where an environment is read.
type source struct {
	repoURL, ref string
	userID       int64
	chosen       string // as in [Plan]
	agentID      string // as in [Plan]
}

// sourceOf returns the source of an agent's environment at the ref.
func sourceOf(a agent.Agent, ref string) source {
	return source{a.Repos[0].URL, ref, a.UserID, a.Env.ID, a.ID}
}

// Plan finds the environment of the agent's machine. In order of precedence it
// is the saved environment that the agent was created with, the repository's
// own file at the ref, the user's saved environment, and the team's. An invalid
// file is not an error; the findings describe it.
func (b *Builder) Plan(ctx context.Context, a agent.Agent, ref string) (Plan, error) {
	if len(a.Repos) == 0 {
		return Plan{}, nil
	}
	p, err := b.plan(ctx, sourceOf(a, ref))
	if err != nil || len(a.Repos) == 1 {
		return p, err
	}
	return p, b.addRepositories(ctx, &p, a.Repos[1:])
}

// addRepositories adds the other repositories to a plan, at their refs.
func (b *Builder) addRepositories(ctx context.Context, p *Plan, repos []agent.Repo) error {
	for _, r := range repos {
		tree, err := b.Files.Files(ctx, r.URL, r.StartingRef, nil)
		if err != nil {
			return fmt.Errorf("look at %s: %w", r.URL, err)
		}
		p.others = append(p.others, repository{r.URL, tree.Commit})
	}
	return b.readInputs(ctx, p)
}

// atDefault returns the plan for builds, which start from the default branches.
func (b *Builder) atDefault(ctx context.Context, p Plan) (Plan, error) {
	main, err := b.plan(ctx, source{p.repoURL, "", p.userID, p.chosen, p.agentID})
	if err != nil || len(p.others) == 0 {
		return main, err
	}
	var repos []agent.Repo
	for _, r := range p.others {
		repos = append(repos, agent.Repo{URL: r.url})
	}
	return main, b.addRepositories(ctx, &main, repos)
}

func (b *Builder) plan(ctx context.Context, from source) (Plan, error) {
	p, err := b.declared(ctx, from)
	if err != nil {
		return Plan{}, err
	}
	return p, b.readInputs(ctx, &p)
}

// Ports returns the ports that the agent's environment names at the commit from
// which the agent started. Before that commit is known there are none.
func (b *Builder) Ports(ctx context.Context, a agent.Agent) ([]environment.Port, error) {
	if len(a.Repos) == 0 || a.Origin == "" {
		return nil, nil
	}
	p, err := b.declared(ctx, sourceOf(a, a.Origin))
	return p.Environment.Ports, err
}

// Declared returns the environment that the default branch of the agent's
// repository, or else the saved environment, contained when the agent started.
// Before that it is empty.
func (b *Builder) Declared(ctx context.Context, a agent.Agent) (environment.Environment, error) {
	at := cmp.Or(a.RulesAt, a.Origin)
	if len(a.Repos) == 0 || at == "" {
		return environment.Environment{}, nil
	}
	p, err := b.declared(ctx, sourceOf(a, at))
	return p.Environment, err
}

// declared returns the part of a plan that the environment determines, without
// the files that a build would read.
func (b *Builder) declared(ctx context.Context, from source) (Plan, error) {
	p := Plan{repoURL: from.repoURL, userID: from.userID, chosen: from.chosen, agentID: from.agentID}
	if b.MayReach != nil {
		if err := b.MayReach(ctx, from.userID, from.repoURL); err != nil {
			return Plan{}, err
		}
	}
	paths := slices.Clone(environment.Files)
	for _, name := range environment.Files {
		paths = append(paths, path.Dir(name)) // the folder may be a symbolic link
	}
	tree, err := b.Files.Files(ctx, p.repoURL, from.ref, paths)
	if err != nil {
		return Plan{}, fmt.Errorf("look for an environment: %w", err)
	}
	p.Commit = tree.Commit
	if p.chosen != "" {
		if found, err := b.choose(ctx, &p); found || err != nil {
			return p, err
		}
	}
	for _, name := range environment.Files {
		blob, ok := tree.Files[name]
		if !ok {
			for _, link := range []string{name, path.Dir(name)} {
				if slices.Contains(tree.Links, link) {
					p.Where = fmt.Sprintf("%s at %.12s", link, tree.Commit)
					p.Findings = append(p.Findings, environment.Linked(link))
				}
			}
			continue
		}
		data, err := b.Files.Contents(ctx, p.repoURL, blob, environment.MaxSize+1)
		if err != nil {
			return Plan{}, fmt.Errorf("read %s: %w", name, err)
		}
		e, findings := environment.Parse(name, data)
		p.Environment, p.Findings = e, append(p.Findings, findings...)
		p.Where, p.file = fmt.Sprintf("%s at %.12s", name, tree.Commit), name
		break
	}
	return p, b.saved(ctx, &p)
}

// readInputs determines the inputs of a build of the plan.
func (b *Builder) readInputs(ctx context.Context, p *Plan) error {
	p.Inputs = ""
	if err := b.readDockerfile(ctx, p); err != nil || p.Environment.Install == "" || p.Commit == "" {
		return err
	}
	sum := sha256.New()
	folders := foldersOf(p.urls())
	for i, c := range p.commits() {
		if c.Commit == "" {
			continue
		}
		if i > 0 {
			fmt.Fprintf(sum, "%s\x00", folders[i])
		}
		named, files := inputs(p.Environment.Install, folders[i]), map[string]string{}
		err := b.Files.Walk(ctx, c.URL, c.Commit, func(name string, blob gateway.Blob) {
			if isManifest(name) || slices.Contains(named, name) {
				files[name] = blob.ID
			}
		})
		if err != nil {
			return fmt.Errorf("look for what install reads: %w", err)
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			fmt.Fprintf(sum, "%s\x00%s\x00", name, files[name])
		}
	}
	p.Inputs = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// maxSaved limits how many saved environments are searched.
const maxSaved = 1000

// choose sets the plan's environment to the saved environment that the agent
// was created with, which belongs to the team or to the user. If it was
// deleted, choose uses its content at the time when the agent was created. If
// the journal lacks that content, found is false and the plan is the same as
// for an agent that named no environment.
func (b *Builder) choose(ctx context.Context, p *Plan) (found bool, err error) {
	e, err := environment.Saved{}, store.ErrNotFound
	if b.Saved != nil {
		e, err = b.Saved.Environment(ctx, p.chosen)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return b.chooseDeleted(ctx, p)
	case err != nil:
		return false, fmt.Errorf("read environment: %w", err)
	case !e.Team && e.UserID != p.userID:
		return false, fault.NotFound("the environment %s is another person's", p.chosen).Named(codeNoEnvironment).
			Hint("create an agent with an environment of your own or of the team")
	}
	p.use(e)
	return true, nil
}

const codeNoEnvironment = "environment_not_found"

// chooseDeleted sets the plan's environment to its content at the time when the
// agent was created. The secrets were deleted with the environment.
func (b *Builder) chooseDeleted(ctx context.Context, p *Plan) (found bool, err error) {
	was := fmt.Sprintf("The saved environment %s, with which this agent was created, was deleted, and its secrets with it.", p.chosen)
	var text string
	if b.Journal != nil {
		events, err := b.Journal.Read(ctx, p.agentID, 0, 1)
		if err != nil {
			return false, fmt.Errorf("read journal of %s: %w", p.agentID, err)
		}
		for _, e := range events {
			if c, ok := e.Body.(*agent.Created); ok && c.Env.ID == p.chosen {
				text = c.EnvironmentText
			}
		}
	}
	if text == "" {
		p.Gone = was + " The machine is created as for an agent that names no environment."
		return false, nil
	}
	p.Gone = was + " The machine is created from the environment as it was when the agent was created."
	p.Environment, p.Findings = environment.Parse("environment.json", []byte(text))
	p.deleted = true
	p.Where = fmt.Sprintf("the deleted environment %s, as it was when the agent was created", p.chosen)
	return true, nil
}

// use sets the plan's environment to a saved environment.
func (p *Plan) use(e environment.Saved) {
	saved, findings := environment.Parse("environment.json", []byte(e.Text))
	p.Environment, p.Findings = saved, append(p.Findings, findings...)
	p.Where, p.savedID = fmt.Sprintf("the saved environment %q (%s)", e.Name, e.ID), e.ID
}

// saved makes the plan p use the environment that is saved for the repository,
// if the repository has no file. The user's own environment precedes the
// team's. If the repository has a file without an install command, saved only
// uses an install script that one of the user's agents has stored.
func (b *Builder) saved(ctx context.Context, p *Plan) error {
	inFile := p.file != ""
	if b.Saved == nil || inFile && (p.Environment.Install != "" || !p.Environment.MaySave()) {
		return nil
	}
	list, err := b.Saved.ListEnvironments(ctx, p.userID, store.Page{Limit: maxSaved})
	if err != nil {
		return fmt.Errorf("look for a saved environment: %w", err)
	}
	for _, team := range []bool{false, true} {
		for _, e := range list {
			switch {
			case e.Team != team || !e.For(p.repoURL):
			case !inFile:
				p.use(e)
				return nil
			case e.Script && !e.Team:
				of, _ := environment.Parse("environment.json", []byte(e.Text))
				p.Environment.Install, p.scriptID = of.Install, e.ID
				p.Where += fmt.Sprintf(", with the install that is kept in %s", e.ID)
				return nil
			}
		}
	}
	return nil
}

// EnvironmentOf returns the id of the saved environment of an agent's machine:
// the environment that the agent was created with, or else the environment
// saved for the repository. It returns "" if that environment was deleted or
// does not exist, or if the repository has an environment file. A repository
// that cannot be read counts as having no file.
func (b *Builder) EnvironmentOf(ctx context.Context, a agent.Agent) (string, error) {
	if len(a.Repos) == 0 {
		return "", nil
	}
	p := Plan{repoURL: a.Repos[0].URL, userID: a.UserID, chosen: a.Env.ID, agentID: a.ID}
	if p.chosen != "" {
		if found, err := b.choose(ctx, &p); found || err != nil {
			return p.savedID, err
		}
	}
	if err := b.saved(ctx, &p); err != nil || p.savedID == "" {
		return "", err
	}
	tree, err := b.Files.Files(ctx, p.repoURL, a.Repos[0].StartingRef, environment.Files)
	if err == nil && len(tree.Files) > 0 {
		return "", nil
	}
	return p.savedID, nil
}
