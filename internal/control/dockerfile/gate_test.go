package dockerfile

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// testGate returns the gate for an engine with all features. The build context
// has a folder, a link to a target inside, and a link to a target outside.
func testGate(t testing.TB) gate {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "folder/inner"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"within": "folder/inner", "out": "/etc", "up": "../..", "twice": "out"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	return gate{
		args: map[string]string{"GIVEN": "13"}, repository: "https://example.com/mine", reference: new(Builder).fullName, documents: true, aliases: true,
		source: func(name string) (string, error) { return inContext(dir, name) },
	}
}

// TestGateLetsReferenceImagesThrough checks that Aloft builds the Dockerfiles of
// its own reference images.
func TestGateLetsReferenceImagesThrough(t *testing.T) {
	for name, base := range map[string]string{"debian": "docker.io/library/debian:13", "ubuntu": "docker.io/library/ubuntu:24.04"} {
		text, err := os.ReadFile("../../../images/" + name + "/Dockerfile")
		if err != nil {
			t.Fatal(err)
		}
		got, err := testGate(t).pass(string(text))
		if err != nil || len(got.bases) != 1 || got.bases[0].Ref != base {
			t.Errorf("%s: based on %+v, %v", name, got.bases, err)
		}
	}
}

const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func TestGateLetsThrough(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string
		bases      []string
	}{
		"An image":          {"FROM debian:12\nRUN x\n", "FROM docker.io/library/debian:12\nRUN x\n", []string{"docker.io/library/debian:12"}},
		"Another registry":  {"FROM ghcr.io/a/b\n", "FROM ghcr.io/a/b:latest\n", []string{"ghcr.io/a/b:latest"}},
		"A digest":          {"FROM a/b:1@" + digest + "\n", "FROM docker.io/a/b:at-aaaaaaaaaaaaaaaaaaaaaaaa\n", []string{"docker.io/a/b@" + digest}},
		"Arguments":         {"ARG V=12 W=\"deb\"\nARG N=${W}ian\nARG GIVEN=1\nFROM $N:${V}\nFROM x:${GIVEN}\nFROM x:${NONE:-2}\n", "ARG V=12 W=\"deb\"\nARG N=${W}ian\nARG GIVEN=1\nFROM docker.io/library/debian:12\nFROM docker.io/library/x:13\nFROM docker.io/library/x:2\n", []string{"docker.io/library/debian:12", "docker.io/library/x:13", "docker.io/library/x:2"}},
		"This platform":     {"FROM --platform=$BUILDPLATFORM a:1\nFROM --platform=linux/" + runtime.GOARCH + " a:1\n", "FROM docker.io/library/a:1\nFROM docker.io/library/a:1\n", []string{"docker.io/library/a:1"}},
		"Stages":            {"FROM scratch AS One\nFROM one\nCOPY --from=0 /x /x\nCOPY --link --from=one --chown=1 /y /y\nRUN --mount=from=ONE,target=/m,src=/s x\n", "FROM scratch AS one\nFROM one\nCOPY --from=0 /x /x\nCOPY --link --from=one --chown=1 /y /y\nRUN --mount=type=bind,from=one,target=/m,source=/s x\n", nil},
		"An image to copy":  {"FROM scratch\nCOPY --from=b:1 /x /x\n", "FROM scratch\nCOPY --from=docker.io/library/b:1 /x /x\n", []string{"docker.io/library/b:1"}},
		"Context":           {"FROM scratch\nRUN --mount=target=/m --mount=\"type=bind,source=within,dst=/n,rw\" x\n", "FROM scratch\nRUN --mount=type=bind,target=/m --mount=type=bind,source=/folder/inner,target=/n,rw=true x\n", nil},
		"Secrets and more":  {"FROM scratch\nRUN --mount=type=secret,id=t,required --mount=type=tmpfs,target=/t --network=none --security=sandbox x\n", "FROM scratch\nRUN --mount=type=secret,id=t,required=true --mount=type=tmpfs,target=/t --network=none x\n", nil},
		"Continued":         {"FROM scratch\nRUN a \\\n  # why\n\n  b\nRUN c\n", "FROM scratch\nRUN a   b\n\n\n\nRUN c\n", nil},
		"Here-documents":    {"FROM scratch\nRUN \\\n <<EOF\nFROM 3f\nEOF\nCOPY <<-\"A\" /f\n\tA\nRUN x\n", "FROM scratch\n\nRUN <<EOF\nFROM 3f\nEOF\nCOPY <<-\"A\" /f\n\tA\nRUN x\n", nil},
		"Directives":        {"# syntax=docker/dockerfile:1.4\n# escape=\\\nFROM scratch\n# syntax=evil\n", "\n\nFROM scratch\n\n", nil},
		"Later":             {"FROM scratch\nONBUILD COPY . /app\nONBUILD ARG X\n", "FROM scratch\nONBUILD COPY . /app\nONBUILD ARG X\n", nil},
		"Everything else":   {"FROM scratch\nENV A=$B\nHEALTHCHECK --interval=1s CMD x\nADD --checksum=sha256:1 https://x/y /y\n", "FROM scratch\nENV A=$B\nHEALTHCHECK --interval=1s CMD x\nADD --checksum=sha256:1 https://x/y /y\n", nil},
		"Spaces":            {"\uFEFF  from\tdebian:12   as  x \n", "FROM docker.io/library/debian:12 AS x\n", []string{"docker.io/library/debian:12"}},
		"A quoted image":    {"FROM \"debian:12\"\n", "FROM docker.io/library/debian:12\n", []string{"docker.io/library/debian:12"}},
		"A name like an id": {"FROM cafe:1\n", "FROM docker.io/library/cafe:1\n", []string{"docker.io/library/cafe:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := testGate(t).pass(c.text)
			if err != nil {
				t.Fatal(err)
			}
			var bases []string
			for _, b := range got.bases {
				bases = append(bases, b.Ref)
			}
			if got.text != c.want || !slices.Equal(bases, c.bases) {
				t.Errorf("got %q with %q\nwant %q with %q", got.text, bases, c.want, c.bases)
			}
		})
	}
}

func TestGateRefuses(t *testing.T) {
	from := "FROM scratch\n"
	for name, text := range map[string]string{
		// Images built by others, or files on the host.
		"an id":                     "FROM 3f\n",
		"a longer id":               "FROM 3fa9c0de1122\n",
		"an id by its algorithm":    "FROM " + digest + "\n",
		"an id to copy from":        from + "COPY --from=3f /x /x\n",
		"an id to mount":            from + "RUN --mount=type=bind,from=3f,target=/m x\n",
		"an id by an argument":      "ARG X=3f\nFROM $X\n",
		"an id in two parts":        "ARG X=3\nFROM ${X}f\n",
		"an alternative":            "ARG X=1\nFROM ${X:+3f}\n",
		"a pattern":                 "ARG X=debian:12\nFROM ${X%:12}\n",
		"a nested default":          "FROM ${A:-${B:-3f}}\n",
		"no value":                  "FROM $NONE\n",
		"no value to copy from":     from + "COPY --from=$X /x /x\n",
		"a layout":                  "FROM oci:/etc\n",
		"a layout by name":          "FROM oci-layout://x\n",
		"an archive":                "FROM docker-archive:/etc/x.tar\n",
		"another archive":           "FROM oci-archive:/etc/x.tar\n",
		"a folder":                  "FROM dir:/etc\n",
		"the store":                 "FROM containers-storage:x\n",
		"the store in capitals":     "FROM Containers-Storage:x\n",
		"a transport":               "FROM docker://debian:12\n",
		"a daemon":                  "FROM docker-daemon:x:1\n",
		"a layout to copy from":     from + "COPY --from=oci:/etc /x /x\n",
		"a path":                    "FROM /etc\n",
		"a path upwards":            "FROM ../x\n",
		"a flag for an image":       "FROM -x\n",
		"a URL":                     "FROM https://x/y\n",
		"a stage that is not there": from + "COPY --from=1 /x /x\n",
		"itself":                    from + "COPY --from=0 /x /x\n",
		"a negative stage":          from + "COPY --from=-1 /x /x\n",
		"a stage named as a number": "FROM scratch AS 3\n",
		"a stage of two names":      from + "FROM scratch AS a\nFROM scratch AS A\n",
		"another platform":          "FROM --platform=linux/pdp11 a:1\n",
		"nothing":                   "",
		"remarks":                   "# x\n",
		// These directives change how the engine parses the rest.
		"a frontend":               "# syntax=evil.example/x\nFROM a:1\n",
		"a frontend after a check": "# check=skip=all\n#syntax = evil.example/x\nFROM a:1\n",
		"another escape":           "# escape=`\nFROM a:1\n",
		"two backslashes":          from + "RUN x \\\\\nFROM 3f\n",
		"a backslash at the end":   from + "RUN x\\ \\",
		"a control character":      from + "RUN x\x0bFROM 3f\n",
		"a carriage return":        from + "RUN x\rFROM 3f\n",
		"no UTF-8":                 from + "RUN \xff\n",
		"an unknown instruction":   from + "MAKE it so\n",
		"no end":                   from + "RUN <<EOF\nFROM 3f\n",
		"a strange end":            from + "RUN <<E$F\nFROM 3f\nE$F\n",
		"an open quote":            from + "RUN 'x <<EOF\nEOF\n",
		"a quoted flag":            from + "RUN --mount=\"type=bind,target=/m y\" x\n",
		"an escaped flag":          from + "RUN --mount=type=bi\\nd,target=/m x\n",
		"the end of flags":         from + "RUN -- --mount=type=cache,target=/x x\n",
		"an argument of BuildKit":  "ARG BUILDKIT_SYNTAX=x\nRUN x\n",
		"a step before FROM":       "RUN x\n",
		// Invalid --mount options.
		"a link out":               from + "RUN --mount=type=bind,source=out,target=/m x\n",
		"a link out by default":    from + "RUN --mount=source=out,target=/m x\n",
		"a link upwards":           from + "RUN --mount=type=bind,source=up,target=/m x\n",
		"a link to a link":         from + "RUN --mount=type=bind,source=twice,target=/m x\n",
		"below a link":             from + "RUN --mount=type=bind,source=out/ssl,target=/m x\n",
		"upwards":                  from + "RUN --mount=type=bind,source=../x,target=/m x\n",
		"upwards in a stage":       from + "FROM scratch\nRUN --mount=type=bind,from=0,source=a/../../x,target=/m x\n",
		"upwards in a cache":       from + "RUN --mount=type=cache,id=x,source=../x,target=/m x\n",
		"what is not there":        from + "RUN --mount=type=bind,source=none,target=/m x\n",
		"a variable source":        from + "RUN --mount=type=bind,source=$X,target=/m x\n",
		"a variable image":         from + "RUN --mount=type=bind,from=$X,target=/m x\n",
		"a variable type":          from + "RUN --mount=type=$X,target=/m x\n",
		"an agent":                 from + "RUN --mount=type=ssh x\n",
		"another type":             from + "RUN --mount=type=devpts,target=/m x\n",
		"propagation":              from + "RUN --mount=type=bind,source=folder,target=/m,bind-propagation=shared x\n",
		"two sources":              from + "RUN --mount=type=bind,source=folder,src=out,target=/m x\n",
		"two images":               from + "RUN --mount=type=bind,from=a:1,from=3f,target=/m x\n",
		"a secret's path":          from + "RUN --mount=type=secret,id=../x x\n",
		"the host's network":       from + "RUN --network=host x\n",
		"no sandbox":               from + "RUN --security=insecure x\n",
		"a device":                 from + "RUN --device=kvm x\n",
		"a flag that is not there": from + "COPY --unheard-of=1 x y\n",
		"a flag twice":             from + "FROM scratch\nCOPY --from=0 --from=3f x y\n",
		// Instructions for later builds:
		"a layout later":        from + "ONBUILD COPY --from=oci:/etc /x /x\n",
		"an image later":        from + "ONBUILD COPY --from=a:1 /x /x\n",
		"a link later":          from + "ONBUILD RUN --mount=source=out,target=/m x\n",
		"FROM later":            from + "ONBUILD FROM 3f\n",
		"later and later":       from + "ONBUILD ONBUILD RUN x\n",
		"a here-document later": from + "ONBUILD RUN <<EOF\nFROM 3f\nEOF\n",
	} {
		t.Run(name, func(t *testing.T) {
			g := testGate(t)
			if strings.Contains(text, "BUILDKIT") {
				g.args = map[string]string{"BUILDKIT_SYNTAX": "x"}
			}
			if got, err := g.pass(text); err == nil {
				t.Errorf("it is let through as %q with %+v", got.text, got.bases)
			}
		})
	}
}

// TestGateOfOlderEngines checks that here-documents are refused for engines
// that would parse their lines as instructions.
func TestGateOfOlderEngines(t *testing.T) {
	g := testGate(t)
	g.documents = false
	if got, err := g.pass("FROM scratch\nRUN <<EOF\nFROM 3f\nEOF\n"); err == nil {
		t.Errorf("it is let through as %q", got.text)
	}
}

// TestCachesOfRepositories checks that a cache's name can lead neither to
// another path nor to another repository's cache.
func TestCachesOfRepositories(t *testing.T) {
	id := regexp.MustCompile(`^FROM scratch\nRUN --mount=type=cache,target=/c(?:,sharing=locked)?,id=([0-9a-f]{32}) x$`)
	seen := map[string]string{}
	for _, repository := range []string{"https://example.com/mine", "https://example.com/other"} {
		for _, mount := range []string{"id=../../../../etc,target=/c", "target=/c,sharing=locked", "id=x,target=/c", "id=$X,target=/c", "id=/etc,target=/c"} {
			g := testGate(t)
			g.repository = repository
			got, err := g.pass("FROM scratch\nRUN --mount=type=cache," + mount + " x")
			m := id.FindStringSubmatch(got.text)
			if err != nil || m == nil {
				t.Fatalf("%s: %q, %v", mount, got.text, err)
			}
			if before := seen[m[1]]; before != "" {
				t.Errorf("%s of %s is %s too", mount, repository, before)
			}
			seen[m[1]] = mount + " of " + repository
		}
	}
}

// TestTriggers checks the ONBUILD triggers of base images.
// Values that double with each line do not fill the memory.
func TestGateBoundsValues(t *testing.T) {
	text := "ARG A0=xxxxxxxx\n"
	for i := range 24 {
		text += fmt.Sprintf("ARG A%d=$A%d$A%d\n", i+1, i, i)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := testGate(t).pass(text + "FROM $A24\n")
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "has no value") {
		t.Errorf("error is %.200v", err)
	}
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 8 {
		t.Errorf("it allocates %d MiB", used)
	}
}

// The cost of a step of many lines is linear in its length.
func TestGateJoinsLines(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := testGate(t).pass("FROM scratch\nRUN " + strings.Repeat("a \\\n", 20_000) + "b\n")
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Error(err)
	}
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 50 {
		t.Errorf("it allocates %d MiB", used)
	}
}

func TestTriggers(t *testing.T) {
	for text, want := range map[string]bool{
		"COPY . /app": true, "RUN make  && make install": true, "ADD x /x": true, "ARG X": true,
		"COPY --from=oci:/etc /x /x": false, "COPY --from=a:1 /x /x": false, "RUN --mount=type=cache,id=../../etc,target=/c x": false, "RUN --mount=source=out,target=/m x": false,
		"FROM 3f": false, "RUN x\nFROM 3f": false, "RUN x \\": false, "RUN <<EOF": false, "": false, "EVIL x": false,
	} {
		if err := testGate(t).trigger(text); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzGate checks that every engine parses the gate's output in the same way:
// each instruction is on one line, and each image and mount is fully specified.
func FuzzGate(f *testing.F) {
	for _, s := range []string{
		"FROM a:1\nRUN x \\\n y\n<<E\nE", "# escape=`\nFROM a:1\nRUN <<-'A'\nA", "ARG X=1\nFROM ${X:-a:1} AS b\nCOPY --from=b /x /x\n", "FROM scratch\nRUN --mount=type=cache,id=../x,target=/c x\n",
		"FROM scratch\nRUN --mount=type=bind,from=a:1,source=/x,target=/m,rw x\nONBUILD RUN y\n", "FROM \"a:1\"\nRUN \\\n\\\n", "from\ta:1\r\nRUN --mount='type=tmpfs,target=/x' <<A <<B\nA\nB\n", "FROM scratch\nFROM 3f\nFROM oci:/etc\n",
	} {
		f.Add(s)
	}
	plain := regexp.MustCompile(`^FROM (?:scratch|[a-z][a-z0-9_.-]*|[a-z0-9][A-Za-z0-9._/:\[\]@-]*/[A-Za-z0-9._/:@-]+:[A-Za-z0-9_.-]+)(?: AS [a-z][a-z0-9_.-]*)?$`)
	g := testGate(f)
	f.Fuzz(func(t *testing.T, text string) {
		out, err := g.pass(text)
		if err != nil {
			return
		}
		again, err := instructions(out.text)
		if err != nil {
			t.Fatalf("%q was let through as %q, which is refused: %v", text, out.text, err)
		}
		for _, in := range again {
			if in.line != in.end {
				t.Errorf("%q has more than one line in %q", in.text, out.text)
			}
			if in.name() == "FROM" && !plain.MatchString(in.text) {
				t.Errorf("%q was let through as %q", text, in.text)
			}
			if flags, _, err := cutFlags(in.arguments()); in.name() == "RUN" && err == nil {
				for _, flag := range flags {
					if mount, ok := strings.CutPrefix(flag, "--mount="); ok && (!strings.HasPrefix(mount, "type=") || strings.Contains(mount, "..") && !strings.Contains(mount, "target=")) {
						t.Errorf("%q was let through with %s", text, flag)
					}
				}
			}
		}
		twice, err := g.pass(out.text)
		if err != nil && len(out.bases) == 0 && !strings.Contains(out.text, "type=cache") {
			t.Errorf("%q was let through as %q, which is not: %v", text, out.text, err)
		}
		if err == nil && len(twice.bases) != len(out.bases) {
			t.Errorf("%q has other images as %q", text, out.text)
		}
	})
}
