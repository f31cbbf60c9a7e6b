package sandbox

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata")

func TestPlan(t *testing.T) {
	t.Parallel()
	policies := map[string]Policy{
		"nothing":     {},
		"files":       {ReadOnly: []string{"/", "/usr/"}, ReadWrite: []string{"/workspace"}},
		"no_network":  {NoNetwork: true},
		"all":         {ReadOnly: []string{"/"}, ReadWrite: []string{"/workspace", "/tmp"}, NoNetwork: true},
		"best_effort": {ReadOnly: []string{"/"}, ReadWrite: []string{"/tmp"}, NoNetwork: true, BestEffort: true},
		"relative":    {ReadOnly: []string{"usr"}},
	}
	for name, policy := range policies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			for abi := range 8 {
				rules, err := Plan(policy, abi)
				b.WriteString("-- abi " + strconv.Itoa(abi) + " --\n")
				if err != nil {
					b.WriteString("error: " + err.Error() + "\n")
				} else {
					b.WriteString(rules.String())
				}
			}
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.MkdirAll("testdata", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if b.String() != string(want) {
				t.Errorf("got\n%s\nwant\n%s", b.String(), want)
			}
		})
	}
}
