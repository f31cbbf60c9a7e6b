package fleet

import (
	"context"
	"errors"
	"io"
	"path"

	"aloft/internal/control/execclient"
	"aloft/internal/control/pod"
	"aloft/internal/plugin"
)

// pluginAgents returns the folders in which the plugins of the repository at root define
// subagents. Folders that cannot be read are left out.
func pluginAgents(ctx context.Context, files *execclient.Files, root string) (folders []string, err error) {
	roots := []string{root}
	for _, folder := range plugin.Folders {
		entries, err := files.List(ctx, path.Join(root, folder))
		if fatal := fatalError(ctx, err); fatal != nil {
			return nil, fatal
		}
		for _, e := range entries {
			if e.Folder && !e.Link {
				roots = append(roots, path.Join(root, folder, e.Name))
			}
		}
	}
	for _, at := range roots[:min(len(roots), plugin.Max)] {
		data, err := readFile(ctx, files, path.Join(at, plugin.Manifest), plugin.MaxManifest+1)
		if fatal := fatalError(ctx, err); fatal != nil {
			return nil, fatal
		}
		if err != nil {
			continue
		}
		if _, _, err := plugin.Parse(data); err == nil {
			folders = append(folders, path.Join(at, plugin.Agents))
		}
	}
	return folders, nil
}

// readFile returns at most limit bytes of a file in a machine.
func readFile(ctx context.Context, files *execclient.Files, name string, limit int64) ([]byte, error) {
	_, _, contents, err := files.Read(ctx, name, false)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(contents, limit))
	_ = contents.Close() // the part that matters was read
	return data, err
}

// fatalError returns err if no other file of the machine can be read either.
func fatalError(ctx context.Context, err error) error {
	if err != nil && (errors.Is(err, pod.ErrLost) || ctx.Err() != nil) {
		return err
	}
	return nil
}
