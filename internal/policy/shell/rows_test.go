package shell

import "testing"

// TestConstructs checks the table in docs/reference/run-modes.md about the
// parts of a command line. Each row has a test of its name. The command git
// status is on the list, and rm is not. testdata/lines.tsv contains more
// examples.
func TestConstructs(t *testing.T) {
	list := Compile([]string{"git status", "echo", "cat", "npm:install*"})
	for _, c := range []struct{ name, allowed, not string }{
		{"prefix at a word boundary", "git status -s", "git statusx"},
		{"case", "git status", "Git status"},
		{"base:args-glob", "npm install left-pad", "npm run install"},
		{"and", "git status && echo x", "git status && rm -rf /"},
		{"or", "git status || echo x", "git status || rm -rf /"},
		{"semicolon", "git status; echo x", "git status; rm -rf /"},
		{"newline", "git status\necho x", "git status\nrm -rf /"},
		{"background", "git status & echo x", "git status & rm -rf /"},
		{"substitution", "echo $(git status)", "echo $(rm -rf /)"},
		{"backquotes", "echo `git status`", "echo `rm -rf /`"},
		{"pipe", "git status | cat", "git status | rm -rf /"},
		{"redirection", "git status 2>&1 > /dev/null", "git status > .git/hooks/pre-commit"},
		{"env", "env git status", "env X=1 rm -rf /"},
		{"assignment", "git status", "PATH=. git status"},
		{"sh -c", "bash -c 'git status'", "sh -c 'rm -rf /'"},
		{"process substitution", "cat <(git status)", "cat <(rm -rf /)"},
		{"here-document", "cat <<'E'\nrm -rf /\nE", "cat <<E\n$(rm -rf /)\nE"},
		{"unreadable", "git status", "$CMD"},
		{"function", "git status", "git() { rm -rf /; }; git status"},
		{"alias", "git status", "alias git=rm\ngit status"},
		{"quoting", `"git" 'status'`, `'rm' -rf /`},
		{"continuation", "git \\\nstatus", "r\\\nm -rf /"},
		{"comment", "git status # rm -rf /", "#\nrm -rf /"},
		{"comment that ends in a backslash", "git status # x\necho y", "git status #\\\nrm -rf /"},
		{"continuation inside of a word", "echo x \\\ny", "echo \"$\\\n(rm -rf /)\""},
		{"quotes in an expansion", "echo \"${x:-a}\"", "echo \"${x:-'$(rm -rf /)'}\""},
		{"quotes in backquotes", "echo `echo x`", "echo `echo \\$(rm -rf /)`"},
		{"end of a here-document", "cat <<E\nx\nE", "cat <<E\n\\\nE\nrm -rf /\nE"},
		{"several words of one", "nice -n 5 git status", "x='5 rm -rf /'; nice -n $x git status"},
		{"look-alike", "git status", "gіt status"}, // a Cyrillic і
	} {
		t.Run(c.name, func(t *testing.T) {
			if v := list.Judge(c.allowed); !v.Allowed {
				t.Errorf("%q is not allowed: %s", c.allowed, v.Why)
			}
			if v := list.Judge(c.not); v.Allowed || v.Why == "" {
				t.Errorf("%q is allowed", c.not)
			}
		})
	}
	t.Run("empty list", func(t *testing.T) {
		if Compile(nil).Judge("git status").Allowed || Compile([]string{}).Judge("echo").Allowed || Compile([]string{""}).Judge("echo").Allowed {
			t.Error("a list of nothing allows something")
		}
	})
}
