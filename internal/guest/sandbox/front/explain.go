package front

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"aloft/internal/guest/sandbox"
	"aloft/internal/policy"
	sandboxpolicy "aloft/internal/policy/sandbox"
)

// explain prints the policy's verdict on each path and host in about, or the
// plan if there are none.
func explain(r sandbox.Request, about []string, p Process) error {
	if len(about) == 0 {
		return explainPlan(r, p)
	}
	rules, err := r.Rules(p.Getenv)
	if err != nil {
		return err
	}
	matcher, err := r.Policy.Network.Compile()
	if err != nil {
		return err
	}
	for _, what := range about {
		word, rule, ask := "no", "", ""
		access, isPath := sandboxpolicy.Read, false
		name, isWrite := strings.CutPrefix(what, "w:")
		if isWrite {
			access, isPath = sandboxpolicy.Write, true
		} else if name, isPath = strings.CutPrefix(what, "r:"); !isPath {
			isPath = strings.Contains(what, "/")
		}
		if isPath {
			full, err := filepath.Abs(name)
			if err != nil {
				return err
			}
			v := rules.Judge(access, resolve(full))
			rule, ask = v.Rule, v.Ask
			if v.Allowed {
				word = "yes"
			}
		} else {
			v := judgeHost(r.Policy, matcher, what)
			rule = v.Rule
			if v.Allowed {
				word = "yes"
			} else {
				ask = "add it to networkPolicy.allow of sandbox.json"
			}
		}
		line := fmt.Sprintf("%-3s  %s  (%s)", word, what, rule)
		if word == "no" && ask != "" {
			line += "; " + ask
		}
		if _, err := fmt.Fprintln(p.Stdout, line); err != nil {
			return err
		}
	}
	return nil
}

func judgeHost(p sandboxpolicy.Policy, m *policy.Matcher, host string) policy.Verdict {
	if p.Type == sandboxpolicy.InsecureNone {
		return policy.Verdict{Allowed: true, Rule: "type insecure_none"}
	}
	if p.UnrestrictedHosts {
		return policy.Verdict{Allowed: true, Rule: "the host's own network"}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return m.Address(addr, nil)
	}
	return m.Name(host)
}

// resolve resolves the links of the existing part of a path.
func resolve(name string) string {
	if full, err := filepath.EvalSymlinks(name); err == nil {
		return full
	}
	dir := filepath.Dir(name)
	if dir == name {
		return name
	}
	return filepath.Join(resolve(dir), filepath.Base(name))
}

func explainPlan(r sandbox.Request, p Process) error {
	spec, err := r.Spec(p.Getenv)
	if err != nil {
		return err
	}
	layout, err := sandbox.PlanHere(spec)
	if err != nil {
		return err
	}
	_, err = io.WriteString(p.Stdout, layout.String())
	return err
}

func probe(out io.Writer) error {
	k := sandbox.Probe()
	if _, err := fmt.Fprintln(out, sandbox.Describe(k)); err != nil {
		return err
	}
	layout, err := sandbox.Plan(sandbox.Spec{Rules: sandboxpolicy.Default().In(sandboxpolicy.Scope{Workspaces: []string{existing()}}), Masked: sandbox.Sockets()}, k, sandbox.HostTree)
	if missing, ok := errors.AsType[*sandbox.UnenforceableError](err); ok {
		fmt.Fprintln(out, "status: this host cannot enforce:", strings.Join(missing.Missing, "; "))
		for _, h := range sandbox.Hints() {
			fmt.Fprintln(out, "to fix this:", h)
		}
		return missing
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "status:", layout.Status())
	return nil
}

// existing returns an existing folder for which to explain the rules.
func existing() string {
	if dir, err := os.Getwd(); err == nil && dir != "/" {
		return dir
	}
	return "/tmp"
}
