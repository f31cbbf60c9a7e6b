package image

import (
	"crypto/md5" //nolint:gosec // as in the package database
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// aHost writes the files of a small Debian host. Text in capitals marks secrets that
// must not reach a machine.
func aHost(t *testing.T) *os.Root {
	t.Helper()
	dir := t.TempDir()
	const asShipped = "as shipped\n"
	files := map[string]struct {
		mode fs.FileMode
		text string
	}{
		"usr/bin/tool": {0o755, ""}, "usr/sbin/tool": {0o755, ""}, "usr/local/go/bin/go": {0o755, ""}, "usr/local/etc/key": {0o600, "SECRET"},
		"opt/app/bin/app": {0o755, ""}, "opt/app/.env": {0o640, "SECRET"}, "opt/closed/bin/file": {0o755, "SECRET"},

		"etc/os-release":  {0o644, "ID=debian\n"},
		"etc/passwd":      {0o644, "root:SECRET:0:0:root:/root:/bin/zsh\n_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\nredis:x:110:120:PERSON:/home/PERSON/redis:/bin/false\nalice:x:1001:1001:PERSON:/home/PERSON:/bin/bash\n+nis::::::\n"},
		"etc/group":       {0o644, "root:x:0:\nsudo:x:27:PERSON\nredis:SECRET:120:PERSON,redis\nPERSON:x:1001:\n"},
		"etc/shadow":      {0o640, "root:SECRET:1::::::\nredis:SECRET:1::::::\n"},
		"etc/environment": {0o644, "TOKEN=SECRET\n"}, "etc/profile.d/own.sh": {0o644, "export SECRET=1\n"}, "etc/hosts": {0o644, "10.0.0.1 SECRET\n"},
		"etc/app.conf": {0o644, asShipped}, "etc/edited.conf": {0o644, "SECRET\n"}, "etc/init.d/app": {0o755, asShipped}, "etc/closed.conf": {0o600, asShipped},
		"etc/ssh/ssh_host_rsa_key": {0o600, "SECRET"}, "etc/ssl/private/key.pem": {0o640, "SECRET"}, "etc/netrc": {0o644, "machine SECRET"},
		"root/.netrc": {0o600, "SECRET"}, "home/alice/.ssh/id": {0o600, "SECRET"}, "srv/data": {0o644, "SECRET"},
		"var/lib/redis/dump.rdb": {0o644, "SECRET"}, "var/log/app/log": {0o644, "SECRET"}, "var/cache/debconf/config.dat": {0o644, "SECRET"},

		"var/lib/dpkg/status": {0o644, fmt.Sprintf("Package: app\nConffiles:\n /etc/app.conf %[1]x\n /etc/edited.conf %[1]x\n /etc/init.d/app %[1]x obsolete\n /etc/closed.conf %[1]x\n /etc/../root/.netrc %[2]x\nStatus: install ok installed\n\n",
			md5.Sum([]byte(asShipped)), md5.Sum([]byte("SECRET")))}, //nolint:gosec // see above
		"var/lib/dpkg/info/app.list":      {0o644, "/.\n/etc\n/etc/app.conf\n/var/lib/redis\n/var/log/app\n/srv/data\n"},
		"var/lib/dpkg/info/app.postinst":  {0o755, "#!/bin/sh\n"},
		"var/lib/dpkg/info/own.config":    {0o600, "SECRET"},
		"var/lib/dpkg/statoverride":       {0o644, "root redis 2755 /usr/bin/tool\nalice PERSON 755 /usr/bin/other\n"},
		"var/lib/dpkg/alternatives/pager": {0o644, "auto\n"},
		"var/lib/apt/extended_states":     {0o644, "Package: app\nAuto-Installed: 1\n\n"},

		"etc/apt/sources.list": {0o644, "# deb http://PERSON:SECRET@old.example.com/ x main\n" +
			"deb [arch=amd64 signed-by=/etc/apt/keyrings/a.asc] http://deb.example.org/debian stable main # SECRET\n" +
			"deb http://PERSON:SECRET@paid.example.com/debian stable main\n" +
			"deb https://packages.example.com/priv/SECRET0123456789abcdef0123/debian stable main\n" +
			"deb https://q.example.com/debian?token=SECRET stable main\n" +
			"deb https://locked.example.com/PERSON/ stable main\n" +
			"deb [signed-by=/root/SECRET.gpg] https://key.example.com/ stable main\n" +
			"deb cdrom:[SECRET]/ stable main\ndeb file:/home/PERSON/repo ./\ndeb ssh://PERSON@example.com/ x main\n" +
			"deb mirror+file:/etc/apt/mirrors/m.list stable main\n"},
		"etc/apt/sources.list.d/two.sources": {0o644, "# SECRET\nTypes: deb\nURIs: https://two.example.org/\n# SECRET\nSuites: stable\nComponents: main\nX-Login: SECRET\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n public\n -----END PGP PUBLIC KEY BLOCK-----\n\n" +
			"Types: deb\nURIs: https://two.example.org/ https://PERSON:SECRET@two.example.com/\nSuites: SECRET\nComponents: main\n"},
		"etc/apt/sources.list.d/old.list.save": {0o644, "deb http://SECRET/ x main\n"},
		"etc/apt/sources.list.d/own.list":      {0o600, "deb http://SECRET/ x main\n"},
		"etc/apt/mirrors/m.list":               {0o644, "http://m.example.org/debian/\tpriority:1\tSECRET\nhttp://PERSON:SECRET@m.example.com/\n"},
		"etc/apt/auth.conf":                    {0o644, "machine locked.example.com/PERSON login PERSON password SECRET\n"},
		"etc/apt/auth.conf.d/paid.conf":        {0o600, "machine https://other.example.com/ login PERSON password SECRET\n"},
		"etc/apt/apt.conf":                     {0o644, "Acquire::http::Proxy \"http://PERSON:SECRET@proxy:3128\";\n"},
		"etc/apt/apt.conf.d/99proxy":           {0o644, "Acquire::https::Proxy \"http://PERSON:SECRET@proxy:3128\";\n"},
		"etc/apt/keyrings/a.asc":               {0o644, "-----BEGIN PGP PUBLIC KEY BLOCK-----\npublic\n"},
		"etc/apt/keyrings/private.asc":         {0o644, "-----BEGIN PGP PRIVATE KEY BLOCK-----\nSECRET\n"},
		"etc/apt/trusted.gpg.d/private.gpg":    {0o644, "\x95\x01SECRET"},
		"etc/apt/preferences.d/pin":            {0o644, "# SECRET\nExplanation: SECRET\nPackage: app\nPin: release a=stable\nPin-Priority: 900\n"},

		"var/lib/apt/lists/deb.example.org_debian_dists_stable_InRelease":   {0o644, "a list"},
		"var/lib/apt/lists/key.example.com_dists_stable_Packages":           {0o644, "SECRET"},
		"var/lib/apt/lists/locked.example.com_PERSON_dists_stable_Packages": {0o644, "SECRET"},
		"var/lib/apt/lists/paid.example.com_debian_dists_stable_Packages":   {0o644, "SECRET"},
		"var/lib/apt/lists/two.example.com_dists_SECRET_Packages":           {0o644, "SECRET"},
	}
	for name, f := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(f.text), f.mode); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"bin": "usr/bin", "etc/sgml": "../home/alice", "var/lib/dpkg/info/link.list": "/root/.netrc"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{filepath.Join(dir, "opt/closed"), filepath.Join(dir, "etc/ssl/private")} {
		if err := os.Chmod(dir, 0o710); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

const settingsOfAHost = `APT::Architecture "amd64";
APT::Update::Post-Invoke:: "curl SECRET";
Acquire::Languages:: "none";
Acquire::http::Proxy "http://PERSON:SECRET@proxy:3128";
Acquire::https::Proxy "http://cache.example.org:3142";
Acquire::http::Proxy::locked.example.com "http://SECRET";
Acquire::ftp::Proxy "ftp://SECRET";
`

// TestHostKeepsSecrets compares the files of a host that a machine sees with
// the allow list.
func TestHostKeepsSecrets(t *testing.T) {
	root := aHost(t)
	tr, img, err := host{root: root, settings: settingsOfAHost, own: "/var/lib/aloft"}.view()
	if err != nil {
		t.Fatal(err)
	}
	bare := skeleton()
	var added, hidden []string
	for _, name := range tr.names() {
		e := tr.entries[name]
		text := string(e.data)
		if e.from != "" {
			data, err := os.ReadFile(e.from)
			if err != nil {
				t.Fatal(err)
			}
			text = string(data)
		}
		for _, word := range []string{"SECRET", "PERSON"} {
			if strings.Contains(name, word) || strings.Contains(text, word) {
				t.Errorf("%s says %s: %s", name, word, text)
			}
		}
		switch {
		case e.mode == whiteout:
			hidden = append(hidden, name)
		case !bare.has(name) && !e.mode.IsDir():
			added = append(added, name)
		}
	}
	want := []string{
		"bin", "etc/app.conf", "etc/apt/apt.conf.d/90aloft", "etc/apt/keyrings/a.asc", "etc/apt/mirrors/m.list", "etc/apt/preferences.d/pin",
		"etc/apt/sources.list", "etc/apt/sources.list.d/two.sources", "etc/init.d/app", "etc/os-release",
		"usr/sbin/policy-rc.d",
		"var/lib/apt/extended_states", "var/lib/apt/lists/deb.example.org_debian_dists_stable_InRelease",
		"var/lib/dpkg/alternatives/pager", "var/lib/dpkg/info/app.list", "var/lib/dpkg/info/app.postinst", "var/lib/dpkg/info/link.list", "var/lib/dpkg/statoverride", "var/lib/dpkg/status",
	}
	if !slices.Equal(added, want) {
		t.Errorf("a machine sees\n%s, want\n%s", strings.Join(added, "\n"), strings.Join(want, "\n"))
	}
	if got := strings.Join(hidden, " "); got != "opt/app/.env opt/closed usr/local/etc/key" {
		t.Errorf("hidden: %s", got)
	}
	for name, want := range map[string]string{
		"etc/apt/sources.list": "deb [arch=amd64 signed-by=/etc/apt/keyrings/a.asc] http://deb.example.org/debian stable main\n" +
			"deb mirror+file:/etc/apt/mirrors/m.list stable main\n",
		"etc/apt/sources.list.d/two.sources": "Types: deb\nURIs: https://two.example.org/\nSuites: stable\nComponents: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n public\n -----END PGP PUBLIC KEY BLOCK-----\n",
		"etc/apt/mirrors/m.list":             "http://m.example.org/debian/\tpriority:1\n",
		"etc/apt/preferences.d/pin":          "Package: app\nPin: release a=stable\nPin-Priority: 900\n",
		"var/lib/dpkg/statoverride":          "root redis 2755 /usr/bin/tool\n",
	} {
		if got := string(tr.entries[name].data); got != want {
			t.Errorf("%s is\n%s, want\n%s", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"etc/apt/apt.conf.d/90aloft": "APT::Architecture \"amd64\";\nAcquire::Languages:: \"none\";\nAcquire::https::Proxy \"http://cache.example.org:3142\";\n",
		"etc/passwd":                 "redis:x:110:120:redis:/nonexistent:/bin/false\n",
		"etc/group":                  "redis:x:120:redis\n",
		"etc/shadow":                 "redis:*:19000:0:99999:7:::\n",
		"etc/sudoers":                ":/usr/local/go/bin:/opt/app/bin\"\n",
	} {
		if got := string(tr.entries[name].data); !strings.Contains(got, want) {
			t.Errorf("%s lacks %q:\n%s", name, want, got)
		}
	}
	for _, name := range []string{"var/lib/redis", "var/log/app"} {
		if !tr.entries[name].mode.IsDir() {
			t.Errorf("the folder %s of a package is missing", name)
		}
	}
	if want := []string{"PATH=" + systemPath + ":/usr/local/go/bin:/opt/app/bin"}; !slices.Equal(img.Views, []string{"usr", "opt"}) || !slices.Equal(img.Config.Env, want) {
		t.Errorf("views %s, environment %s", img.Views, img.Config.Env)
	}
}

// TestHostHidesTheServer puts the server's own data into a folder that machines
// see. Machines must not see the data.
func TestHostHidesTheServer(t *testing.T) {
	root := aHost(t)
	if _, img, err := (host{root: root, own: "/opt/aloft/data"}).view(); err != nil || slices.Contains(img.Views, "opt") {
		t.Errorf("views %s, %v", img.Views, err)
	}
	if _, _, err := (host{root: root, own: "/usr/local/aloft"}).view(); err == nil || !strings.Contains(err.Error(), "/usr/local/aloft") {
		t.Errorf("error is %v", err)
	}
}

func TestHostSummary(t *testing.T) {
	got := host{root: aHost(t)}.summarize()
	if want := (HostSummary{Apt: false, Sources: 3, LeftOut: 9}); got != want {
		t.Errorf("the host has %+v, want %+v", got, want)
	}
}
