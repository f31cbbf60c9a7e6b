package layer

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/stream"

	"aloft/internal/control/image"
)

// ExportImage writes an image to the folder dir as an OCI layout with the given
// tag, and returns its digest: sha256:…. lower lists the directories of its
// layers, topmost first. The layers are packed anew, so the digest differs from
// that of the original image.
func ExportImage(ctx context.Context, lower []string, c image.Config, dir, tag string) (digest string, err error) {
	img := empty.Image
	config, err := img.ConfigFile()
	if err != nil {
		return "", err
	}
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.User, config.Config.Env, config.Config.WorkingDir = c.User, c.Env, c.WorkingDir
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return "", err
	}
	var packing sync.WaitGroup
	defer packing.Wait() // the caller may delete the layers after this returns
	for _, tree := range slices.Backward(lower) {
		r, w := io.Pipe()
		packing.Go(func() { _ = w.CloseWithError(Pack(ctx, w, tree)) })
		defer func() { _ = r.Close() }() // stops Pack if not everything was read
		if img, err = mutate.AppendLayers(img, stream.NewLayer(r)); err != nil {
			return "", err
		}
	}
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return "", err
	}
	if err := to.AppendImage(img, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag})); err != nil {
		return "", fmt.Errorf("export image: %w", err)
	}
	sum, err := img.Digest()
	return sum.String(), err
}
