package desktop

import (
	"context"
	"encoding/xml"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aloft/internal/fault"
	"aloft/internal/vnctest"
)

func TestWake(t *testing.T) {
	if err := Wake(t.Context(), ""); fault.Of(err).Code != CodeMissing || !strings.Contains(fault.Of(err).Advice, "tigervnc") {
		t.Errorf("without a display: %v", err)
	}
	for _, display := range []string{"elsewhere:1", "1", ":", ":-1", ":1000000", ":x.0", ":1/../x"} {
		if err := Wake(t.Context(), display); !fault.Is(err, fault.KindInvalid) {
			t.Errorf("%s: %v", display, err)
		}
	}
	if err := Wake(t.Context(), ":65000"); fault.Of(err).Code != CodeMissing {
		t.Errorf("where nobody listens: %v", err)
	}

	display := vnctest.Start(t, 320, 200).Display
	for _, name := range []string{display, display + ".0", "unix" + display} {
		if err := Wake(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWakeOfWhoDoesNotAnswer checks that Wake waits for a hanging server until
// the caller's context ends, and returns an error for a server that exits.
func TestWakeOfWhoDoesNotAnswer(t *testing.T) {
	l, err := net.Listen("unix", "@"+Socket(64_999))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := Wake(ctx, ":64999"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one that hangs: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 2 { // the first connection is the abandoned one
			if conn, err := l.Accept(); err == nil {
				_ = conn.Close()
			}
		}
	}()
	if err := Wake(t.Context(), ":64999"); !fault.Is(err, fault.KindUnavailable) {
		t.Errorf("one that ends: %v", err)
	}
	<-ended
}

func TestScreen(t *testing.T) {
	for _, c := range []struct{ resolution, dots, size, depth, dpi string }{
		{"", "", "1920x1200", "24", "96"},
		{"1280x800", "120", "1280x800", "24", "120"},
		{"2560x1440x16", "96.5", "2560x1440", "16", "96"},
		{"800x600x32", "0", "800x600", "24", "96"},
		{"99999x1", "-1", "1920x1200", "24", "96"},
		{"800x600x24;reboot", "96\n", "1920x1200", "24", "96"},
	} {
		env := append(Environ(""), "VNC_RESOLUTION="+c.resolution, "VNC_DPI="+c.dots)
		command := VNC(env).Command
		for option, want := range map[string]string{"-geometry": c.size, "-depth": c.depth, "-dpi": c.dpi} {
			if at := slices.Index(command, option); at < 0 || command[at+1] != want {
				t.Errorf("%+v: %v", c, command)
			}
		}
	}
}

// TestPrograms checks that the desktop programs in an image are started, and
// that their configuration contains the folder in which they are.
func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // overwrites existing files
		if err := Furnish(dir); err != nil {
			t.Fatal(err)
		}
	}
	names := func(commands ...string) (list []string) {
		for _, p := range Programs(nil, dir, func(c string) bool { return slices.Contains(commands, c) }) {
			list = append(list, p.Command[0])
			for _, name := range []string{"XDG_CONFIG_DIRS", "XDG_DATA_DIRS"} {
				own, rest, _ := strings.Cut(p.Env[name], ":")
				if info, err := os.Stat(own); err != nil || !info.IsDir() || rest == "" {
					t.Errorf("%s: %s is %s (%v)", p.Name, name, p.Env[name], err)
				}
			}
		}
		return list
	}
	dock := filepath.Join(dir, "dock.sh")
	for _, c := range []struct{ has, want []string }{
		{nil, nil},
		{[]string{"x-window-manager"}, []string{"x-window-manager"}},
		{[]string{accessibility}, []string{accessibility}},
		{[]string{"plank", "xfwm4", "x-window-manager", "thunar", "xfdesktop", "xfce4-panel", "xfsettingsd"},
			[]string{"xfsettingsd", "xfwm4", "xfdesktop", "xfce4-panel", "thunar", dock}},
	} {
		if got := names(c.has...); !slices.Equal(got, c.want) {
			t.Errorf("an image with %v starts %v", c.has, got)
		}
	}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), dirMark) {
			t.Errorf("%s names no folder", path)
		}
		if strings.HasSuffix(path, ".xml") && xml.Unmarshal(text, new(struct{})) != nil {
			t.Errorf("%s is no XML", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestScripts checks how the dock and the browser are started and configured
// for the user. The user's own configuration must take precedence.
func TestScripts(t *testing.T) {
	dir, home, bin := t.TempDir(), t.TempDir(), t.TempDir()
	if err := Furnish(dir); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"plank", "google-chrome-stable"} { // the stand-ins print their arguments
		if err := os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\nprintf '%s\\n' \"${0##*/}\" \"$@\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"HOME=" + home, "PATH=" + bin + ":/usr/bin:/bin"}
	run := func(script string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, script), args...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		return string(out)
	}
	if said := run("browser.sh", "http://a b/"); !strings.HasPrefix(said, "google-chrome-stable\n--no-sandbox\n") ||
		!strings.HasSuffix(said, "\nhttp://a b/\n") || !strings.Contains(said, "\n--user-data-dir="+home+"/.config/google-chrome\n") {
		t.Errorf("the browser is started as\n%s", said)
	}
	chosen := filepath.Join(bin, "my browser")
	if err := os.WriteFile(chosen, []byte("#!/bin/sh\necho chosen\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	env = append(env, "CHROME_EXECUTABLE_PATH="+chosen)
	if said := run("browser.sh"); said != "chosen\n" {
		t.Errorf("instead of the chosen browser, %s was started", said)
	}
	settings := filepath.Join(home, ".config/glib-2.0/settings/keyfile")
	if said := run("dock.sh"); said != "plank\n" {
		t.Errorf("the dock is started as\n%s", said)
	}
	if text, err := os.ReadFile(settings); err != nil || !strings.Contains(string(text), "hide-mode='none'") {
		t.Errorf("the dock's settings are %q (%v)", text, err)
	}
	if err := os.WriteFile(settings, []byte("[mine]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run("dock.sh")
	if text, _ := os.ReadFile(settings); string(text) != "[mine]\n" {
		t.Errorf("the user's settings have become %q", text)
	}
}
