package secret

import (
	"maps"
	"slices"
	"strings"

	"aloft/internal/fault"
)

// Use is the purpose of a machine.
type Use int

// The purposes of a machine.
const (
	ForAgent Use = iota
	ForBuild     // for a build of an environment; without personal secrets, since the result is shared
)

// rank returns the precedence of the kind of owner; the lowest rank wins.
func rank(k Kind) int { return slices.Index([]Kind{OfAgent, OfEnvironment, OfPerson, OfTeam}, k) }

// Applies reports whether a machine with that use and those repositories (in
// the form of [Repo]) gets the secret.
func (s Secret) Applies(use Use, repos []string) bool {
	switch {
	case rank(s.Owner.Kind) < 0:
		return false
	case use == ForBuild && (s.Owner.Kind == OfPerson || s.Owner.Kind == OfAgent):
		return false
	case use == ForAgent && s.Type == Build:
		return false
	}
	return len(s.Repos) == 0 || slices.ContainsFunc(s.Repos, func(r string) bool { return slices.Contains(repos, r) })
}

// Choose returns the secrets for a machine with the given use, sorted by name. If
// several have the same name, ignoring case, the precedence of their owners decides.
func Choose(all []Sealed, use Use, repos []string) []Sealed {
	chosen := map[string]Sealed{}
	for _, s := range all {
		if !s.Applies(use, repos) {
			continue
		}
		old, ok := chosen[Fold(s.Name)]
		if !ok || before(s.Secret, old.Secret) {
			chosen[Fold(s.Name)] = s
		}
	}
	return slices.SortedFunc(maps.Values(chosen), func(a, b Sealed) int { return strings.Compare(a.Name, b.Name) })
}

// before reports whether a takes precedence over b. The order is total, even if an owner
// has two secrets with the same name, which should not occur.
func before(a, b Secret) bool {
	if x, y := rank(a.Owner.Kind), rank(b.Owner.Kind); x != y {
		return x < y
	}
	return a.ID < b.ID
}

// Set holds a machine's environment variables by name, and which of them are
// secret.
type Set struct {
	Vars   map[string]string
	Hidden []string // sorted names in Vars whose values are redacted from the machine's output
	// Kept are further values to redact, under names that no variable has. The
	// machine does not get them.
	Kept map[string]string
}

// Add adds a variable, and replaces a variable of the same name, ignoring case.
func (s *Set) Add(name, value string, hidden bool) {
	if s.Vars == nil {
		s.Vars = map[string]string{}
	}
	for old := range s.Vars {
		if Fold(old) == Fold(name) {
			delete(s.Vars, old)
			s.Hidden = slices.DeleteFunc(s.Hidden, func(n string) bool { return n == old })
		}
	}
	s.Vars[name] = value
	if hidden {
		s.Hidden = append(s.Hidden, name)
		slices.Sort(s.Hidden)
	}
}

// Environ returns the variables for the machine, including the list of the secret ones.
func (s Set) Environ() map[string]string {
	env := maps.Clone(s.Vars)
	if env == nil {
		env = map[string]string{}
	}
	env[NamesVariable] = strings.Join(s.Hidden, ",")
	return env
}

// Values returns the secret values by name.
func (s Set) Values() map[string]string {
	values := make(map[string]string, len(s.Hidden)+len(s.Kept))
	maps.Copy(values, s.Kept)
	for _, name := range s.Hidden {
		values[name] = s.Vars[name]
	}
	return values
}

// Check returns a fault if the set is too large for a machine's environment.
func (s Set) Check() error {
	total := 0
	for name, value := range s.Vars {
		total += len(name) + len(value)
	}
	if total > MaxTotal {
		return fault.Exhausted("the machine's secrets have %d bytes together; at most %d fit into its environment", total, MaxTotal).
			Named("secrets_too_large").Hint("give large ones to fewer repositories (`aloft secret set --repo`), or keep them elsewhere and fetch them")
	}
	return nil
}
