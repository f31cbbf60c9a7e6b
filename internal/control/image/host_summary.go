package image

import (
	"context"
	"os"
	"os/exec"
)

// HostSummary describes what machines of the image "host" can do.
type HostSummary struct {
	Apt     bool // apt-get and the package database are there
	Sources int  // package sources that machines use
	LeftOut int  // package sources that machines do not see, because they need a password or a file of the host
	Sudo    bool
	Docker  bool // dockerd is installed
	Desktop bool
}

// SummarizeHost inspects this host. It changes nothing.
func SummarizeHost(ctx context.Context) (HostSummary, error) {
	root, err := os.OpenRoot("/")
	if err != nil {
		return HostSummary{}, err
	}
	defer func() { _ = root.Close() }()
	settings, _ := exec.CommandContext(ctx, "apt-config", "dump").Output() // a host without apt has no sources
	return host{root: root, settings: string(settings)}.summarize(), nil
}

func (h host) summarize() HostSummary {
	has := func(names ...string) bool {
		for _, name := range names {
			if _, err := h.root.Stat(name); err == nil {
				return true
			}
		}
		return false
	}
	s := h.addSources(&tree{})
	return HostSummary{
		Apt:     has("usr/bin/apt-get") && has("var/lib/dpkg/status"),
		Sources: s.shown, LeftOut: s.hidden,
		Sudo:    has("usr/bin/sudo"),
		Docker:  has("usr/bin/dockerd", "usr/sbin/dockerd", "usr/local/bin/dockerd"),
		Desktop: has("usr/bin/Xtigervnc"),
	}
}
