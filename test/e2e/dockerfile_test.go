package e2e

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/need"
)

// The programs in the test's image. imageLayer adds the libraries that they
// load.
var imagePrograms = []string{
	"bash", "basename", "cat", "chmod", "cp", "cut", "date", "dirname", "echo", "env", "git", "grep", "head", "id", "ls", "mkdir", "mktemp", "mv", "rm", "sed",
	"sleep", "sort", "tail", "tee", "test", "touch", "tr", "true", "uname", "wc", "/usr/lib/git-core/git-remote-http",
}

var libraryPath = regexp.MustCompile(`(/\S+) \(0x`)

// imageLayer returns a tar archive of a small distribution, made from files of
// this host.
func imageLayer(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	add := func(h tar.Header, data []byte) {
		t.Helper()
		h.Size = int64(len(data))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	dirs := map[string]bool{}
	var mkdir func(dir string)
	mkdir = func(dir string) {
		if dir != "." && dir != "/" && !dirs[dir] {
			dirs[dir] = true
			mkdir(filepath.Dir(dir))
			add(tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(dir, "/"), Mode: 0o755}, nil)
		}
	}
	for _, d := range []string{"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/etc", "/root", "/var", "/run", "/proc", "/sys", "/dev"} {
		mkdir(d)
	}
	add(tar.Header{Typeflag: tar.TypeDir, Name: "tmp", Mode: 0o1777}, nil)
	for _, link := range []string{"bin", "sbin", "lib", "lib64"} {
		add(tar.Header{Typeflag: tar.TypeSymlink, Name: link, Linkname: "usr/" + link}, nil)
	}
	seen := map[string]bool{}
	file := func(path string) {
		t.Helper()
		if !strings.HasPrefix(path, "/usr/") {
			path = "/usr" + path // /bin, /lib and so on are the links above
		}
		if seen[path] {
			return
		}
		seen[path] = true
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		mkdir(filepath.Dir(path))
		add(tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(path, "/"), Mode: 0o755}, data)
	}
	for _, p := range imagePrograms {
		path, err := exec.LookPath(p)
		if err != nil {
			need.Missing(t, p, err)
		}
		file(path)
		needs, err := exec.Command("ldd", path).Output()
		if err != nil {
			t.Fatalf("ldd %s: %v", path, err)
		}
		for _, m := range libraryPath.FindAllStringSubmatch(string(needs), -1) {
			file(m[1])
		}
	}
	add(tar.Header{Typeflag: tar.TypeSymlink, Name: "usr/bin/sh", Linkname: "bash"}, nil)
	for _, proto := range []string{"https"} {
		add(tar.Header{Typeflag: tar.TypeSymlink, Name: "usr/lib/git-core/git-remote-" + proto, Linkname: "git-remote-http"}, nil)
	}
	add(tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644}, []byte("root:x:0:0:root:/root:/bin/bash\n"))
	add(tar.Header{Typeflag: tar.TypeReg, Name: "etc/group", Mode: 0o644}, []byte("root:x:0:\n"))
	add(tar.Header{Typeflag: tar.TypeReg, Name: "etc/made-of", Mode: 0o644}, []byte("the registry's image\n"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// baseInRegistry pushes the test's image to a registry on loopback, and returns
// its reference.
func baseInRegistry(t *testing.T) string {
	t.Helper()
	need.Root(t)
	data := imageLayer(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	at := strings.TrimPrefix(server.URL, "http://") + "/team/base:1"
	ref, err := name.ParseReference(at)
	if err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }, tarball.WithCompressionLevel(1))
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config.OS, config.Architecture = "linux", "amd64"
	config.Config.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "FROM_IMAGE=yes"}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	return at
}

const imageScript = `
scripts:
  - turns:
      - calls:
          - {tool: Shell, args: {command: "cat /etc/made-of; cat installed; echo user=$(id -un) env=$FROM_IMAGE; test -e /run/secrets && ls -A /run/secrets; git status --porcelain"}}
      - text: Done.
`

// Machines start from an image in a registry, or from an image that the host's
// engine builds from a repository's Dockerfile. The engine gets secrets, and
// builds again when the Dockerfile changes. An error names the failing line,
// and the previous build stays active.
func TestMachineOfAnImage(t *testing.T) {
	t.Parallel()
	need.Command(t, "buildah")
	ref := baseInRegistry(t)
	git := gittest.New(t)
	a := start(t, scripted(t, imageScript)+fmt.Sprintf("images: {builder: buildah, insecure: [%q]}\n", strings.TrimSuffix(ref, "/team/base:1")))
	run := func(url, ref string) string {
		t.Helper()
		repo := object{"url": url}
		if ref != "" {
			repo["startingRef"] = ref
		}
		return a.events(a.finish(a.create("", "Look", object{"repos": []object{repo}})).AgentID)
	}
	wants := func(events string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(events, want) {
				t.Errorf("the journal does not have %s\n%s", want, events)
			}
		}
	}

	url := git.Repo("pulled", map[string]string{".gitignore": "installed\n", ".cursor/environment.json": fmt.Sprintf(`{"image": %q, "install": "echo installed as $(id -un) > installed"}`, ref)})
	wants(run(url, ""), "the registry's image\\ninstalled as ", "env=yes", `"layer":"bld-`)

	const token = "token-of-the-build"
	if status, body := a.do("PUT", "/v1/team/secrets/BUILD_TOKEN", object{"value": token, "type": "build_secret"}); status/100 != 2 {
		t.Fatal(status, body)
	}
	dockerfile := func(lines string) string { return "FROM " + ref + "\n" + lines }
	url = git.Repo("built", map[string]string{
		".gitignore": "installed\n", "package.json": "of the package\n", "main.go": "1",
		".cursor/environment.json": `{"build": {"dockerfile": "Dockerfile", "context": ".."}, "install": "cat /etc/made-of > installed"}`,
		".cursor/Dockerfile":       dockerfile("COPY package.json /etc/made-of\nRUN --mount=type=secret,id=BUILD_TOKEN \\\n  cat /run/secrets/BUILD_TOKEN; echo of $(wc -c < /run/secrets/BUILD_TOKEN) bytes >> /etc/made-of\n"),
	})
	events := run(url, "")
	wants(events, `of the package\nof 18 bytes\nof the package\nof 18 bytes\nuser=`, "env=yes", `"layer":"bld-`)
	layer := regexp.MustCompile(`"layer":"(bld-[0-9a-f-]+)"`).FindString(events)
	logs := func() (text string) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(a.Data, "builds", "bld-*.log"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			text += string(data)
		}
		return text
	}
	if l := logs(); !strings.Contains(l, "COPY package.json") || strings.Contains(l, token) || strings.Contains(events, token) {
		t.Errorf("the log does not tell of the Dockerfile, or tells the secret:\n%s", l)
	}
	// A change of a file that the Dockerfile does not read causes no new build.
	git.Commit("built", "main", "Change", map[string]string{"main.go": "2"})
	wants(run(url, ""), layer)
	// A branch has its own build, which no other branch uses.
	git.Commit("built", "branch", "Change", map[string]string{"package.json": "of the branch\n"})
	wants(run(url, "branch"), "differs from the default branch", `of the branch\nof 18 bytes\nof the branch`)
	// An error names the failing step, and the previous build stays active.
	git.Commit("built", "main", "Break", map[string]string{".cursor/Dockerfile": dockerfile("USER root\nRUN echo about to fail; exit 3\n")})
	wants(run(url, ""), "could not be built (bld-", "Dockerfile:3: RUN echo about to fail; exit 3: exit status 3", "about to fail", "starts from the previous build", layer)
	// The server is killed during a step: the step's processes end, and nothing
	// is left behind.
	hang := fmt.Sprintf("sleep 6%d", os.Getpid())
	git.Commit("built", "main", "Hang", map[string]string{".cursor/Dockerfile": dockerfile("RUN echo it hangs; exec " + hang + "\n")})
	r := a.create(url, "Look", nil)
	eventually(t, "a step hangs", func() bool { return exec.Command("pgrep", "-fx", hang).Run() == nil }) // the command also appears in the Dockerfile
	a.Kill()
	git.Commit("built", "main", "Mend", map[string]string{".cursor/Dockerfile": dockerfile("RUN echo mended > /etc/made-of\n")})
	a.Start()
	wants(a.events(a.finish(r).AgentID), `mended\nmended\nuser=`)
	eventually(t, "the step is gone", func() bool { return exec.Command("pgrep", "-fx", hang).Run() != nil })
	if left, err := filepath.Glob(filepath.Join(a.Data, "builds", "context-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}
