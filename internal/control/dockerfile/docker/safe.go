package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"

	"aloft/internal/fault"
)

// safe refuses a daemon whose builds run as root of its host, or whose version
// has a known escape vulnerability. podman reports whether the daemon is
// Podman.
func (e *Engine) safe(ctx context.Context) (podman bool, err error) {
	var version struct {
		Version    string
		Components []struct{ Name, Version string }
	}
	if err := e.ask(ctx, "/version", &version); err != nil {
		return false, err
	}
	for _, c := range version.Components {
		if c.Name == "Podman Engine" {
			podman, version.Version = true, c.Version
		}
	}
	if why := hole(version.Version, podman); why != "" {
		return podman, fault.NotImplemented("the daemon that builds Dockerfiles has version %s, which is not safe (%s)", version.Version, why).Named("engine_unsafe").
			Hint("update the daemon, or have the server build by BuildKit or buildah: images.builder")
	}
	var info struct{ SecurityOptions []string }
	if err := e.ask(ctx, "/info", &info); err != nil {
		return podman, err
	}
	apart := slices.ContainsFunc(info.SecurityOptions, func(o string) bool {
		name := optionName.FindString(o)
		return name == "name=userns" || name == "name=rootless"
	})
	if !apart {
		return podman, fault.NotImplemented("the daemon that builds Dockerfiles runs their steps as root of its host").Named("engine_unsafe").
			Hint("run the daemon rootless, or with userns-remap, or have the server build by BuildKit or buildah: images.builder")
	}
	return podman, nil
}

var (
	optionName    = regexp.MustCompile(`^[^,]*`)
	versionNumber = regexp.MustCompile(`^v?(\d+)\.(\d+)\.(\d+)`)
)

// hole names the known vulnerabilities of the daemon's version. It returns ""
// if there are none.
func hole(version string, podman bool) string {
	m := versionNumber.FindStringSubmatch(version)
	if m == nil {
		return "its version is not known"
	}
	var is [3]int
	for i := range is {
		is[i], _ = strconv.Atoi(m[i+1]) // only digits
	}
	older := func(than ...int) bool { return slices.Compare(is[:], than) < 0 }
	switch {
	case podman && older(5, 2, 5):
		return "CVE-2024-1753, CVE-2024-9407, CVE-2024-9675"
	case !podman && (older(24, 0, 9) || !older(25, 0, 0) && older(25, 0, 2)):
		return "CVE-2024-21626, CVE-2024-23651"
	}
	return ""
}

// ask sends a GET request for a path and decodes the daemon's JSON response.
func (e *Engine) ask(ctx context.Context, path string, into any) error {
	resp, err := e.do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(into); err != nil {
		return fmt.Errorf("docker: %s: %w", path, err)
	}
	return nil
}
