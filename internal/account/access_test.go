package account

import (
	"maps"
	"testing"
)

func TestReaches(t *testing.T) {
	limited := Access{Limited: true, Everyone: []string{"git.test/all/*"}, Members: map[int64][]string{2: {"git.test/o/r", "other.test/*"}, 3: {"*"}}}
	kept := limited
	kept.Limited = false
	for _, c := range []struct {
		access Access
		user   int64
		role   Role
		repo   string
		want   bool
	}{
		{Access{}, 2, Member, "git.test/o/r", true},
		{kept, 9, Member, "git.test/o/r", true},
		{limited, 2, Member, "git.test/o/r", true},
		{limited, 2, Member, "git.test/o/r2", false},
		{limited, 2, Member, "git.test/o/r/below", false},
		{limited, 2, Member, "git.test/o", false},
		{limited, 2, Member, "git.test/all/x", true},
		{limited, 2, Member, "git.test/all/x/y", true},
		{limited, 2, Member, "git.test/all/", false},
		{limited, 2, Member, "git.test/all", false},
		{limited, 2, Member, "git.test/allx/y", false},
		{limited, 2, Member, "git.test/all/../o/secret", false},
		{limited, 2, Member, "git.test/all/./x", false},
		{limited, 2, Member, "git.test/all//x", false},
		{limited, 2, Member, "git.test/all/%2e%2e/secret", false},
		{limited, 2, Member, `git.test/all/..\secret`, false},
		{limited, 2, Member, "git.test:8443/o/r", false},
		{limited, 2, Member, "other.test/a", true},
		{limited, 2, Member, "other.test.evil/a", false},
		{limited, 9, Member, "git.test/o/r", false},
		{limited, 3, Member, "anywhere.test/x", true},
		{limited, 9, Viewer, "git.test/o/r", false},
		{limited, 9, "", "git.test/o/r", false},
		{limited, 9, Admin, "git.test/o/r", true},
		{limited, 9, Owner, "git.test/o/r", true},
		{Access{Limited: true}, 2, Member, "git.test/o/r", false},
	} {
		read, err := ParseAccess(c.access.String())
		if err != nil || !maps.EqualFunc(read.Members, c.access.Members, func(a, b []string) bool { return len(a) == len(b) }) {
			t.Fatalf("%+v is read as %+v: %v", c.access, read, err)
		}
		if got := read.Reaches(c.user, c.role, c.repo); got != c.want {
			t.Errorf("%+v: user %d, %q, reaches %s: %v", c.access, c.user, c.role, c.repo, got)
		}
	}
}

func TestCheckPattern(t *testing.T) {
	for pattern, ok := range map[string]bool{
		"git.test/o/r": true, "git.test/*": true, "git.test/o/*": true, "*": true, "git.test/a/b/c": true,
		"": false, "git.test": false, "/*": false, "git.test/": false, "git.test/o/": false, "git.*/o": false, "git.test/o*": false,
		"git.test/../o": false, "git.test/a b": false, "git.test/%2e": false, "**": false, "u@git.test/o": false,
	} {
		if err := CheckPattern(pattern); (err == nil) != ok {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}
