package shell

import (
	"regexp"
	"strings"
)

// changesShell are the builtins of bash that change the meaning of later words,
// or that run text which is not on the line.
var changesShell = set(`. source eval exec alias unalias enable hash trap set shopt declare typeset local export readonly unset let read mapfile
	readarray getopts bind complete compgen compopt history fc jobs disown suspend coproc wait caller return shift
	ulimit umask logout pushd popd dirs [[`)

// inert programs have no arguments that start a program or write a file, so any
// arguments are allowed.
const inert = `echo true false : pwd cat head tail wc ls basename dirname realpath readlink stat du df whoami id groups uname nl tac rev cut tr
	cmp comm join paste expand unexpand fold fmt seq sleep expr grep egrep fgrep md5sum sha1sum sha224sum sha256sum sha384sum sha512sum cksum
	b2sum base64 base32 od hexdump jq which printenv diff nproc arch tty users uptime free lscpu numfmt factor strings cd`

// runners run the command in their arguments. An entry must contain at least
// that command's program, whose arguments are then judged.
const runners = `sudo su doas pkexec runuser setpriv chroot unshare nsenter strace ltrace gdb gdbserver lldb script expect watch parallel flock entr
	tmux screen at batch crontab systemd-run taskset chrt numactl unbuffer rlwrap dbus-run-session xvfb-run fakeroot proot bwrap firejail
	busybox toybox ld.so ld-linux.so.2 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 start-stop-daemon daemonize npx bunx uvx pipx capsh setarch linux32 linux64
	i386 x86_64 run-parts hyperfine fzf direnv poetry pipenv uv bundle rye pdm hatch conda mamba rbenv pyenv nodenv asdf mise nix nix-shell guix foreman
	nodemon concurrently cross-env gosu su-exec tini dumb-init valgrind perf rr heaptrack prlimit choom sshpass autossh mosh torsocks proxychains
	proxychains4 tsocks eatmydata faketime cpulimit chronic sg runcon ssh-agent dbus-launch systemd-inhibit systemd-cat systemd-nspawn wine catchsegv`

// spelledOut programs run text in their own languages or on other hosts: an entry must
// contain all arguments.
const spelledOut = `socat nc ncat netcat telnet ssh vi vim nvim view ex ed emacs nano pico ksh zsh fish csh tcsh ash rbash
	tclsh wish osascript m4 dc bc sqlite3 mysql psql mongosh redis-cli ftp lftp sftp irb pry ghci iex erl scala groovy jshell gnuplot ip deno bun
	ts-node tsx mutt mail sendmail crash logrotate`

// programs lists the programs whose arguments matter, keyed by the last element of their
// path. All other programs are trusted to do what the author of the entry expects.
var programs = func() map[string]program {
	m := map[string]program{
		"printf":   {afterFirst: true, begins: []string{"-v"}, check: printf},
		"test":     {words: []string{"-v", "-R"}},
		"[":        {words: []string{"-v", "-R"}},
		"xargs":    {spelled: true},
		"node":     {check: script},
		"git":      gitProgram,
		"tar":      tarProgram,
		"sort":     {long: []string{"compress-program", "output", "files0-from", "temporary-directory"}, short: "oT"},
		"uniq":     {check: oneFile},
		"xxd":      {check: oneFile},
		"date":     {long: []string{"set"}, short: "s"},
		"split":    {long: []string{"filter"}},
		"rg":       {long: []string{"pre", "hostname-bin", "search-zip"}, short: "z"},
		"ag":       {long: []string{"pager"}},
		"bat":      {long: []string{"pager", "diff"}},
		"zip":      {long: []string{"unzip-command", "test"}, short: "T"},
		"cpio":     {long: []string{"rsh-command", "file"}, short: "FOI"},
		"sed":      {check: sed, long: []string{"file", "in-place"}, short: "fi"},
		"go":       {check: goTool, begins: dashes("exec", "toolexec", "vettool", "ldflags", "gcflags", "asmflags", "gccgoflags", "overlay", "modfile", "pkgdir", "C", "o")},
		"cmake":    {begins: []string{"-P", "-E", "-C", "-D"}},
		"cargo":    {long: []string{"config"}, begins: []string{"+"}},
		"openssl":  {begins: dashes("engine", "provider", "config", "out", "keyout", "writerand")},
		"hostname": {check: hostname},
		"file":     {long: []string{"compile", "uncompress", "magic-file"}, short: "CzZm"},
		"tree":     {short: "o", words: []string{"--output"}},
		"gofmt":    {short: "w"},
		"man":      {long: []string{"pager", "html", "preprocessor", "config-file", "manpath"}, short: "PHpCM"},
		"scp":      {short: "SoFD"},
		"rsync":    {long: []string{"rsh", "rsync-path", "remote-option", "daemon"}, short: "eM"},
		"curl": {check: curl, begins: []string{"--expand-"}, long: []string{"trace-ascii", "remote-name-all", "ssl-sessions", "output", "output-dir", "config", "remote-name", "remote-header-name", "dump-header", "cookie-jar", "trace", "engine", "stderr",
			"hsts", "alt-svc", "libcurl", "etag-save", "proxy", "preproxy", "unix-socket", "abstract-unix-socket"}, short: "oOKDcJx"},
		"wget":     {long: []string{"warc-file", "save-cookies", "hsts-file", "rejected-log", "execute", "use-askpass", "output-document", "output-file", "append-output", "config", "directory-prefix"}, short: "eOoaP"},
		"apt-get":  {long: []string{"option", "config-file"}, short: "oc"},
		"apt":      {long: []string{"option", "config-file"}, short: "oc"},
		"pip":      {long: []string{"python", "config-settings", "global-option", "build-option", "log", "cache-dir", "target"}},
		"pdflatex": {begins: dashes("shell-escape", "enable-write18", "output-directory")},
		"tcpdump":  {short: "zw"},
		"hg":       {long: []string{"config", "config-file", "cwd", "repository", "ssh", "remotecmd", "tool"}, short: "eRt"},
		"svn":      {long: []string{"diff-cmd", "diff3-cmd", "editor-cmd", "config-option", "config-dir"}},
		"sdiff":    {long: []string{"diff-program", "output"}, short: "o"},
		"diff3":    {long: []string{"diff-program"}},
		"dpkg":     {long: []string{"pre-invoke", "post-invoke", "status-logger", "admindir", "instdir", "root"}},
		"java":     {begins: []string{"-XX:", "-javaagent", "-agent", "@", "-Djava.system.class.loader"}},
		"javac":    {begins: []string{"-J", "@", "-processor", "--processor", "-Xplugin"}},
		"nmap":     {long: []string{"script"}, begins: dashes("script"), short: "o"},
	}
	same := func(p program, names string) {
		for name := range set(names) {
			m[name] = p
		}
	}
	same(program{inert: true}, inert)
	same(program{runner: true}, runners)
	same(program{spelled: true}, spelledOut)
	same(program{stdin: true}, "sh bash dash")
	same(program{check: script}, "perl ruby php lua luajit Rscript")
	same(program{check: script, words: []string{"-v"}}, "python python2 python3 pypy3") // -v takes no value
	same(program{check: awk}, "awk gawk mawk nawk")
	same(program{long: []string{"log-file", "lesskey-file", "lesskey-src", "lesskey-content"}, short: "oOk", begins: []string{"+"}}, "less more")
	same(program{long: []string{"exec", "exec-batch"}, short: "xX"}, "fd fdfind")
	same(program{check: setsVariable, long: []string{"eval", "file", "makefile", "directory", "include-dir"}, short: "fCI"}, "make gmake")
	same(program{check: npm, long: []string{"script-shell", "prefix", "userconfig", "globalconfig", "node-options", "git", "shell", "editor", "viewer", "registry", "cwd", "dir"}, short: "C"}, "npm yarn pnpm")
	same(program{check: containers}, "docker podman nerdctl kubectl")
	same(compiler, "gcc g++ cc c++ clang clang++ ld")
	return m
}()

var compiler = program{
	long: []string{"plugin", "dynamic-linker", "specs", "load", "wrapper"}, words: []string{"-wrapper", "-Xclang", "-load"},
	begins: []string{"-B", "-fplugin", "-specs", "@", "-wrapper", "-Wl,", "-Xlinker", "-fpass-plugin", "-plugin", "-iplugindir", "-fuse-ld", "-ld-path", "--ld-path",
		"-fmodule-mapper", "--config"},
}

func set(words string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}

// dashes returns options for programs that accept them with one dash and with two.
func dashes(names ...string) []string {
	var out []string
	for _, n := range names {
		out = append(out, "-"+n, "--"+n)
	}
	return out
}

// script requires that an interpreter gets a script file, rather than code in the line
// or on its standard input.
func script(args []string, from int) string {
	switch {
	case len(args) == 0 || args[0] == "-":
		return "an interpreter without a script runs what it reads"
	case from > 0 || len(args) == 1 && (args[0] == "--version" || args[0] == "-V" || args[0] == "-v"):
		return ""
	case standardInput.MatchString(args[0]):
		return args[0] + " is its input, and not a file of code"
	case strings.HasPrefix(args[0], "-"):
		return args[0] + " may make the interpreter run text"
	}
	return ""
}

// standardInput matches file names that may refer to the interpreter's own input.
var standardInput = regexp.MustCompile(`(^|/)(dev/(stdin|fd/)|proc/)`)

// counts matches a format with which bash's printf sets a variable.
var counts = regexp.MustCompile(`%[^a-zA-Z%\\]*[hlLjzt]*n`)

func printf(args []string, _ int) string {
	for _, format := range args {
		if !strings.HasPrefix(format, "-") {
			if counts.MatchString(format) {
				return format + " sets a variable to the number of bytes printed"
			}
			break
		}
	}
	return ""
}

// curl refuses --write-out formats that write a file.
func curl(args []string, _ int) string {
	for i, a := range args {
		if strings.Contains(a, "%output{") || strings.HasPrefix(a, "-w@") || strings.HasPrefix(a, "@") && i > 0 && (args[i-1] == "-w" || strings.HasPrefix(args[i-1], "--w")) {
			return a + " may make it write a file"
		}
	}
	return ""
}

// awkDanger matches constructs with which awk starts programs or writes files.
var awkDanger = regexp.MustCompile(`system|getline|[|>@]|printf?\s*\(?.*>`)

// awk allows programs that only compute and print.
func awk(args []string, from int) string {
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-F" || a == "-v":
			i++
		case strings.HasPrefix(a, "-F") || strings.HasPrefix(a, "-v"):
		case strings.HasPrefix(a, "-") && i >= from:
			return a + ": " + unknownOption
		case i >= from && awkDanger.MatchString(a):
			return "a program in awk may start programs and write files"
		default:
			return "" // the rest are files
		}
	}
	return "an interpreter without a script runs what it reads"
}

// oneFile refuses a second file name, since it is an output file.
func oneFile(args []string, from int) string {
	files := 0
	for i, a := range args {
		if !strings.HasPrefix(a, "-") || a == "-" {
			files++
		}
		if files > 1 && i >= from {
			return a + " is a file that it writes"
		}
	}
	return ""
}

func hostname(args []string, from int) string {
	for _, a := range args[from:] {
		if !set("-f -s -i -I -d -A -y --fqdn --short --ip-address --domain")[a] {
			return "it may set the name of the host"
		}
	}
	return ""
}

// readOnly are the commands of docker and kubectl that start nothing.
var readOnly = set(`ps images logs inspect version info top stats events port history search get describe explain api-resources api-versions cluster-info diff`)

func containers(args []string, from int) string {
	if from == 0 && len(args) > 0 && !readOnly[args[0]] {
		return args[0] + " may start any program: an entry has to name it"
	}
	return ""
}

// gitCommands are git's own commands that neither run text nor change git's
// configuration.
var gitCommands = set(`add am annotate apply archive blame branch bundle cat-file check-attr check-ignore check-mailmap check-ref-format checkout
	cherry cherry-pick clean clone commit count-objects describe diff diff-files diff-index diff-tree fetch for-each-ref format-patch fsck gc grep
	hash-object init log ls-files ls-remote ls-tree merge merge-base merge-tree mv name-rev notes pack-refs prune pull push range-diff rebase
	reflog remote reset restore rev-list rev-parse revert rm shortlog show show-branch show-ref stash status switch symbolic-ref tag
	update-index update-ref var verify-commit verify-tag version whatchanged worktree write-tree`)

var gitProgram = program{
	check: git,
	long: []string{"upload-pack", "receive-pack", "exec", "exec-path", "config-env", "ext-diff", "extcmd", "open-files-in-pager", "template", "config",
		"output", "output-directory", "tool", "strategy", "textconv", "filters", "to-cmd", "cc-cmd", "remote"},
	begins: []string{"ext::", "fd::"},
}

var tarProgram = program{
	check: tar,
	long: []string{"checkpoint-action", "to-command", "use-compress-program", "rsh-command", "rmt-command", "info-script", "new-volume-script",
		"files-from", "exclude-from"},
	short: "IFTX",
}

var gitGlobals = set("--no-pager --no-optional-locks --literal-pathspecs --no-replace-objects --version -P -v --help -h")

// git refuses options that make git run programs or read files outside of the
// repository, aliases, and commands that run text.
func git(args []string, from int) string {
	for i, a := range args {
		switch {
		case i < from:
			if !strings.HasPrefix(a, "-") { // the entry contains the command
				return gitCommand(a, args[i+1:], max(0, from-i-1))
			}
		case gitGlobals[a]:
		case strings.HasPrefix(a, "-"):
			return a + " before git's command may make it start a program"
		case !gitCommands[a]:
			return "git " + a + " may start a program, or be an alias"
		default:
			return gitCommand(a, args[i+1:], 0)
		}
	}
	return ""
}

func gitCommand(name string, args []string, from int) string {
	short := map[string]string{"rebase": "xis", "merge": "s", "pull": "s", "format-patch": "o", "clone": "uc", "grep": "O", "difftool": "xt", "fetch": "", "commit": "", "push": "o", "init": "", "archive": "o"}[name]
	for _, a := range args[from:] {
		switch {
		case len(a) > 1 && a[0] == '-' && a[1] != '-' && strings.ContainsAny(a[1:], short) && short != "":
			return a + " may make git start a program"
		case name == "submodule" && a == "foreach", name == "bisect" && a == "run":
			return "git " + name + " " + a + " runs a program"
		case name == "config" && from == 0:
			return "git config may name programs for git to start"
		case name == "remote" && (a == "add" || a == "set-url"):
			return "git remote " + a + " changes where git sends to"
		case strings.Contains(a, "::"):
			return a + " may make git start a helper"
		}
	}
	return ""
}

// tar refuses the old style of options without a dash.
func tar(args []string, from int) string {
	if from == 0 && len(args) > 0 && !strings.HasPrefix(args[0], "-") && strings.ContainsAny(args[0], "IFTX") {
		return args[0] + " may start a program"
	}
	for _, a := range args[from:] {
		if name, _, _ := strings.Cut(a, "="); strings.Contains(a, ":") && !tarColons[name] {
			return a + " may be on another host"
		}
	}
	return ""
}

// tarColons are the options whose values may contain colons but are not
// archives.
var tarColons = set("--exclude --transform --xform --owner --group --mtime --newer")

// sedSafe matches sed scripts that only print, delete and substitute.
var sedSafe = regexp.MustCompile(`^(\d+|\$|\d+,(\d+|\$))?[pdq=]$|^(\d+(,(\d+|\$))?)?s(/[^/\\\n]*/[^/\\\n]*/|\|[^|\\\n]*\|[^|\\\n]*\||#[^#\\\n]*#[^#\\\n]*#)[gpiI0-9]*$|^/[^/\\\n]*/[pd]$`)

func sed(args []string, from int) string {
	script := false
	for i, a := range args {
		switch {
		case a == "-n" || a == "-E" || a == "-r" || a == "-s" || a == "-z" || a == "-u":
		case a == "--sandbox":
			return ""
		case a == "-e" && i >= from:
			script = false
		case strings.HasPrefix(a, "-") && i >= from:
			return a + ": " + unknownOption
		case !script || i > 0 && args[i-1] == "-e":
			script = true
			if i >= from && !sedSafe.MatchString(a) {
				return "a script of sed may start programs and write files"
			}
		}
	}
	return ""
}

// setsVariable refuses settings of make's variables, which could set the shell.
func setsVariable(args []string, from int) string {
	for _, a := range args[from:] {
		if strings.Contains(a, "=") && !strings.HasPrefix(a, "-j") {
			return a + " sets a variable, which may name a program"
		}
	}
	return ""
}

func goTool(args []string, from int) string {
	if from > 0 || len(args) == 0 {
		return ""
	}
	switch args[0] {
	case "run", "generate", "tool", "env", "install", "get":
		return "go " + args[0] + " may start any program, or change go itself"
	}
	return ""
}

func npm(args []string, from int) string {
	for _, a := range args[min(from, len(args)):] {
		switch a {
		case "exec", "x", "explore", "config", "set", "edit", "dlx", "create", "init":
			if from == 0 {
				return a + " may start any program, or change its configuration"
			}
		}
	}
	return ""
}
