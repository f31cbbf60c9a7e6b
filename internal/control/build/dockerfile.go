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

// Dockerfiles makes images of Dockerfiles. Its methods are safe for concurrent use.
type Dockerfiles interface {
	// Ready returns why there is nothing that builds, as a fault with advice.
	Ready() error
	// Build makes an image, and returns the name by which machines know it.
	Build(ctx context.Context, spec dockerfile.Spec, out func(line string)) (image string, err error)
	// Has reports whether an image that Build has made is still there.
	Has(image string) bool
}

// errNoDockerfiles is why a Builder without an engine builds none.
var errNoDockerfiles = fault.NotImplemented("this server builds no Dockerfiles").Named("no_image_builder").
	Hint("run `aloft doctor` on the server: it says how to get what builds them")

// maxDockerfile is how long a Dockerfile may be, in bytes.
const maxDockerfile = 1 << 20

// readDockerfile finds out what the image of the plan's Dockerfile is made of,
// so that it is made again when, and only when, that is another.
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
		return nil //nolint:nilerr // the plan says it
	}
	text := spec.DockerfileContents
	if spec.Dockerfile != "" {
		tree, err := b.Files.Files(ctx, p.repoURL, p.Commit, []string{spec.Dockerfile})
		if err != nil {
			return fmt.Errorf("look for %s: %w", spec.Dockerfile, err)
		}
		if blob, ok := tree.Files[spec.Dockerfile]; ok { // if not, the build says so
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
			return nil, fmt.Errorf("look for what %s copies: %w", cmp.Or(spec.Dockerfile, "the Dockerfile"), err)
		}
		return ids, nil
	}
	ids, err := read(slices.Concat(ignores, paths))
	if err != nil {
		return err
	}
	for _, name := range paths {
		if _, ok := ids[name]; !ok { // it is behind a link, or nowhere
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

// digest identifies what decides what a build of the plan makes, beside the
// files that install reads.
func (p Plan) digest() string {
	if p.dockerfile == "" {
		return p.Environment.BuildDigest()
	}
	sum := sha256.Sum256([]byte(p.Environment.BuildDigest() + p.dockerfile))
	return hex.EncodeToString(sum[:])
}

// fits reports whether a build that was made began with this base.
func (b *Builder) fits(r environment.Record, from base, p Plan) bool {
	if from.dockerfile { // whose digest says what is in the image
		return r.Base == from.layer && r.Digest == p.digest() && b.Dockerfiles.Has(r.Image)
	}
	return r.Base == from.layer && r.Image == from.image
}

// network is that of the machines in which the environment is made ready: no
// wider than the server's, and than what the team has settled for new agents.
func (b *Builder) network(ctx context.Context, e environment.Environment) (policy.Network, error) {
	all := b.Network
	if all.Mode == "" {
		return all, nil // there is none
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

// image makes the image of the plan's Dockerfile, and returns the name of it.
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
	// What an engine says is a machine's word.
	clean := b.redactorOf(set)
	said := clean.Stream()
	name, err = b.Dockerfiles.Build(ctx, spec, func(line string) { _, _ = out.Write(said.Next([]byte(line + "\n"))) })
	_, _ = out.Write(said.Flush())
	if failed, ok := errors.AsType[*dockerfile.Failure](err); ok {
		words := failed.Error()
		if len(failed.Said) > 0 {
			words += "\n" + strings.Join(failed.Said, "\n")
		}
		err = fault.Invalid("%s", clean.String(words)).Named(fault.Of(failed).Code)
	}
	if err != nil {
		return "", err
	}
	return name, atomicfile.Write(kept, []byte(name), 0o600)
}

// imageNow makes the image of a plan that nothing is built of ahead.
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

// tidyImages forgets which Dockerfiles the images are of that are gone, and
// removes what a server that was killed has left of their contexts. Nothing is
// built meanwhile.
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
