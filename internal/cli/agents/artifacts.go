package agents

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
)

func newAgentArtifactsCommand(a *app) *cobra.Command {
	var folder string
	cmd := &cobra.Command{
		Use:   "artifacts AGENT [PATH...]",
		Short: "List or download an agent's artifacts",
		Long: `List or download an agent's artifacts: files that are kept after its machine is
gone.

An agent saves screenshots, recordings and reports in /opt/cursor/artifacts.
--download saves the files with the given PATHs to a folder, or all files if no
PATH is given. A hidden file, such as .git/config, is saved only if its PATH is
given: programs on your computer may obey it.`,
		Example: `  aloft agent artifacts bc-…
  aloft agent artifacts bc-… --download out
  aloft agent artifacts bc-… --download . artifacts/report.pdf`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			list, err := c.Artifacts(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if list, err = selectArtifacts(list, args[1:]); err != nil {
				return err
			}
			if folder != "" {
				if len(args) == 1 {
					list = a.withoutHidden(list)
				}
				if err := a.download(cmd.Context(), c, args[0], list, folder); err != nil {
					return err
				}
			}
			switch {
			case a.Out.JSON():
				return a.Out.Value(list)
			case len(list) == 0:
				a.Out.Note("No artifacts.")
			case folder == "":
				rows := [][]string{{"PATH", "BYTES", "UPDATED"}}
				for _, f := range list {
					rows = append(rows, []string{cli.Clean(f.Path), fmt.Sprint(f.SizeBytes), f.UpdatedAt.Local().Format(time.DateTime)})
				}
				a.Out.Table(rows)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&folder, "download", "d", "", "save the files to this `folder`")
	return cmd
}

// selectArtifacts returns the artifacts with the given paths, or all if paths is empty.
func selectArtifacts(list []client.Artifact, paths []string) ([]client.Artifact, error) {
	if len(paths) == 0 {
		return list, nil
	}
	by := map[string]client.Artifact{}
	for _, f := range list {
		by[artifactName(f.Path)] = f
	}
	out := make([]client.Artifact, 0, len(paths))
	for _, p := range paths {
		f, ok := by[artifactName(p)]
		if !ok {
			return nil, &cli.Problem{
				Exit: cli.NotFound, Code: "not_found", Message: fmt.Sprintf("the agent has no artifact %s", p),
				Hint: "run the command without a path to list them",
			}
		}
		out = append(out, f)
	}
	return out, nil
}

// artifactName returns an artifact's path below the artifacts folder.
func artifactName(p string) string { return strings.TrimPrefix(p, "artifacts/") }

// withoutHidden returns the artifacts whose paths have no part that begins with
// a dot, and prints a note about the others. An agent chooses the names, and a
// .git/config or a .bashrc would make programs on this computer run the agent's
// commands.
func (a *app) withoutHidden(list []client.Artifact) []client.Artifact {
	var seen []client.Artifact
	for _, f := range list {
		if strings.Contains("/"+artifactName(f.Path), "/.") {
			a.Out.Note("Skipped %s: give its path to save it.", cli.Line(f.Path, 0))
			continue
		}
		seen = append(seen, f)
	}
	return seen
}

// download saves artifacts to folder. The names come from a machine and are
// untrusted, so os.Root confines every write to folder.
func (a *app) download(ctx context.Context, c *client.Client, id string, list []client.Artifact, folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	for i, f := range list {
		name := artifactName(f.Path)
		if !fs.ValidPath(name) || name == "." {
			return fmt.Errorf("the server returned an artifact with an invalid path: %q", f.Path)
		}
		a.Out.Status(fmt.Sprintf("%s (%d of %d)", cli.Clean(name), i+1, len(list)))
		if err := downloadOne(ctx, c, id, f, root, name); err != nil {
			return fmt.Errorf("%s: %w", cli.Clean(name), err)
		}
	}
	a.Out.Note("Saved %d files to %s.", len(list), folder)
	return nil
}

// downloadOne saves one artifact. It leaves no partial file behind.
func downloadOne(ctx context.Context, c *client.Client, id string, f client.Artifact, root *os.Root, name string) error {
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	part := path.Join(path.Dir(name), "."+path.Base(name)+".part")
	file, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	err = errors.Join(c.DownloadArtifact(ctx, id, f.Path, file), file.Close())
	if err == nil {
		err = root.Rename(part, name)
	}
	if err != nil {
		_ = root.Remove(part) // report the first error
	}
	return err
}
