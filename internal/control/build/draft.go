package build

import (
	"context"

	"aloft/internal/environment"
	"aloft/internal/fault"
)

// Draft tests an environment.json on the default branch of a repository. It
// makes a separate build that no machine starts from. For an environment
// without install it only checks the base. tell receives progress messages.
func (b *Builder) Draft(ctx context.Context, repoURL string, userID int64, text string, tell func(string)) (environment.Record, environment.Findings, error) {
	p, err := b.plan(ctx, source{repoURL: repoURL, userID: userID})
	if err != nil {
		return environment.Record{}, nil, err
	}
	p.Environment, p.Findings = environment.Parse("environment.json", []byte(text))
	p.Where, p.savedID = "a draft", ""
	if p.Findings.Worst() == environment.Error {
		return environment.Record{}, p.Findings, fault.Invalid("the environment has mistakes").Named("environment_invalid").Hint("the findings list each mistake by line and key")
	}
	if b.Layers == nil {
		return environment.Record{}, p.Findings, fault.NotImplemented("this server cannot save machines, so it cannot build environments in advance")
	}
	if p.Commit == "" {
		return environment.Record{}, p.Findings, fault.Conflict("the repository has no commit to try it on").Named("repository_empty").Hint("push a first commit")
	}
	if err := b.readDockerfile(ctx, &p); err != nil {
		return environment.Record{}, p.Findings, err
	}
	if p.noImage != nil {
		return environment.Record{}, p.Findings, p.noImage
	}
	_, notes, err := b.baseOf(ctx, p)
	if err != nil {
		return environment.Record{}, p.Findings, err
	}
	if len(notes) > 0 {
		return environment.Record{}, p.Findings, fault.Invalid("%s", notes[0]).Named("base_missing").Hint("name another base")
	}
	// Different drafts of one environment must not share builds.
	p.savedID = p.environmentID() + "-draft-" + p.digest()[:16]
	if p.Environment.Install == "" {
		p.Environment.Install = "true"
	}
	r, err := b.Ensure(ctx, p, environment.AgentDraft, tell)
	return r, p.Findings, err
}

// Exists returns which of the paths exist in a repository at a ref ("" is the
// default branch), each with the content of the file. The content of files
// above limit bytes is nil.
func (b *Builder) Exists(ctx context.Context, repoURL, ref string, paths []string, limit int64) (map[string][]byte, error) {
	tree, err := b.Files.Files(ctx, repoURL, ref, paths)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for name, blob := range tree.Files {
		data, err := b.Files.Contents(ctx, repoURL, blob, limit)
		if err != nil {
			data = nil // too large, or not a file
		}
		out[name] = data
	}
	return out, nil
}
