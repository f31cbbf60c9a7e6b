package pid1

import (
	"cmp"
	"context"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"aloft/internal/guest/pullproxy"
	"aloft/internal/wire/mux"
)

// setRegistries sets the registries from which Docker pulls through the control
// plane. If there are any, it starts Docker's proxy. In machines that cannot run
// Docker it does nothing.
func (d *Daemon) setRegistries(ctx context.Context, hosts []string) error {
	if d.pulls == nil {
		if len(hosts) == 0 || !mayHave(unix.CAP_SYS_ADMIN) || !mayHave(unix.CAP_NET_ADMIN) {
			return nil
		}
		if err := os.MkdirAll(d.cfg.RunDir, 0o755); err != nil {
			return err
		}
		proxy, err := pullproxy.New(ctx, pullproxy.Config{
			Addr: d.cfg.PullAddr, Dir: d.cfg.RunDir, Bundle: cmp.Or(valueOf(d.cfg.Environ, "SSL_CERT_FILE"), "/etc/ssl/certs/ca-certificates.crt"),
			Defaults: d.cfg.DockerConf, Log: d.cfg.Log,
			Open: func(ctx context.Context) (net.Conn, error) { return d.controls.open(ctx, mux.Registry) },
		})
		if err != nil {
			return err
		}
		d.pulls = proxy
	}
	d.pulls.SetHosts(hosts)
	return nil
}

// valueOf returns the value of a variable of an environment, or "".
func valueOf(environ []string, name string) (value string) {
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}
