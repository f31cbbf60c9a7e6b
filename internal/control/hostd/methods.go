package hostd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"slices"

	"aloft/internal/fault"
)

// handler answers a call. The host-daemon sends the returned files, and then
// closes them.
type handler func(ctx context.Context, s *session) (value any, files []*os.File, err error)

// methods has the handler of each method. The server's and the host-daemon's
// code for a method are in the same file.
var methods = merge(configMethods, machineMethods, storeMethods, buildMethods, gitMethods)

func merge(all ...map[string]handler) map[string]handler {
	merged := map[string]handler{}
	for _, some := range all {
		for name, h := range some {
			merged[name] = h
		}
	}
	return merged
}

// on returns the handler of a method that takes arguments of type A, works on
// the host, and returns a value.
func on[A any](do func(ctx context.Context, h *Opened, a A) (any, error)) handler {
	return with(func(ctx context.Context, _ *session, h *Opened, a A) (any, []*os.File, error) {
		value, err := do(ctx, h, a)
		return value, nil, err
	})
}

// with is like on, for a method that needs the session or passes files to the
// server.
func with[A any](do func(ctx context.Context, s *session, h *Opened, a A) (any, []*os.File, error)) handler {
	return func(ctx context.Context, s *session) (any, []*os.File, error) {
		h, err := s.opened()
		if err != nil {
			return nil, nil, err
		}
		var a A
		if err := json.Unmarshal(s.args, &a); err != nil {
			return nil, nil, fault.Invalid("%v", err)
		}
		return do(ctx, s, h, a)
	}
}

// none is the argument type of methods without arguments.
type none struct{}

// A Configuration is the text of a configuration file, as the host-daemon has read it.
type Configuration struct {
	Text   []byte
	Digest string
	Files  map[string][]byte // files that the text names for the server, by path
}

var configMethods = map[string]handler{
	"load": func(_ context.Context, s *session) (any, []*os.File, error) {
		text, files, err := s.d.Load()
		if err != nil {
			return nil, nil, err
		}
		sum := sha256.Sum256(text)
		c := Configuration{text, hex.EncodeToString(sum[:]), files}
		s.d.mu.Lock()
		defer s.d.mu.Unlock()
		s.d.loaded[c.Digest] = text
		return c, nil, nil
	},
	"open": func(ctx context.Context, s *session) (any, []*os.File, error) {
		var digest string
		if err := json.Unmarshal(s.args, &digest); err != nil {
			return nil, nil, err
		}
		s.d.mu.Lock()
		defer s.d.mu.Unlock()
		text, ok := s.d.loaded[digest]
		if !ok {
			return nil, nil, fault.Conflict("the host-daemon has not loaded this configuration")
		}
		if err := s.d.close(); err != nil {
			s.d.Logger.Error("cannot close the host", "error", err)
		}
		opened, err := s.d.Open(context.WithoutCancel(ctx), text) // the host stays open after the call
		if err != nil {
			return nil, nil, err
		}
		s.d.host = opened
		return openValue{opened.NoMachines, opened.NoNetwork, slices.Sorted(maps.Keys(opened.Folders))}, nil, nil
	},
}

// Load makes the host-daemon read its current configuration, and returns it.
func (c *Client) Load(ctx context.Context) (loaded Configuration, err error) {
	_, err = c.do(ctx, "load", none{}, &loaded, options{})
	return loaded, err
}

// Open opens the host with a configuration that Load has returned. The
// previously opened host must not be used afterwards.
func (c *Client) Open(ctx context.Context, loaded Configuration) (*Host, error) {
	var v openValue
	if _, err := c.do(ctx, "open", loaded.Digest, &v, options{}); err != nil {
		return nil, err
	}
	c.quiet.watch()
	git, err := newGit(ctx, c)
	if err != nil {
		return nil, err
	}
	h := &Host{
		Machines: machines{c}, Logs: logs{c}, Git: git, NoMachines: v.NoMachines, NoNetwork: v.NoNetwork,
		Folders: map[string]Folder{},
		Close:   func() error { return nil }, // the host-daemon closes its host
	}
	for _, name := range v.Folders {
		h.Folders[name] = folder{c, name}
	}
	if v.NoMachines == "" {
		h.Layers, h.Images, h.Dockerfiles = layers{c}, images{c}, dockerfiles{c}
	}
	return h, nil
}

// openValue is the value that the method open returns.
type openValue struct {
	NoMachines, NoNetwork string
	Folders               []string
}
