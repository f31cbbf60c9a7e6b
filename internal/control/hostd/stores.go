package hostd

import (
	"context"

	"aloft/internal/control/image"
	"aloft/internal/control/layer"
	"aloft/internal/fault"
	"aloft/internal/policy"
)

// usage is the result value of the methods that measure.
type usage struct{ Bytes, Inodes int64 }

func usageOf(bytes, inodes int64, err error) (usage, error) { return usage{bytes, inodes}, err }

// entryArgs are the arguments of folder.usage.
type entryArgs struct{ Folder, Name string }

var storeMethods = map[string]handler{
	"layer":      on(func(_ context.Context, h *Opened, id string) (any, error) { return h.Layers.Layer(id) }),
	"layers":     on(func(_ context.Context, h *Opened, _ none) (any, error) { return h.Layers.List() }),
	"layer.drop": on(func(_ context.Context, h *Opened, id string) (any, error) { return nil, h.Layers.Delete(id) }),
	"layer.size": on(func(ctx context.Context, h *Opened, id string) (any, error) { return h.Layers.Size(ctx, id) }),

	"layer.needs": on(func(_ context.Context, h *Opened, _ none) (any, error) { return h.Layers.Needs() }),
	"layer.usage": on(func(ctx context.Context, h *Opened, id string) (any, error) {
		return usageOf(h.Layers.DiskUsage(ctx, id))
	}),
	"folder": on(func(ctx context.Context, h *Opened, name string) (any, error) {
		f, ok := h.Folders[name]
		if !ok {
			return nil, fault.NotFound("no folder %q", name)
		}
		return f.Entries(ctx)
	}),
	"folder.usage": on(func(ctx context.Context, h *Opened, a entryArgs) (any, error) {
		f, ok := h.Folders[a.Folder]
		if !ok {
			return nil, fault.NotFound("no folder %q", a.Folder)
		}
		return usageOf(f.Usage(ctx, a.Name))
	}),

	"image": on(func(ctx context.Context, h *Opened, name string) (any, error) {
		if err := h.AllowImage(name); err != nil {
			return nil, err
		}
		return nil, h.Images.Prepare(ctx, name)
	}),
	"images.prune": on(func(ctx context.Context, h *Opened, o image.PruneOptions) (any, error) { return h.Images.Prune(ctx, o) }),

	"log":      on(func(ctx context.Context, h *Opened, name string) (any, error) { return h.Logs.Read(ctx, name) }),
	"log.drop": on(func(ctx context.Context, h *Opened, name string) (any, error) { return nil, h.Logs.Remove(ctx, name) }),
	"logs":     on(func(ctx context.Context, h *Opened, _ none) (any, error) { return h.Logs.List(ctx) }),
}

// layers is a [Layers] that calls a host-daemon.
type layers struct{ c *Client }

// Layer implements [Layers].
func (l layers) Layer(id string) (found layer.Layer, err error) {
	_, err = l.c.do(context.Background(), "layer", id, &found, options{})
	return found, err
}

// List implements [Layers].
func (l layers) List() (all []layer.Layer, err error) {
	_, err = l.c.do(context.Background(), "layers", none{}, &all, options{})
	return all, err
}

// Delete implements [Layers].
func (l layers) Delete(id string) error {
	_, err := l.c.do(context.Background(), "layer.drop", id, nil, options{})
	return err
}

// Size implements [Layers].
func (l layers) Size(ctx context.Context, id string) (n int64, err error) {
	_, err = l.c.do(ctx, "layer.size", id, &n, options{})
	return n, err
}

// Needs implements [Layers].
func (l layers) Needs() (all []layer.Need, err error) {
	_, err = l.c.do(context.Background(), "layer.needs", none{}, &all, options{})
	return all, err
}

// DiskUsage implements [Layers].
func (l layers) DiskUsage(ctx context.Context, id string) (bytes, inodes int64, err error) {
	var u usage
	_, err = l.c.do(ctx, "layer.usage", id, &u, options{})
	return u.Bytes, u.Inodes, err
}

// folder is a [Folder] that calls a host-daemon.
type folder struct {
	c    *Client
	name string
}

// Entries implements [Folder].
func (f folder) Entries(ctx context.Context) (names []string, err error) {
	_, err = f.c.do(ctx, "folder", f.name, &names, options{})
	return names, err
}

// Usage implements [Folder].
func (f folder) Usage(ctx context.Context, name string) (bytes, inodes int64, err error) {
	var u usage
	_, err = f.c.do(ctx, "folder.usage", entryArgs{f.name, name}, &u, options{})
	return u.Bytes, u.Inodes, err
}

// images is an [Images] that calls a host-daemon.
type images struct{ c *Client }

// Prepare implements [Images].
func (i images) Prepare(ctx context.Context, name string) error {
	_, err := i.c.do(ctx, "image", name, nil, options{})
	return err
}

// Prune implements [Images].
func (i images) Prune(ctx context.Context, o image.PruneOptions) (p image.Pruned, err error) {
	_, err = i.c.do(ctx, "images.prune", o, &p, options{})
	return p, err
}

// logs is a [Logs] that calls a host-daemon.
type logs struct{ c *Client }

// Read implements [Logs].
func (l logs) Read(ctx context.Context, name string) (all []policy.Connection, err error) {
	_, err = l.c.do(ctx, "log", name, &all, options{})
	return all, err
}

// Remove implements [Logs].
func (l logs) Remove(ctx context.Context, name string) error {
	_, err := l.c.do(ctx, "log.drop", name, nil, options{})
	return err
}

// List implements [Logs].
func (l logs) List(ctx context.Context) (names []string, err error) {
	_, err = l.c.do(ctx, "logs", none{}, &names, options{})
	return names, err
}
