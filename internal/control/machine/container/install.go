package container

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Installed holds the paths of the programs that [Install] has installed.
type Installed struct {
	Dir  string // value for [Config.Binaries]
	Runc string // value for [Config.RuntimePath]; "" if there was no runc to install
}

// installable lists the programs that the server binary may embed. runc runs on
// the host, the others in machines.
var installable = []string{"pod-daemon", "exec-daemon", "sandbox", "rg", "runc"}

// packed is the name suffix of a gzip-compressed program.
const packed = ".gz"

// Install copies the programs in fsys into a folder below dir, unless that
// folder exists. The folder's name is the programs' digest. fsys may contain
// any of pod-daemon, exec-daemon, sandbox, rg and runc, plain or compressed
// with the suffix ".gz". The folder appears atomically, even if several
// processes install at once. Older folders stay, since existing machines may
// use them.
func Install(fsys fs.FS, dir string) (Installed, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Installed{}, fmt.Errorf("install programs: %w", err)
	}
	names, digest, err := digestPrograms(fsys)
	if err != nil {
		return Installed{}, fmt.Errorf("install programs: %w", err)
	}
	final := filepath.Join(dir, digest)
	in := Installed{Dir: final}
	if slices.Contains(names, "runc") {
		in.Runc = filepath.Join(final, "runc")
	}
	if _, err := os.Lstat(final); err == nil {
		return in, nil
	}
	if err := writePrograms(fsys, names, dir, final); err != nil {
		return Installed{}, fmt.Errorf("install programs: %w", err)
	}
	return in, nil
}

func digestPrograms(fsys fs.FS) (names []string, digest string, err error) {
	sum := sha256.New()
	for _, name := range installable {
		f, _, err := openProgram(fsys, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		one := sha256.New()
		_, err = io.Copy(one, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, "", err
		}
		_, _ = fmt.Fprintf(sum, "%s %x\n", name, one.Sum(nil)) // writing to a hash never fails
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil, "", errors.New("the embedded programs are missing; build with make build")
	}
	return names, hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// openProgram opens a program and reports whether it is compressed.
func openProgram(fsys fs.FS, name string) (f fs.File, compressed bool, err error) {
	f, err = fsys.Open(name + packed)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = fsys.Open(name)
		return f, false, err
	}
	return f, true, err
}

func writePrograms(fsys fs.FS, names []string, dir, final string) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	work, err := os.MkdirTemp(dir, "installing-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		if err := writeProgram(fsys, name, filepath.Join(work, name)); err != nil {
			return err
		}
	}
	err = os.Rename(work, final)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY) {
		return nil // another process has installed it meanwhile
	}
	return err
}

func writeProgram(fsys fs.FS, name, path string) (err error) {
	f, compressed, err := openProgram(fsys, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	src := io.Reader(f)
	if compressed {
		if src, err = gzip.NewReader(f); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	dst, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	// Flush before the rename: a program that a crash truncated would never be
	// repaired.
	return errors.Join(err, dst.Chmod(0o755), dst.Sync(), dst.Close())
}
