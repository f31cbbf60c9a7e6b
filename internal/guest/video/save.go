package video

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"
)

// errNothing says that a recording has no complete fragment.
var errNothing = errors.New("it ended before the first frames were on disk")

// maxName is the longest name in bytes, without the number and .mp4.
const maxName = 100

// videoEnds are file extensions that are removed from the requested name: a
// recording is always MP4.
var videoEnds = []string{".mp4", ".webm", ".mkv", ".mov", ".avi", ".gif"}

// fileName returns the name of a saved recording, without .mp4. The error is
// for the model.
func fileName(requested string, now time.Time) (string, error) {
	if requested == "" {
		return "recording-" + now.UTC().Format("20060102-150405"), nil
	}
	name := requested
	if end := filepath.Ext(name); slices.Contains(videoEnds, strings.ToLower(end)) {
		name = strings.TrimSuffix(name, end)
	}
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	switch {
	case strings.ContainsAny(name, `/\`), strings.HasPrefix(name, "."), name == "":
		return "", fmt.Errorf("save_as_filename %.100q is not a valid name: give a name without a folder that does not begin with a dot; all recordings are saved in the same folder", requested)
	case !utf8.ValidString(name), strings.ContainsFunc(name, hidden), strings.TrimSpace(name) != name:
		return "", fmt.Errorf("save_as_filename %.100q contains invisible characters", requested)
	case len(name) > maxName:
		return "", fmt.Errorf("save_as_filename is longer than %d bytes", maxName)
	}
	return name, nil
}

// rewrite copies a recording's frames to a file with its length at the start, so that
// browsers show the video before they have loaded all of it. It returns the length.
func rewrite(ctx context.Context, from, to string) (time.Duration, error) {
	path, err := program("ffmpeg")
	if err != nil {
		return 0, err
	}
	var shown progress
	var words limited
	cmd := exec.CommandContext(ctx, path, "-nostdin", "-hide_banner", "-loglevel", "error", "-progress", "pipe:1",
		"-f", "mp4", "-i", "file:"+from, "-c", "copy", "-movflags", "+faststart", "-y", "-f", "mp4", "file:"+to)
	cmd.Env = environ()
	cmd.Stdout, cmd.Stderr = &shown, &words
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case err != nil:
		return 0, fmt.Errorf("ffmpeg: %s", complaintOf(err, words.text()))
	case shown.length() == 0:
		return 0, errNothing
	}
	return shown.length(), nil
}

// maxTaken limits the number of files with the same name.
const maxTaken = 1000

// moveInto moves a file into a folder, under a name that is not taken.
func moveInto(from, folder, name string) (path string, size int64, err error) {
	info, err := os.Stat(from)
	if err != nil {
		return "", 0, err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", 0, err
	}
	for n := 1; n <= maxTaken; n++ {
		path = filepath.Join(folder, name+".mp4")
		if n > 1 {
			path = filepath.Join(folder, fmt.Sprintf("%s-%d.mp4", name, n))
		}
		err = os.Link(from, path)
		if errors.Is(err, syscall.EXDEV) || errors.Is(err, syscall.EPERM) {
			err = copyNew(from, path)
		}
		if !errors.Is(err, fs.ErrExist) {
			return path, info.Size(), err
		}
	}
	return "", 0, fmt.Errorf("%d files in %s have that name: give another name", maxTaken, folder)
}

// copyNew copies a file to a path that must not exist.
func copyNew(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return nil
}
