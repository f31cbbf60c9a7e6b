package dockerfile

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"aloft/internal/control/image/registry"
	"aloft/internal/fault"
	"aloft/internal/policy"
)

// repository creates a folder with files and links. Beside it is a folder that
// does not belong to the repository.
func repository(t *testing.T, files, links map[string]string) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "repo")
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestPrepare(t *testing.T) {
	root := repository(t, map[string]string{
		"a/Dockerfile": "FROM a:1\n", "a/b/x": "", "b/Dockerfile": "FROM team/b\n", "b/Dockerfile.dockerignore": "of b", ".dockerignore": "of the root", "long": strings.Repeat("#", maxDockerfile+1),
	}, map[string]string{
		"out": "/etc", "up": "..", "inner": "a/b", "file": "/etc/passwd", "loop": "loop", "in": "a/Dockerfile", "twice": "inner/../../../..",
	})
	b := &Builder{Engine: daemon{}, Network: Host, Policy: policy.Network{Mode: policy.AllowAll}, Registry: registry.Config{Credentials: map[string]registry.Credential{"docker.io": {Username: "u", Token: "t"}, "ghcr.io": {Token: "t"}}}}
	for name, c := range map[string]struct {
		spec             Spec
		text, ignore, in string // build context, relative to the root
		code             string
	}{
		"file":                 {Spec{Dockerfile: "a/Dockerfile", Context: "a"}, "FROM a:1\n", "", "a", ""},
		"text":                 {Spec{Contents: "FROM c:1\n", Context: "."}, "FROM c:1\n", "of the root", ".", ""},
		"its own ignore file":  {Spec{Dockerfile: "b/Dockerfile", Context: "."}, "FROM team/b\n", "of b", ".", ""},
		"link inside":          {Spec{Dockerfile: "in", Context: "inner"}, "FROM a:1\n", "", "a/b", ""},
		"both":                 {Spec{Dockerfile: "in", Contents: "FROM scratch", Context: "."}, "", "", "", "validation_error"},
		"neither":              {Spec{Context: "."}, "", "", "", "validation_error"},
		"no such file":         {Spec{Dockerfile: "c", Context: "."}, "", "", "", "dockerfile_not_found"},
		"no such context":      {Spec{Contents: "FROM scratch", Context: "c"}, "", "", "", "dockerfile_not_found"},
		"context out":          {Spec{Contents: "FROM scratch", Context: "out"}, "", "", "", "dockerfile_path"},
		"context up":           {Spec{Contents: "FROM scratch", Context: "up"}, "", "", "", "dockerfile_path"},
		"context through link": {Spec{Contents: "FROM scratch", Context: "twice"}, "", "", "", "dockerfile_path"},
		"context by dots":      {Spec{Contents: "FROM scratch", Context: "../.."}, "", "", "", "dockerfile_path"},
		"context absolute":     {Spec{Contents: "FROM scratch", Context: "/etc"}, "", "", "", "dockerfile_path"},
		"context is a loop":    {Spec{Contents: "FROM scratch", Context: "loop"}, "", "", "", "dockerfile_path"},
		"context is a file":    {Spec{Contents: "FROM scratch", Context: "in"}, "", "", "", "dockerfile_path"},
		"file out":             {Spec{Dockerfile: "file", Context: "."}, "", "", "", "dockerfile_path"},
		"file by dots":         {Spec{Dockerfile: "../x", Context: "."}, "", "", "", "dockerfile_path"},
		"file is a folder":     {Spec{Dockerfile: "a", Context: "."}, "", "", "", "dockerfile_path"},
		"file is too long":     {Spec{Dockerfile: "long", Context: "."}, "", "", "", "internal"},
		"secret's id":          {Spec{Contents: "FROM scratch", Context: ".", Secrets: map[string]string{"../x": "y"}}, "", "", "", "validation_error"},
	} {
		t.Run(name, func(t *testing.T) {
			c.spec.Root = root
			p, err := b.prepare(c.spec, t.TempDir())
			if c.code != "" {
				if err == nil || c.code != "internal" && fault.Of(err).Code != c.code {
					t.Errorf("error is %v (%s), want %s", err, fault.Of(err).Code, c.code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var ignore []byte
			if p.job.Ignore != "" {
				ignore, err = os.ReadFile(p.job.Ignore)
			}
			real, evalErr := filepath.EvalSymlinks(filepath.Join(root, c.in))
			if err := errors.Join(err, evalErr); err != nil || p.text != c.text || string(ignore) != c.ignore || p.job.Context != real {
				t.Errorf("text %q, ignore %q, context %s, %v", p.text, ignore, p.job.Context, err)
			}
			auth, err := os.ReadFile(p.job.AuthFile)
			if want := `{"auths":{"ghcr.io":{"registrytoken":"t"},"https://index.docker.io/v1/":{"auth":"dTp0"}}}`; err != nil || string(auth) != want {
				t.Errorf("credentials are %s, %v", auth, err)
			}
		})
	}
}

// daemon is an engine that runs elsewhere. No test asks it to build.
type daemon struct{ Engine }

func (daemon) Fetches() bool       { return true }
func (daemon) Confines() bool      { return false }
func (daemon) HereDocuments() bool { return true }

func TestInstructions(t *testing.T) {
	text := "# escape=\\\n\nFROM a AS b\n# remark\nRUN one && \\\n  # inside\n\n  two\nRUN cat <<EOF <<-'X' && echo \"<<not\" $((1<<2)) <<<word\nRUN not this\nEOF\nRUN nor this\n\tX\nENV A=<<EOF\n  COPY x  y\r\n"
	want := []instruction{{line: 3, end: 3, text: "FROM a AS b"}, {line: 5, end: 8, text: "RUN one && two"}, {line: 9, end: 9, text: `RUN cat <<EOF <<-'X' && echo "<<not" $((1<<2)) <<<word`}, {line: 14, end: 14, text: "ENV A=<<EOF"}, {line: 15, end: 15, text: "COPY x y"}}
	got, err := instructions(text)
	if len(got) != len(want) || err != nil {
		t.Fatalf("got %+v, %v", got, err)
	}
	for i := range want {
		if got[i].line != want[i].line || got[i].end != want[i].end || squeeze(got[i].text) != want[i].text {
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
	if docs := got[2].documents; len(docs) != 4 || docs[3] != "\tX" {
		t.Errorf("its here-documents are %q", docs)
	}
	f := Failure{Step: "RUN one &&   two", Why: "exit status 1"}
	f.location(text)
	if got := f.Error(); got != "Dockerfile:5: RUN one && two: exit status 1" {
		t.Errorf("it says %s", got)
	}
}

func TestRun(t *testing.T) {
	var got []string
	say := func(line string) { got = append(got, line) }
	err := Run(t.Context(), exec.Command("sh", "-c", `printf 'a\nb\rc\r\n\377\n'; printf 'err\n' >&2; head -c 100000 /dev/zero | tr '\0' z; exit 3`), syscall.SIGTERM, say)
	if status, ok := ExitStatus(err); !ok || status != 3 {
		t.Errorf("error is %v", err)
	}
	if len(got) != 6 || got[0] != "a" || got[1] != "c" || got[2] != "\uFFFD" || got[3] != "err" || len(got[4]) != maxLine || len(got[4])+len(got[5]) != 100000 {
		t.Errorf("got %d lines: %.100q", len(got), got)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	err = Run(ctx, exec.Command("sh", "-c", `echo up; sleep 1000 & wait`), syscall.SIGTERM, func(string) { cancel(why) })
	if !errors.Is(err, why) {
		t.Errorf("error is %v", err)
	}
}
