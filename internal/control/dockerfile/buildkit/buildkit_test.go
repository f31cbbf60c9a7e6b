//go:build engines

package buildkit

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/dockerfile"
	"aloft/internal/control/dockerfile/dockerfiletest"
	"aloft/internal/control/egress"
	"aloft/internal/control/machine/container"
	"aloft/internal/need"
	"aloft/internal/policy"
)

func TestEngine(t *testing.T) {
	need.Root(t)
	bin, err := filepath.Abs("../../../../.bin")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"buildkitd", "buildctl", "runc"} {
		need.File(t, "buildkit", filepath.Join(bin, name))
	}
	e, err := New(Config{Buildctl: filepath.Join(bin, "buildctl"), Buildkitd: filepath.Join(bin, "buildkitd"), Runtime: filepath.Join(bin, "runc"), Dir: t.TempDir(), Links: links})
	if err != nil {
		t.Fatal(err)
	}
	dockerfiletest.Run(t, e)
}

// TestMain can also run the egress process of a build's network.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "gateway" {
		if err := egress.RunProcess(context.Background(), strings.TrimPrefix(os.Args[2], "--dir="), "", slog.New(slog.DiscardHandler)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// link is a [dockerfile.Link].
type link struct{ ns *container.Namespace }

func (l link) Namespace() string  { return l.ns.Path() }
func (l link) Nameserver() string { return container.Nameserver }
func (l link) Close() error       { return l.ns.Close() }

func (l link) SetPolicy(ctx context.Context, n policy.Network) error {
	return egress.NewClient(l.ns.DialGateway).SetPolicy(ctx, n)
}

func links(ctx context.Context, dir string, n policy.Network) (dockerfile.Link, error) {
	ns, err := container.OpenNamespace(ctx, []string{"/proc/self/exe", "gateway"}, dir, n)
	if err != nil {
		return nil, err
	}
	return link{ns}, nil
}
