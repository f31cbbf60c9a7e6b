package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"aloft/internal/need"
)

// Stand-ins for editors, named after the programs in the dashboard's commands.
// OpenSSH looks for its configuration in the user's home directory rather than
// in $HOME, so ssh gets the file as an option.
var editors = map[string]string{
	"ssh": `#!/bin/sh
[ ! -e "$HOME/.ssh/config" ] || set -- -F "$HOME/.ssh/config" "$@"
exec "$SSH" "$@"
`,
	"code": `#!/bin/sh
[ "$1" = --remote ] || exit 9
echo "cd '$3' && echo \"in \$PWD as \$(whoami)\"" | ssh -T "${2#ssh-remote+}" bash
`,
	"gateway": `#!/bin/bash
IFS='&'
for part in ${1#jetbrains-gateway://connect#}; do
	case $part in
	host=*) host=${part#*=} ;;
	port=*) port=${part#*=} ;;
	user=*) user=${part#*=} ;;
	type=ssh) ssh=ssh ;;
	projectPath=*) path=$(printf '%b' "$(echo "${part#*=}" | sed 's/%/\\x/g')") ;;
	esac
done
echo "cd '$path' && echo \"in \$PWD as \$(whoami)\"" | "$ssh" -T -p "$port" "$user@$host" bash
`,
}

// way is a link or command that the dashboard shows for access to a machine.
type way struct{ name, text string }

// waysOf returns the ways in web/src/words, which contains all texts of the
// dashboard.
func waysOf(t *testing.T, id string) (links, commands []way) {
	t.Helper()
	b, err := os.ReadFile("../../web/src/words/machine.ts")
	if err != nil {
		t.Fatal(err)
	}
	source := string(b)
	gateway := regexp.MustCompile("const gateway = [^`]*`([^`]+)`").FindStringSubmatch(source)
	if gateway == nil {
		t.Fatal("there is no address for Gateway")
	}
	fill := func(list string) (all []way) {
		_, rest, _ := strings.Cut(source, "    "+list+": (id: string)")
		body, _, ok := strings.Cut(rest, "\n    ],")
		for _, m := range regexp.MustCompile("\\[\"([^\"]+)\", (?:\"([^\"]+)\"|`([^`]+)`|(gateway\\(id\\)))\\]").FindAllStringSubmatch(body, -1) {
			text := m[2] + m[3]
			if m[4] != "" {
				text = gateway[1]
			}
			text = strings.ReplaceAll(text, "${gateway(id)}", gateway[1])
			all = append(all, way{m[1], strings.ReplaceAll(text, "${id}", id)})
		}
		if n := strings.Count(body, "\n      ["); !ok || n == 0 || n != len(all) {
			t.Fatalf("%d of %d %s were read", len(all), n, list)
		}
		return all
	}
	return fill("links"), fill("commands")
}

// waysOfTheDashboard tries every way exactly as the dashboard shows it, in the
// dashboard's order, with an empty home.
func waysOfTheDashboard(t *testing.T, a *aloft, id string) {
	v := &visitor{t: t, a: a, home: t.TempDir()}
	bin := t.TempDir()
	for name, script := range editors {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, is := range map[string]string{"aloft": binary(t), "cursor": "code"} {
		if err := os.Symlink(is, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	sh := func(stdin, line string) *exec.Cmd {
		cmd := v.command(strings.NewReader(stdin), "sh", "-c", line)
		cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"), "SSH="+need.Command(t, "ssh"))
		cmd.Dir = v.home
		return cmd
	}
	const inside = "in /workspace as ubuntu\n"
	links, commands := waysOf(t, id)
	for _, w := range commands {
		switch {
		case strings.HasPrefix(w.text, "aloft agent ssh "):
			v.want("/workspace\n", sh("pwd\nexit\n", w.text))
		case w.text == "aloft config-ssh":
			v.want("Written.", sh("y\n", w.text))
		case w.text == "ssh "+id:
			v.want("ubuntu\n", sh("whoami\n", w.text))
		case strings.HasPrefix(w.text, "aloft agent cp "):
			v.want("", sh("", "ssh "+id+" 'echo copied > /workspace/FILE'"))
			v.want("", sh("", w.text))
			if b, err := os.ReadFile(filepath.Join(v.home, "FILE")); string(b) != "copied\n" {
				t.Errorf("%s: %q, %v", w.text, b, err)
			}
			v.want("", sh("", "ssh "+id+" rm /workspace/FILE"))
		case strings.HasPrefix(w.text, "aloft agent forward "):
			forwards(t, sh("", "exec "+w.text+":0")) // port 0 chooses any port: the port that the dashboard shows may be in use
		default:
			v.want(inside, sh("", w.text))
		}
	}
	for _, w := range links {
		scheme, rest, _ := strings.Cut(w.text, "://")
		switch scheme {
		case "vscode", "cursor":
			host, path, _ := strings.Cut(strings.TrimPrefix(rest, "vscode-remote/"), "/")
			v.want(inside, sh("", "code --remote '"+host+"' '/"+path+"'"))
		case "jetbrains-gateway":
			v.want(inside, sh("", "gateway '"+w.text+"'"))
		case "ssh":
			v.want("ubuntu\n", sh("", "ssh '"+w.text+"' whoami"))
		default:
			t.Errorf("%s: nobody has tried %s", w.name, w.text)
		}
	}
}

// forwards waits until a command reports that it forwards a port, and then ends
// the command.
func forwards(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if !strings.Contains(line, "to port 3000 in the machine of") {
		t.Errorf("%v: %q, %v", cmd.Args, line, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
