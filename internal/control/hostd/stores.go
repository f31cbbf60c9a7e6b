package hostd

import (
	"context"

	"aloft/internal/control/image"
	"aloft/internal/control/layer"
	"aloft/internal/policy"
)

var storeMethods = map[string]handler{
	"layer":      on(func(_ context.Context, h *Opened, id string) (any, error) { return h.Layers.Layer(id) }),
	"layers":     on(func(_ context.Context, h *Opened, _ none) (any, error) { return h.Layers.List() }),
	"layer.drop": on(func(_ context.Context, h *Opened, id string) (any, error) { return nil, h.Layers.Delete(id) }),
	"layer.size": on(func(ctx context.Context, h *Opened, id string) (any, error) { return h.Layers.Size(ctx, id) }),

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

// layers implements [Layers] with a host-daemon.
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

// images implements [Images] with a host-daemon.
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

// logs implements [Logs] with a host-daemon.
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
