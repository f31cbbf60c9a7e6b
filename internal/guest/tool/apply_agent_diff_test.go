package tool_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/guest/file"
	"aloft/internal/guest/tool"
	"aloft/internal/need"
	catalogue "aloft/internal/tool"
)

// TestApplyAgentDiff applies one clone's commits to another clone.
func TestApplyAgentDiff(t *testing.T) {
	need.Command(t, "git")
	const base = "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
	for _, c := range []struct {
		name           string
		theirs, ours   string // shell scripts that run in the clones
		uncommitted    string // a script in our clone whose changes stay uncommitted
		want, unwanted string // texts that the result must, and must not, contain
		refused        bool
		files          map[string]string // content of the file afterwards; "" means that it does not exist
	}{
		{name: "Clean", theirs: "sed -i s/1/one/ a; echo new > new; rm gone; printf '\\000\\001' > bin; mv old renamed; chmod +x run", ours: "sed -i s/9/nine/ a",
			want: "Applied the changes to 7 files:\n", unwanted: "conflict",
			files: map[string]string{"a": "one\n2\n3\n4\n5\n6\n7\n8\nnine\n", "new": "new\n", "gone": "", "bin": "\x00\x01", "old": "", "renamed": "old\n"}},
		{name: "Conflict", theirs: "sed -i s/5/five/ a; echo new > new", ours: "sed -i s/5/FIVE/ a",
			want: "1 file with conflicts", files: map[string]string{"new": "new\n"}},
		{name: "SameChange", theirs: "sed -i s/5/five/ a; echo new > new", ours: "sed -i s/5/five/ a; echo new > new",
			want: "Applied", unwanted: "conflict", files: map[string]string{"a": strings.Replace(base, "5", "five", 1)}},
		{name: "Uncommitted", theirs: "sed -i s/1/one/ a; echo new > new", uncommitted: "sed -i s/9/nine/ a", refused: true,
			want: "Commit your own changes to these files first.", files: map[string]string{"a": strings.Replace(base, "9", "nine", 1), "new": ""}},
		{name: "UncommittedElsewhere", theirs: "sed -i s/1/one/ a", uncommitted: "echo mine > old; touch run",
			want: "Applied", files: map[string]string{"a": strings.Replace(base, "1", "one", 1), "old": "mine\n"}},
		{name: "Unresolved", theirs: "sed -i s/1/one/ a", uncommitted: "git checkout -q -b x; sed -i s/5/x/ a; git commit -qam x; git checkout -q -; sed -i s/5/y/ a; git commit -qam y; git merge x || true", refused: true,
			want: "has unresolved conflicts, for example in a"},
		{name: "FilterOfTheRepository", theirs: "sed -i s/1/one/ a", uncommitted: "git config filter.evil.clean 'touch ../pwned; cat'; git config filter.evil.smudge 'touch ../pwned; cat'; git config merge.evil.driver 'touch ../pwned'; echo 'a filter=evil merge=evil' > .git/info/attributes",
			ours: "sed -i s/2/two/ a", want: "Applied", files: map[string]string{"../pwned": ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			top := t.TempDir()
			dir, other := filepath.Join(top, "ours"), filepath.Join(top, "theirs")
			script := func(at, text string) {
				t.Helper()
				cmd := exec.Command("sh", "-c", text)
				cmd.Dir = at
				cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", text, err, out)
				}
			}
			script(top, "git init -q theirs && cd theirs && printf '"+strings.ReplaceAll(base, "\n", `\n`)+"' > a && echo gone > gone && echo old > old && echo run > run && git add . && git commit -qm base && git tag base && git clone -q . ../ours")
			script(other, c.theirs+"; git add -A && git commit -qm theirs")
			if c.ours != "" {
				script(dir, c.ours+"; git add -A && git commit -qm ours")
			}
			read := func(args ...string) []byte {
				cmd := exec.Command("git", append([]string{"diff", "--no-renames"}, args...)...)
				cmd.Dir = other
				out, err := cmd.Output()
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			payload, err := json.Marshal([]catalogue.Patch{{Text: read("--binary", "--full-index", "base"), Files: strings.Fields(string(read("--name-only", "base")))}})
			if err != nil {
				t.Fatal(err)
			}
			if c.uncommitted != "" {
				script(dir, c.uncommitted)
			}
			ws := tool.Workspace{Dir: dir, Seen: file.NewSeen()}
			out := use(t, tool.ApplyAgentDiff(ws), map[string]any{"agent_id": "bc-1", "payload": base64.StdEncoding.EncodeToString(payload)})
			if out.Error != c.refused || !strings.Contains(out.Text, c.want) || c.unwanted != "" && strings.Contains(out.Text, c.unwanted) {
				t.Errorf("error: %v, %s", out.Error, out.Text)
			}
			for name, want := range c.files {
				got, err := os.ReadFile(filepath.Join(dir, name))
				if string(got) != want || (err == nil) != (want != "") {
					t.Errorf("%s is %q, %v", name, got, err)
				}
			}
			if c.name == "Conflict" {
				got, _ := os.ReadFile(filepath.Join(dir, "a"))
				s := out.Call.GetApplyAgentDiffToolCall().GetResult().GetSuccess()
				if !strings.Contains(string(got), "<<<<<<<") || len(s.GetConflicts()) != 1 || s.GetConflicts()[0] != filepath.Join(dir, "a") || len(s.GetChangedFiles()) != 2 {
					t.Errorf("a is %s, result %v", got, s)
				}
				script(dir, "git add -A && git commit -qm resolved")
			}
		})
	}
	out := use(t, tool.ApplyAgentDiff(tool.Workspace{Dir: t.TempDir()}), map[string]any{"agent_id": "bc-1"})
	if !out.Error || !strings.Contains(out.Text, "did not arrive") {
		t.Errorf("without changes: %q", out.Text)
	}
}
