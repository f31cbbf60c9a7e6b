package checkout

import (
	"strings"
	"testing"
)

// TestFilterOfTheProject checks that files that a filter such as git-crypt's
// would encrypt are never committed in plain text. The agent must be asked to
// commit them with its own git.
func TestFilterOfTheProject(t *testing.T) {
	s := newSite(t)
	s.git("config", "filter.crypt.clean", "tr a-z n-za-m")
	s.git("config", "filter.crypt.smudge", "tr n-za-m a-z")
	s.write(".gitattributes", "*.key filter=crypt\n*.txt filter=hidden\n") // the agent's additions do not count
	s.write("my secret.key", "secret\n")
	s.write("c.txt", "plain\n")
	_, err := s.Commit(t.Context(), "what is left", false)
	if said := hookFailed(t, err); !strings.Contains(said, "my secret.key") || strings.Contains(said, "c.txt") {
		t.Errorf("the model is told %q", said)
	}

	// As a last resort, the other files are committed.
	done, err := s.Commit(t.Context(), "what is left", true)
	if err != nil || !done.Made || s.git("show", "HEAD:c.txt") != "plain" {
		t.Fatalf("%+v, %v", done, err)
	}
	if names := s.git("ls-tree", "--name-only", "HEAD"); strings.Contains(names, ".key") {
		t.Errorf("committed without its filter: %s", names)
	}

	s.git("add", "--all") // the agent is told to do this
	s.git("commit", "--quiet", "-m", "the key")
	s.write("d.txt", "more\n")
	if done, err = s.Commit(t.Context(), "what is left", false); err != nil || !done.Made {
		t.Fatalf("%+v, %v", done, err)
	}
	if s.git("cat-file", "blob", "HEAD:my secret.key") != "frperg" || s.git("status", "--porcelain") != "" {
		t.Errorf("the key is %q; left: %s", s.git("cat-file", "blob", "HEAD:my secret.key"), s.git("status", "--porcelain"))
	}
}
