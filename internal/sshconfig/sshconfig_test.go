package sshconfig

import (
	"errors"
	"strings"
	"testing"
)

func stanza(t testing.TB) string {
	t.Helper()
	options, err := Options([]string{"/opt/it's 100%/aloft", "ssh-proxy"}, "/home/a b/known_hosts")
	if err != nil {
		t.Fatal(err)
	}
	return Stanza(options)
}

func TestStanzaQuotesForShellAndSSH(t *testing.T) {
	s := stanza(t)
	for _, want := range []string{
		`ProxyCommand '/opt/it'\''s 100%%/aloft' 'ssh-proxy' %n`, `UserKnownHostsFile "/home/a b/known_hosts"`, "Host bc-* aloft.*",
	} {
		if !strings.Contains(s, want) {
			t.Errorf("no %s in:\n%s", want, s)
		}
	}
	if _, err := Options([]string{"a\nHost *"}, "/x"); err == nil {
		t.Error("a line break is taken")
	}
	if _, err := Options([]string{"a"}, "/x\"\nHost *"); err == nil {
		t.Error("a quote is taken")
	}
}

func TestSet(t *testing.T) {
	s := stanza(t)
	for _, tt := range []struct{ name, config, want string }{
		{"empty", "", s},
		{"at the end", "Host x\n  User y\n", "Host x\n  User y\n\n" + s},
		{"no last line break", "Host x", "Host x\n\n" + s},
		{"in its place", "A\n\n" + begin + "\nold\n" + end + "\nB\n", "A\n\n" + s + "B\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := Set(tt.config, s)
			if err != nil || got != tt.want {
				t.Errorf("%v, got:\n%s", err, got)
			}
		})
	}
	for _, broken := range []string{begin + "\n", end + "\n", begin + "\n" + begin + "\n" + end + "\n", begin + "\n" + end + "\n" + end + "\n"} {
		if got, _, err := Set(broken, s); !errors.Is(err, ErrMarks) || got != broken {
			t.Errorf("%q: %v", broken, err)
		}
	}
}

func TestForget(t *testing.T) {
	const others = "# mine\ngithub.com ssh-ed25519 AAAA\n"
	known := Forget(others, "bc-1", "m/1")
	known += "bc-1 ssh-ed25519 BBBB\n" // as ssh does
	if got := Forget(known, "BC-1", "m/1"); !strings.Contains(got, "bc-1 ssh-ed25519 BBBB") {
		t.Errorf("the key of this life is gone:\n%s", got)
	}
	if got, want := Forget(known, "bc-1", "m/2"), others+bootMark+"bc-1 m/2\n"; got != want {
		t.Errorf("got:\n%s", got)
	}
}

func FuzzSet(f *testing.F) {
	f.Add("Host x\n")
	f.Add(begin + "\nold\n" + end + "\n")
	f.Add("x\r\n" + begin + "\r\n" + end)
	f.Fuzz(func(t *testing.T, config string) {
		s := stanza(t)
		once, _, err := Set(config, s)
		if err != nil {
			if once != config {
				t.Fatal("an error has changed the configuration")
			}
			return
		}
		twice, old, err := Set(once, s)
		if err != nil || twice != once || old != s {
			t.Fatalf("not idempotent: %v\n%q\n%q", err, once, twice)
		}
		gone, _, err := Set(once, "")
		if from, _, findErr := find(gone); err != nil || findErr != nil || from >= 0 {
			t.Fatalf("not removed: %v %q", err, gone)
		}
		if from, _, _ := find(config); from < 0 && strings.TrimRight(gone, "\n") != strings.TrimRight(config, "\n") {
			t.Fatalf("what is not ours has changed: %q, was %q", gone, config)
		}
	})
}

func FuzzForget(f *testing.F) {
	f.Add("a ssh-rsa A\n", "a", "m/1")
	f.Add("# aloft a m/1\na ssh-rsa A\nb,a x y", "a", "m/2")
	f.Fuzz(func(t *testing.T, known, host, life string) {
		once := Forget(known, host, life)
		if twice := Forget(once, host, life); twice != once {
			t.Fatalf("not idempotent:\n%q\n%q", once, twice)
		}
		other := Forget(once, host, life+"x")
		for line := range strings.Lines(other) {
			if names(line, escape(host)) {
				t.Fatalf("a key of another life is left: %q", line)
			}
		}
	})
}
