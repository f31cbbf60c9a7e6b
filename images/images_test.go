package images

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// instructions returns the instructions of a Dockerfile, without comments. It
// joins continued lines.
func instructions(t *testing.T, file string) (all []string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var open bool
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		text, continued := strings.CutSuffix(line, `\`)
		if open {
			all[len(all)-1] += " " + strings.TrimSpace(text)
		} else {
			all = append(all, strings.TrimSpace(text))
		}
		open = continued
	}
	return all
}

// TestReferenceImages checks that the Dockerfiles of Debian and Ubuntu do the
// same, except for the base, the packages of Docker, and the browser.
func TestReferenceImages(t *testing.T) {
	debian, ubuntu := instructions(t, "debian/Dockerfile"), instructions(t, "ubuntu/Dockerfile")
	if len(debian) != len(ubuntu) || len(debian) < 8 {
		t.Fatalf("they have %d and %d instructions", len(debian), len(ubuntu))
	}
	var differ []string
	for i, d := range debian {
		if d == ubuntu[i] {
			continue
		}
		kind, _, _ := strings.Cut(d, "=")
		if strings.HasPrefix(d, "RUN ") && strings.HasSuffix(d, " chromium && rm -rf /var/lib/apt/lists/*") && strings.Contains(ubuntu[i], " google-chrome-stable && rm -rf /var/lib/apt/lists/*") {
			kind = "the browser"
		}
		differ = append(differ, kind)
	}
	if want := []string{"ARG BASE", "ARG DOCKER", "ARG BROWSER", "the browser"}; !slices.Equal(differ, want) {
		t.Errorf("they differ in %q, want %q", differ, want)
	}
	for _, want := range []string{"docker.io", "docker-compose", "docker-buildx"} {
		for name, all := range map[string][]string{"Debian": debian, "Ubuntu": ubuntu} {
			if !strings.Contains(all[2], want) {
				t.Errorf("%s: no %s in %s", name, want, all[2])
			}
		}
	}
}

// TestReferenceImageHasAll checks that the reference image has all packages of
// the default base image and of its desktop.
func TestReferenceImageHasAll(t *testing.T) {
	has := strings.Fields(strings.Join(instructions(t, "debian/Dockerfile"), " "))
	for line := range strings.Lines(Packages + Desktop + Docker) {
		name := strings.TrimSpace(line)
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if !slices.ContainsFunc(has, func(word string) bool { return strings.Trim(word, `"`) == name || word == `DOCKER="`+name }) {
			t.Errorf("images/debian/Dockerfile lacks %s", name)
		}
	}
}
