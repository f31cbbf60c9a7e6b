package image

import "io/fs"

// The user as which agents work.
const (
	userName = "ubuntu"
	userID   = 1000
	hostName = "cursor"
)

var (
	passwd = lines(
		"root:x:0:0:root:/root:/bin/bash",
		"daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin",
		"bin:x:2:2:bin:/bin:/usr/sbin/nologin",
		"sys:x:3:3:sys:/dev:/usr/sbin/nologin",
		"man:x:6:12:man:/var/cache/man:/usr/sbin/nologin",
		"mail:x:8:8:mail:/var/mail:/usr/sbin/nologin",
		"www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin",
		"_apt:x:42:65534::/nonexistent:/usr/sbin/nologin",
		"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin",
		passwdLine,
	)
	group = lines(
		"root:x:0:", "daemon:x:1:", "bin:x:2:", "sys:x:3:", "adm:x:4:", "tty:x:5:", "disk:x:6:",
		"mail:x:8:", "man:x:12:", "kmem:x:15:", "sudo:x:27:ubuntu", "audio:x:29:", "www-data:x:33:",
		"shadow:x:42:", "utmp:x:43:", "video:x:44:", "plugdev:x:46:", "staff:x:50:", "users:x:100:",
		"nogroup:x:65534:", groupLine,
	)
	passwdLine = "ubuntu:x:1000:1000:Ubuntu:/home/ubuntu:/bin/bash"
	groupLine  = "ubuntu:x:1000:"

	// No account has a password: sudo does not require one, and no other
	// program accepts logins.
	shadow = lines("root:*:19000:0:99999:7:::", "daemon:*:19000:0:99999:7:::", "bin:*:19000:0:99999:7:::",
		"sys:*:19000:0:99999:7:::", "man:*:19000:0:99999:7:::", "mail:*:19000:0:99999:7:::",
		"www-data:*:19000:0:99999:7:::", "_apt:*:19000:0:99999:7:::", "nobody:*:19000:0:99999:7:::", shadowLine)
	shadowLine = "ubuntu:!:19000:0:99999:7:::"

	userSudo = "ubuntu ALL=(ALL:ALL) NOPASSWD:ALL"

	pamFiles = map[string][]byte{
		"common-auth":                   lines("auth [success=1 default=ignore] pam_unix.so", "auth requisite pam_deny.so", "auth required pam_permit.so"),
		"common-account":                lines("account [success=1 new_authtok_reqd=done default=ignore] pam_unix.so", "account requisite pam_deny.so", "account required pam_permit.so"),
		"common-password":               lines("password [success=1 default=ignore] pam_unix.so obscure yescrypt", "password requisite pam_deny.so", "password required pam_permit.so"),
		"common-session":                lines("session required pam_permit.so", "session optional pam_unix.so"),
		"common-session-noninteractive": lines("session required pam_permit.so"),
		"sudo":                          lines("@include common-auth", "@include common-account", "@include common-session-noninteractive"),
		"sudo-i":                        lines("@include common-auth", "@include common-account", "@include common-session"),
		"su":                            lines("auth sufficient pam_rootok.so", "@include common-auth", "@include common-account", "@include common-session"),
		"su-l":                          lines("@include su"),
		"other":                         lines("auth required pam_deny.so", "account required pam_deny.so", "password required pam_deny.so", "session required pam_deny.so"),
	}

	bashrc = lines(
		`[ -z "${PS1-}" ] && return`,
		"shopt -s checkwinsize",
		`PS1='\u@\h:\w\$ '`,
		`if [ -r /usr/share/bash-completion/bash_completion ]; then . /usr/share/bash-completion/bash_completion; fi`,
	)
	userProfile = lines(`if [ -n "${BASH-}" ] && [ -r "$HOME/.bashrc" ]; then . "$HOME/.bashrc"; fi`)
	userBashrc  = lines(
		`case $- in *i*) ;; *) return ;; esac`,
		"HISTCONTROL=ignoreboth",
		"shopt -s histappend checkwinsize",
		`PS1='\u@\h:\w\$ '`,
		"if [ -x /usr/bin/dircolors ]; then eval \"$(dircolors -b)\"; alias ls='ls --color=auto'; fi",
	)
)

// systemPath is the PATH of root and, in another order, of users.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// sudoers returns a sudoers file. search is the PATH of commands run by sudo.
func sudoers(search string) []byte {
	return lines(
		"Defaults env_reset",
		`Defaults secure_path="`+search+`"`,
		`Defaults env_keep += "SSL_CERT_FILE NODE_EXTRA_CA_CERTS GIT_SSL_CAINFO CURL_CA_BUNDLE REQUESTS_CA_BUNDLE PIP_CERT"`,
		`Defaults env_keep += "http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY DEBIAN_FRONTEND"`,
		"Defaults lecture=never",
		"root ALL=(ALL:ALL) ALL",
		userSudo,
		"@includedir /etc/sudoers.d",
	)
}

// profile returns the profile of login shells, whose PATH ends with dirs.
func profile(dirs []string) []byte {
	more := ""
	for _, d := range dirs {
		more += ":" + d
	}
	return lines(
		`if [ "$(id -u)" -eq 0 ]; then`,
		`  PATH="`+systemPath+more+`"`,
		"else",
		`  PATH="$HOME/.local/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin`+more+`"`,
		"fi",
		"export PATH",
		`if [ -n "${BASH-}" ] && [ -n "${PS1-}" ] && [ -r /etc/bash.bashrc ]; then . /etc/bash.bashrc; fi`,
		"for i in /etc/profile.d/*.sh; do if [ -r \"$i\" ]; then . \"$i\"; fi; done",
		"unset i",
	)
}

// skeleton returns a complete root file system without programs.
func skeleton() *tree {
	t := &tree{}
	for _, d := range []string{
		"dev", "etc", "etc/profile.d", "etc/apt", "home", "media", "mnt", "opt", "proc", "run", "srv", "sys", "usr",
		"var/backups", "var/cache/apt/archives/partial", "var/lib/apt/lists/partial", "var/lib/dpkg", "var/lib/sudo", "var/log", "var/mail", "var/opt", "var/spool",
	} {
		t.dir(d, 0o755, 0)
	}
	t.dir("root", 0o700, 0)
	t.dir("tmp", 0o777|fs.ModeSticky, 0)
	t.dir("var/tmp", 0o777|fs.ModeSticky, 0)
	t.link("var/run", "/run")
	t.link("var/lock", "/run/lock")
	t.link("etc/mtab", "/proc/self/mounts")

	t.file("etc/passwd", 0o644, 0, passwd)
	t.file("etc/group", 0o644, 0, group)
	t.file("etc/shadow", 0o600, 0, shadow)
	t.file("etc/shells", 0o644, 0, lines("/bin/sh", "/bin/bash", "/usr/bin/bash"))
	t.file("etc/hostname", 0o644, 0, lines(hostName))
	t.file("etc/hosts", 0o644, 0, lines("127.0.0.1 localhost "+hostName, "::1 localhost ip6-localhost ip6-loopback"))
	t.file("etc/nsswitch.conf", 0o644, 0, lines("passwd: files", "group: files", "shadow: files", "hosts: files dns",
		"networks: files", "protocols: db files", "services: db files", "ethers: db files", "rpc: db files"))
	t.file("etc/resolv.conf", 0o644, 0, nil)
	t.file("etc/fstab", 0o644, 0, nil)
	t.file("etc/environment", 0o644, 0, nil)
	t.file("etc/profile", 0o644, 0, profile(nil))
	t.file("etc/bash.bashrc", 0o644, 0, bashrc)
	for name, text := range pamFiles {
		t.file("etc/pam.d/"+name, 0o644, 0, text)
	}
	t.dir("etc/sudoers.d", 0o750, 0)
	t.file("etc/sudoers", 0o440, 0, sudoers(systemPath))
	t.file("root/.profile", 0o644, 0, userProfile)
	t.file("root/.bashrc", 0o644, 0, userBashrc)
	homeAndWorkspace(t)
	return t
}

// homeAndWorkspace adds the folders that the user owns.
func homeAndWorkspace(t *tree) {
	const home = "home/" + userName
	t.dir(home, 0o755, userID)
	t.file(home+"/.profile", 0o644, userID, userProfile)
	t.file(home+"/.bashrc", 0o644, userID, userBashrc)
	t.dir("workspace", 0o755, userID)
	t.dir("opt/cursor", 0o755, 0)
	t.dir("opt/cursor/artifacts", 0o755, userID)
}
