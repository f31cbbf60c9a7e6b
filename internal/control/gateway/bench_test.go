package gateway_test

import (
	"os"
	"path/filepath"
	"testing"

	"aloft/internal/control/gateway"
	"aloft/internal/control/gateway/gittest"
)

// BenchmarkClone clones a repository of 5,000 files through the gateway with a
// warm mirror, and, as the baseline, directly from its server.
func BenchmarkClone(b *testing.B) {
	w := newWorld(b)
	url := w.Repo("r", tree(5000))
	m := w.machine(b, gateway.Grant{Repos: []string{url}})
	m.git("", "clone", "--quiet", url, "warm")
	clone := func(b *testing.B, run func(into string)) {
		for b.Loop() {
			into := filepath.Join(m.dir, "clone")
			run(into)
			b.StopTimer()
			if err := os.RemoveAll(into); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	}
	b.Run("Gateway", func(b *testing.B) { clone(b, func(into string) { m.git("", "clone", "--quiet", url, into) }) })
	b.Run("Plain", func(b *testing.B) {
		clone(b, func(into string) { gittest.Git(b, m.dir, "clone", "--quiet", url, into) })
	})
	b.Run("GatewayNoCheckout", func(b *testing.B) { clone(b, func(into string) { m.git("", "clone", "--quiet", "--bare", url, into) }) })
	b.Run("PlainNoCheckout", func(b *testing.B) {
		clone(b, func(into string) { gittest.Git(b, m.dir, "clone", "--quiet", "--bare", url, into) })
	})
}

// BenchmarkRefresh refreshes from an unchanged upstream on loopback.
func BenchmarkRefresh(b *testing.B) {
	w := newWorld(b)
	url := w.Repo("r", tree(5000))
	for b.Loop() {
		if _, err := w.gw.Check(b.Context(), url, ""); err != nil {
			b.Fatal(err)
		}
	}
}
