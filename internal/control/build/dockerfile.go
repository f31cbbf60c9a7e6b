package build

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aloft/internal/atomicfile"
	"aloft/internal/control/dockerfile"
	"aloft/internal/environment"
	"aloft/internal/fault"
	"aloft/internal/policy"
	"aloft/internal/secret"
)

// Dockerfiles builds images of Dockerfiles. Its methods are safe for concurrent
// use.
type Dockerfiles interface {
	// Ready returns nil, or a fault that says why images cannot be built and what
	// to do.
	Ready() error
	// Build builds an image and returns the name by which machines refer to it.
	Build(ctx context.Context, spec dockerfile.Spec, out func(line string)) (image string, err error)
	// Has reports whether an image made by Build still exists.
	Has(image string) bool
}

// errNoDockerfiles is the error of a Builder without an image builder.
var errNoDockerfiles = fault.NotImplemented("this server builds no Dockerfiles").Named("no_image_builder").
	Hint("run `aloft doctor` on the server: it says how to install an image builder")

// maxDockerfile is the maximum size of a Dockerfile in bytes.
const maxDockerfile = 1 << 20

// readDockerfile computes the digest of everything that goes into the image of
// the plan's Dockerfile, so that the image is rebuilt exactly when one of these
// inputs changes.
func (b *Builder) readDockerfile(ctx context.Context, p *Plan) error {
	p.dockerfile, p.noImage = "", nil
	spec := p.Environment.Build
	if spec == nil || p.Commit == "" {
		return nil
	}
	p.noImage = errNoDockerfiles
	if b.Dockerfiles != nil {
		p.noImage = b.Dockerfiles.Ready()
	}
	if p.noImage != nil {
		return nil //nolint:nilerr // the plan's findings report it
	}
	text := spec.DockerfileContents
	if spec.Dockerfile != "" {
		tree, err := b.Files.Files(ctx, p.repoURL, p.Commit, []string{spec.Dockerfile})
		if err != nil {
			return fmt.Errorf("look for %s: %w", spec.Dockerfile, err)
		}
		if blob, ok := tree.Files[spec.Dockerfile]; ok { // if it is missing, the build reports that
			data, err := b.Files.Contents(ctx, p.repoURL, blob, maxDockerfile)
			if err != nil {
				return fmt.Errorf("read %s: %w", spec.Dockerfile, err)
			}
			text = string(data)
		}
	}
	paths, all := dockerfile.Reads(text)
	for i := range paths {
		paths[i] = path.Join(spec.Context, paths[i])
	}
	ignores := []string{path.Join(spec.Context, ".dockerignore")}
	if spec.Dockerfile != "" {
		ignores = append(ignores, spec.Dockerfile+".dockerignore")
	}
	read := func(paths []string) (map[string]string, error) {
		ids, err := b.Files.IDs(ctx, p.repoURL, p.Commit, paths)
		if err != nil {
			return nil, fmt.Errorf("find the files that %s copies: %w", cmp.Or(spec.Dockerfile, "the Dockerfile"), err)
		}
		return ids, nil
	}
	ids, err := read(slices.Concat(ignores, paths))
	if err != nil {
		return err
	}
	for _, name := range paths {
		if _, ok := ids[name]; !ok { // behind a symbolic link, or missing
			all = true
		}
	}
	if all {
		if ids, err = read(append(ignores, spec.Context)); err != nil {
			return err
		}
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q\n", spec.Context, text)
	for _, name := range slices.Sorted(maps.Keys(ids)) {
		fmt.Fprintf(sum, "\n%q %s", name, ids[name])
	}
	p.dockerfile = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// digest identifies the inputs of a build of the plan, except the files that
// install reads.
func (p Plan) digest() string {
	if p.dockerfile == "" {
		return p.Environment.BuildDigest()
	}
	sum := sha256.Sum256([]byte(p.Environment.BuildDigest() + p.dockerfile))
	return hex.EncodeToString(sum[:])
}

// isMadeOn reports whether a build was made on the given base.
func (b *Builder) isMadeOn(r environment.Record, from base, p Plan) bool {
	if from.dockerfile { // the digest covers the content of the image
		return r.Base == from.layer && r.Digest == p.digest() && b.Dockerfiles.Has(r.Image)
	}
	return r.Base == from.layer && r.Image == from.image
}

// network returns the network policy of the machines in which the environment
// is built. It is no wider than the policy of the server and the team's policy
// for new agents.
func (b *Builder) network(ctx context.Context, e environment.Environment) (policy.Network, error) {
	all := b.Network
	if all.Mode == "" {
		return all, nil // no policy is set
	}
	if b.TeamEgress != nil {
		team, err := b.TeamEgress(ctx, time.Now())
		if err != nil {
			return policy.Network{}, err
		}
		own, err := policy.ForEnvironment(team.Mode, team.Allow)
		if err != nil {
			return policy.Network{}, fmt.Errorf("the team's network: %w", err)
		}
		all = policy.Narrow(all, own)
	}
	own, err := policy.ForEnvironment(string(e.EgressMode), e.EgressAllowlist)
	if err != nil {
		return policy.Network{}, fault.Invalid("egressAllowlist: %v", err).Named("environment_invalid")
	}
	return policy.Narrow(all, own), nil
}

// image returns the image of the plan's Dockerfile, and builds it if needed.
func (b *Builder) image(ctx context.Context, p Plan, set secret.Set, out *buildLog) (name string, err error) {
	if p.noImage != nil {
		return "", p.noImage
	}
	kept := filepath.Join(b.Dir, "images", p.dockerfile)
	if data, err := os.ReadFile(kept); err == nil && b.Dockerfiles.Has(string(data)) {
		out.line("# the image of this Dockerfile is there")
		return string(data), nil
	}
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		return "", err
	}
	root, err := os.MkdirTemp(b.Dir, "context-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	if err := b.Files.Export(ctx, p.repoURL, p.Commit, root); err != nil {
		return "", err
	}
	network, err := b.network(ctx, p.Environment)
	if err != nil {
		return "", err
	}
	of := p.Environment.Build
	spec := dockerfile.Spec{
		Repository: p.repoURL, Root: root, Dockerfile: of.Dockerfile, Contents: of.DockerfileContents, Context: of.Context,
		Policy: &network, Secrets: set.Vars,
	}
	// The builder's output is untrusted and may contain secrets.
	clean := b.redactorOf(set)
	cleaned := clean.Stream()
	name, err = b.Dockerfiles.Build(ctx, spec, func(line string) { _, _ = out.Write(cleaned.Next([]byte(line + "\n"))) })
	_, _ = out.Write(cleaned.Flush())
	if failed, ok := errors.AsType[*dockerfile.Failure](err); ok {
		words := failed.Error()
		if len(failed.Output) > 0 {
			words += "\n" + strings.Join(failed.Output, "\n")
		}
		err = fault.Invalid("%s", clean.String(words)).Named(fault.Of(failed).Code)
	}
	if err != nil {
		return "", err
	}
	return name, atomicfile.Write(kept, []byte(name), 0o600)
}

// imageNow builds the image of a plan for which there are no builds.
func (b *Builder) imageNow(ctx context.Context, p Plan, tell func(string)) (string, error) {
	set, err := b.variables(ctx, p.environmentID(), p.urls())
	if err != nil {
		return "", err
	}
	log, err := openLog(filepath.Join(b.Dir, "images", p.dockerfile+".log"))
	if err != nil {
		return "", err
	}
	log.news, log.pause = tell, logNews
	name, err := b.image(ctx, p, set, log)
	return name, errors.Join(err, log.close())
}

// tidyImages forgets images that no longer exist, and removes build contexts
// left behind by a killed server. It must not run during a build.
func (b *Builder) tidyImages() error {
	left, err := filepath.Glob(filepath.Join(b.Dir, "context-*"))
	var errs []error
	for _, dir := range left {
		errs = append(errs, os.RemoveAll(dir))
	}
	kept, err2 := os.ReadDir(filepath.Join(b.Dir, "images"))
	if errors.Is(err2, fs.ErrNotExist) {
		err2 = nil
	}
	for _, e := range kept {
		file := filepath.Join(b.Dir, "images", e.Name())
		if strings.HasSuffix(file, ".log") {
			if _, err := os.Stat(strings.TrimSuffix(file, ".log")); errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, os.Remove(file))
			}
			continue
		}
		if data, err := os.ReadFile(file); err == nil && (b.Dockerfiles == nil || !b.Dockerfiles.Has(string(data))) {
			errs = append(errs, os.Remove(file))
		}
	}
	return errors.Join(append(errs, err, err2)...)
}
