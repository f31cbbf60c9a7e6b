package hostd

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"aloft/internal/control/dockerfile"
	"aloft/internal/fault"
)

// stopArgs are the arguments of the method build.stop.
type stopArgs struct {
	ID  string
	Why *errorText
}

var buildMethods = map[string]handler{
	"build.ready":   on(func(_ context.Context, h *Opened, _ none) (any, error) { return nil, h.Dockerfiles.Ready() }),
	"build.has":     on(func(_ context.Context, h *Opened, name string) (any, error) { return h.Dockerfiles.Has(name), nil }),
	"build.running": on(func(_ context.Context, h *Opened, _ none) (any, error) { return h.Dockerfiles.Running(), nil }),
	"build.disk":    on(func(ctx context.Context, h *Opened, id string) (any, error) { return h.Dockerfiles.DiskBytes(ctx, id) }),
	"build.stop": on(func(_ context.Context, h *Opened, a stopArgs) (any, error) {
		return h.Dockerfiles.Stop(a.ID, a.Why.decode()), nil
	}),
	"build.prune": on(func(ctx context.Context, h *Opened, _ none) (any, error) { return nil, h.Dockerfiles.Prune(ctx) }),
	"build": with(func(ctx context.Context, s *session, h *Opened, spec dockerfile.Spec) (any, []*os.File, error) {
		root, err := s.folder()
		if err != nil {
			return nil, nil, err
		}
		// Open the folder as the server's user, since the server may have passed a
		// folder that it can neither read nor enter.
		spec.Source = &dockerfile.Source{Folder: root, User: s.d.User, Group: s.group}
		name, err := h.Dockerfiles.Build(ctx, spec, func(line string) {
			_ = s.send(frameLine, line) // if this fails, the server is gone and the call ends
		})
		return name, nil, err
	}),
}

// folder returns the folder that came with the request.
func (s *session) folder() (*os.File, error) {
	if len(s.files) != 1 {
		return nil, fault.Invalid("%d folders instead of one", len(s.files))
	}
	return s.files[0], nil
}

// descriptorPath returns a path that leads to the file of a descriptor of this
// process.
func descriptorPath(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// openFolder opens a folder so that its descriptor can be passed.
func openFolder(path string) (*os.File, error) {
	return os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

// dockerfiles is a [Dockerfiles] that calls a host-daemon.
type dockerfiles struct{ c *Client }

// Ready implements [Dockerfiles].
func (d dockerfiles) Ready() error {
	_, err := d.c.do(context.Background(), "build.ready", none{}, nil, options{})
	return err
}

// Build implements [Dockerfiles].
func (d dockerfiles) Build(ctx context.Context, spec dockerfile.Spec, out func(line string)) (image string, err error) {
	root, err := openFolder(spec.Root)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }() // nothing was written through it
	_, err = d.c.do(ctx, "build", spec, &image, options{files: []*os.File{root}, line: out})
	return image, err
}

// Has implements [Dockerfiles].
func (d dockerfiles) Has(image string) (has bool) {
	_, _ = d.c.do(context.Background(), "build.has", image, &has, options{}) // on error, the image counts as missing
	return has
}

// Running implements [Dockerfiles].
func (d dockerfiles) Running() (ids []string) {
	_, _ = d.c.do(context.Background(), "build.running", none{}, &ids, options{}) // on error, no builds count as running
	return ids
}

// DiskBytes implements [Dockerfiles].
func (d dockerfiles) DiskBytes(ctx context.Context, id string) (n int64, err error) {
	_, err = d.c.do(ctx, "build.disk", id, &n, options{})
	return n, err
}

// Stop implements [Dockerfiles].
func (d dockerfiles) Stop(id string, why error) (stopped bool) {
	_, _ = d.c.do(context.Background(), "build.stop", stopArgs{id, encodeError(why)}, &stopped, options{}) // a host-daemon that does not answer is running no build
	return stopped
}

// Prune implements [Dockerfiles].
func (d dockerfiles) Prune(ctx context.Context) error {
	_, err := d.c.do(ctx, "build.prune", none{}, nil, options{})
	return err
}
