// Package debian creates an OCI layout of a Debian system with mmdebstrap. It
// is reproducible: the same packages and time give the same image, bit for bit.
package debian

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"aloft/internal/control/image/aptcache"
)

// Options describe an image to create.
type Options struct {
	Suite    string    // Debian suite, such as bookworm
	Variant  string    // mmdebstrap variant: minbase, essential or extract
	Packages []string  // names, or NAME=VERSION
	Mirrors  []string  // URLs or lines of sources.list; empty means Debian's own
	Setup    []byte    // script called with the tree's path; nil for none
	Time     time.Time // upper limit of all times in the image
	Cache    string    // folder that keeps downloaded packages for other builds; "" keeps none
}

// validPackage matches a package name with an optional version. It does not
// match text that apt would parse as an option or a pattern.
var validPackage = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+(:[a-z0-9]+)?(=[A-Za-z0-9.+:~-]+)?$`)

// ParsePackages parses a list with one package per line. # starts a comment.
func ParsePackages(text string) ([]string, error) {
	var out []string
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if !validPackage.MatchString(line) {
			return nil, fmt.Errorf("line %d: invalid package %q: must be NAME or NAME=VERSION", n, line)
		}
		out = append(out, line)
	}
	return out, nil
}

// Build creates the layout at dir, which must not exist. out receives each line
// of output.
func Build(ctx context.Context, dir string, o Options, out func(line string)) (err error) {
	program, err := exec.LookPath("mmdebstrap")
	if err != nil {
		return errors.New("mmdebstrap is not installed: apt-get install -y --no-install-recommends mmdebstrap")
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), ".debian-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	archive := filepath.Join(work, "root.tar")
	args := []string{"--mode=root", "--format=tar", "--verbose", // apt prints the name of each package that it downloads
		"--variant=" + o.Variant, "--components=main"}
	if len(o.Packages) > 0 {
		args = append(args, "--include="+strings.Join(o.Packages, ","))
	}
	if o.Setup != nil {
		script := filepath.Join(work, "setup")
		if err := os.WriteFile(script, o.Setup, 0o700); err != nil {
			return err
		}
		hook := "--customize-hook="
		if o.Variant == "extract" { // this variant installs nothing, so it has no customize step
			hook = "--extract-hook="
		}
		args = append(args, hook+script)
	}
	args = append(args, o.Suite, archive)
	cmd := exec.CommandContext(ctx, program, append(args, o.Mirrors...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "TMPDIR=" + work,
		fmt.Sprintf("SOURCE_DATE_EPOCH=%d", o.Time.Unix())}
	proxies := []string{"http_proxy", "https_proxy", "no_proxy"}
	var cache *aptcache.Proxy
	if o.Cache != "" {
		if cache, err = aptcache.Start(o.Cache); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, cache.Close()) }()
		cmd.Env = append(cmd.Env, "http_proxy="+cache.URL())
		proxies = []string{"https_proxy"} // the cache itself uses http_proxy
	}
	for _, name := range proxies {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	// mmdebstrap mounts folders of the host in the tree, such as /dev/shm, and
	// leaves them mounted if it is killed. In its own mount namespace, these
	// mounts do not prevent the removal of the tree.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM, Unshareflags: syscall.CLONE_NEWNS}
	// Send SIGTERM, so that mmdebstrap unmounts its mounts.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	output, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	last := make(chan string)
	damaged := false
	go func() {
		text := ""
		lines := bufio.NewScanner(output)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if s := strings.TrimSpace(lines.Text()); s != "" {
				if text == "" && strings.HasPrefix(s, "E: ") { // keep the first error; later ones only report the exit
					text = s
				}
				damaged = damaged || strings.Contains(s, "Hash Sum mismatch")
				out(s)
			}
		}
		_, _ = io.Copy(io.Discard, output)
		last <- text
	}()
	err = cmd.Run()
	_ = w.Close()
	text := <-last
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err = fmt.Errorf("mmdebstrap: %w: %s", err, text)
		if damaged && cache != nil {
			err = errors.Join(fmt.Errorf("%w\na downloaded package was damaged; build again to download it again", err), cache.Forget())
		}
		return err
	}
	return writeLayout(dir, archive, o.Time)
}

// writeLayout writes an archive as an OCI layout. Devices are left out, since the
// machine's runtime creates them.
func writeLayout(dir, archive string, at time.Time) error {
	blobs := filepath.Join(dir, "blobs", "sha256")
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		return err
	}
	layer, diff, err := writeLayer(blobs, archive)
	if err != nil {
		return err
	}
	config := map[string]any{
		"created": at.UTC().Format(time.RFC3339), "architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"User": "ubuntu", "WorkingDir": "/workspace", "Env": []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{diff}},
	}
	configBlob, err := writeJSON(blobs, "application/vnd.oci.image.config.v1+json", config)
	if err != nil {
		return err
	}
	manifest, err := writeJSON(blobs, "application/vnd.oci.image.manifest.v1+json", map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": configBlob, "layers": []descriptor{layer},
	})
	if err != nil {
		return err
	}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{manifest}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "index.json"), index, 0o644)
}

type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

func writeJSON(blobs, kind string, v any) (descriptor, error) {
	data, err := json.Marshal(v) // sorts maps, so the output is reproducible
	if err != nil {
		return descriptor{}, err
	}
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	return descriptor{kind, "sha256:" + name, int64(len(data))}, os.WriteFile(filepath.Join(blobs, name), data, 0o644)
}

// writeLayer packs the archive without its devices and returns the blob and the
// digest of its uncompressed content.
func writeLayer(blobs, archive string) (d descriptor, diff string, err error) {
	in, err := os.Open(archive)
	if err != nil {
		return d, "", err
	}
	defer func() { _ = in.Close() }()
	f, err := os.CreateTemp(blobs, ".layer-")
	if err != nil {
		return d, "", err
	}
	packed, plain := &counter{sum: sha256.New(), w: f}, sha256.New()
	zip, err := gzip.NewWriterLevel(packed, gzip.BestSpeed)
	if err == nil {
		err = copyArchive(io.MultiWriter(zip, plain), bufio.NewReaderSize(in, 1<<20))
		err = errors.Join(err, zip.Close())
	}
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return d, "", errors.Join(err, os.Remove(f.Name()))
	}
	name := hex.EncodeToString(packed.sum.Sum(nil))
	d = descriptor{"application/vnd.oci.image.layer.v1.tar+gzip", "sha256:" + name, packed.n}
	return d, "sha256:" + hex.EncodeToString(plain.Sum(nil)), os.Rename(f.Name(), filepath.Join(blobs, name))
}

func copyArchive(w io.Writer, r io.Reader) error {
	in, out := tar.NewReader(r), tar.NewWriter(w)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out.Close()
		}
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
			continue
		}
		if err := out.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
		if _, err := io.Copy(out, in); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
}

type counter struct {
	sum hash.Hash
	w   io.Writer
	n   int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	_, _ = c.sum.Write(p[:n]) // writing to a hash never fails
	c.n += int64(n)
	return n, err
}

// Lock returns NAME=VERSION for each listed package, with the versions from a
// lock of all installed packages.
func Lock(packages []string, lock []byte) ([]string, error) {
	versions := map[string]string{}
	for line := range bytes.Lines(lock) {
		name, version, ok := strings.Cut(strings.TrimSpace(string(line)), "=")
		if ok {
			versions[name] = version
		}
	}
	all := make([]string, 0, len(versions))
	for _, p := range packages {
		name, _, _ := strings.Cut(p, "=")
		if versions[name] == "" {
			return nil, fmt.Errorf("the lock has no version of %s", name)
		}
		all = append(all, name+"="+versions[name])
	}
	return all, nil
}
