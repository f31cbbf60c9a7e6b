// Package packaging tests the script that installs a release.
package packaging

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// release creates a release whose aloft is a shell script, and returns its
// folder and the name of the tarball.
func release(t *testing.T) (dir, tarball string) {
	t.Helper()
	dir = t.TempDir()
	name := "aloft_1.2.3_linux_" + runtime.GOARCH
	var archive bytes.Buffer
	zip := gzip.NewWriter(&archive)
	files := tar.NewWriter(zip)
	script := "#!/bin/sh\necho aloft 1.2.3\n"
	if err := files.WriteHeader(&tar.Header{Name: name + "/aloft", Mode: 0o755, Size: int64(len(script))}); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Write([]byte(script)); err != nil {
		t.Fatal(err)
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(archive.Bytes())
	write(t, filepath.Join(dir, name+".tar.gz"), archive.String())
	write(t, filepath.Join(dir, "SHA256SUMS"), fmt.Sprintf("%s  %s.tar.gz\n%s  install.sh\n", hex.EncodeToString(sum[:]), name, strings.Repeat("0", 64)))
	return dir, name + ".tar.gz"
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// install runs the script and returns its output and the path of the installed
// program.
func install(t *testing.T, release string) (output, program string, err error) {
	t.Helper()
	prefix := t.TempDir()
	cmd := exec.Command("sh", "install.sh", release)
	cmd.Env = append(os.Environ(), "PREFIX="+prefix)
	out, err := cmd.CombinedOutput()
	return string(out), filepath.Join(prefix, "bin", "aloft"), err
}

func TestInstall(t *testing.T) {
	dir, _ := release(t)
	output, program, err := install(t, dir+"/")
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if out, err := exec.Command(program).Output(); err != nil || string(out) != "aloft 1.2.3\n" {
		t.Errorf("the installed program: %q, %v", out, err)
	}
	if !strings.Contains(output, "installed "+program+", aloft 1.2.3") {
		t.Errorf("the output is %q", output)
	}
}

func TestInstallRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(t *testing.T, dir, tarball string) (release string)
		want  string
	}{
		"changed tarball": {func(t *testing.T, dir, tarball string) string {
			other, _ := release(t)
			data, err := os.ReadFile(filepath.Join(other, tarball))
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, tarball), string(data)+"more")
			return dir
		}, "does not have the checksum"},
		"no checksum": {func(t *testing.T, dir, _ string) string {
			write(t, filepath.Join(dir, "SHA256SUMS"), strings.Repeat("0", 64)+"  install.sh\n")
			return dir
		}, "names no tarball"},
		"two tarballs": {func(t *testing.T, dir, tarball string) string {
			line := strings.Repeat("0", 64) + "  " + tarball + "\n"
			write(t, filepath.Join(dir, "SHA256SUMS"), line+line)
			return dir
		}, "several tarballs"},
		"a name with a folder": {func(t *testing.T, dir, tarball string) string {
			write(t, filepath.Join(dir, "SHA256SUMS"), strings.Repeat("0", 64)+"  ../"+tarball+"\n")
			return dir
		}, "names no tarball"},
		"missing tarball": {func(t *testing.T, dir, tarball string) string {
			if err := os.Remove(filepath.Join(dir, tarball)); err != nil {
				t.Fatal(err)
			}
			return dir
		}, "cannot read"},
		"plain http":  {func(*testing.T, string, string) string { return "http://127.0.0.1:1/aloft" }, "neither a folder nor an https:// address"},
		"unreachable": {func(*testing.T, string, string) string { return "https://127.0.0.1:1/aloft" }, "cannot download"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, tarball := release(t)
			output, program, err := install(t, test.spoil(t, dir, tarball))
			if err == nil || !strings.Contains(output, test.want) {
				t.Errorf("%v, %q; want an error with %q", err, output, test.want)
			}
			if _, err := os.Stat(program); !os.IsNotExist(err) {
				t.Errorf("the program was installed: %v", err)
			}
		})
	}
}
