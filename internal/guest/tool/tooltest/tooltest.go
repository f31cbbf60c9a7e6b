// Package tooltest runs a tool's cases. A case is one .txtar file. Its comment says
// what it shows, and it contains
//
//	input.json   the arguments, as a model writes them
//	tree/…       files that the tool finds in its workspace
//	setup        a script for sh that changes the workspace first (optional)
//	want         the text that the model gets, after "error: " if the call fails;
//	             $WORK stands for the workspace's path
//	after/…      files that must exist afterwards, with these contents (optional)
//	gone         paths, one per line, that must not exist afterwards (optional)
//
// Run the tests with -update to rewrite every want and schema.json.
package tooltest

import (
	"bytes"
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	guest "aloft/internal/guest/tool"
	"aloft/internal/tool"
	"aloft/internal/wire/agentv1"
)

var update = flag.Bool("update", false, "rewrite golden files")

// Make returns the tool for a case, in the case's workspace.
type Make func(t *testing.T, ws guest.Workspace) guest.Tool

// Run runs every case in dir, and compares the tool's schema with
// dir/schema.json.
func Run(t *testing.T, newTool Make, dir string) {
	t.Helper()
	cases, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(cases) == 0 {
		t.Fatalf("no cases in %s (err %v)", dir, err)
	}
	for _, file := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { runCase(t, newTool, file) })
	}
	t.Run("schema", func(t *testing.T) {
		spec, ok := tool.Lookup(newTool(t, guest.Workspace{Dir: t.TempDir()}).Name)
		if !ok {
			t.Fatal("the tool is not in the catalogue")
		}
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, spec.Schema, "", "  "); err != nil {
			t.Fatal(err)
		}
		pretty.WriteByte('\n')
		golden(t, filepath.Join(dir, "schema.json"), pretty.Bytes())
	})
}

func runCase(t *testing.T, newTool Make, file string) {
	t.Helper()
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(bytes.TrimSpace(ar.Comment)) == 0 {
		t.Error("the case does not say what it shows")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var input, want []byte
	wantAt := -1
	for i, f := range ar.Files {
		switch path, inTree := strings.CutPrefix(f.Name, "tree/"); {
		case inTree:
			write(t, filepath.Join(dir, path), f.Data)
		case f.Name == "input.json":
			input = f.Data
		case f.Name == "want":
			want, wantAt = f.Data, i
		}
	}
	if wantAt < 0 || input == nil {
		t.Fatal("the case lacks input.json or want")
	}
	for _, f := range ar.Files {
		if f.Name == "setup" {
			cmd := exec.Command("sh", "-euc", string(f.Data))
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("setup: %v\n%s", err, out)
			}
		}
	}
	hand := newTool(t, guest.Workspace{Dir: dir})
	input = bytes.ReplaceAll(input, []byte("$WORK"), []byte(dir))
	out := hand.Run(t.Context(), Call(t, hand.Name, string(input)), func(*agentv1.ToolCallDelta) {})
	Check(t, hand.Name, out)

	got := strings.ReplaceAll(out.Text, dir, "$WORK")
	if out.Error {
		got = "error: " + got
	}
	if !strings.HasSuffix(got, "\n") {
		got += "\n"
	}
	if got != string(want) {
		if !*update {
			t.Errorf("got:\n%s\nwant:\n%s", got, want)
		} else {
			ar.Files[wantAt].Data = []byte(got)
			write(t, file, txtar.Format(ar))
		}
	}
	checkAfter(t, dir, ar)
}

func checkAfter(t *testing.T, dir string, ar *txtar.Archive) {
	t.Helper()
	for _, f := range ar.Files {
		if path, ok := strings.CutPrefix(f.Name, "after/"); ok {
			got, err := os.ReadFile(filepath.Join(dir, path))
			if err != nil || !bytes.Equal(got, f.Data) {
				t.Errorf("afterwards %s is %q (err %v), want %q", path, got, err, f.Data)
			}
		}
		if f.Name != "gone" {
			continue
		}
		for _, path := range strings.Fields(string(f.Data)) {
			if _, err := os.Lstat(filepath.Join(dir, path)); err == nil {
				t.Errorf("afterwards %s is still there", path)
			}
		}
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), ".aloft-") {
			t.Errorf("%s was left behind", path)
		}
		return err
	})
	if err != nil && !os.IsPermission(err) {
		t.Error(err)
	}
}

// Check checks the properties that every outcome must have.
func Check(t testing.TB, name string, out guest.Outcome) {
	t.Helper()
	if !utf8.ValidString(out.Text) {
		t.Errorf("the text is not UTF-8: %q", out.Text)
	}
	if out.Text == "" {
		t.Error("the text is empty: say that there is nothing")
	}
	if _, err := proto.Marshal(out.Call); err != nil {
		t.Errorf("the result cannot be sent: %v", err)
	}
	result, failed := resultOf(out.Call)
	if !result {
		t.Fatalf("%s gave no result: %v", name, out.Call)
	}
	if failed && !out.Error {
		t.Errorf("the result is an error, the outcome is not: %v", out.Call)
	}
}

// resultOf reports whether a call has its result, and whether the result is an
// error.
func resultOf(call *agentv1.ToolCall) (has, failed bool) {
	m := call.ProtoReflect()
	which := m.WhichOneof(m.Descriptor().Oneofs().ByName("tool"))
	if which == nil {
		return false, false
	}
	m = m.Get(which).Message()
	f := m.Descriptor().Fields().ByName("result")
	if f == nil || !m.Has(f) {
		return false, false
	}
	m = m.Get(f).Message()
	which = m.WhichOneof(m.Descriptor().Oneofs().ByName("result"))
	return which != nil, which != nil && which.Name() == "error"
}

// Call returns a call of the tool with arguments as a model writes them.
func Call(t testing.TB, name, args string) *agentv1.ToolCall {
	t.Helper()
	call := new(agentv1.ToolCall)
	tools := call.ProtoReflect().Descriptor().Oneofs().ByName("tool").Fields()
	for i := range tools.Len() {
		holder := tools.Get(i)
		for j := range holder.Message().Fields().Len() {
			f := holder.Message().Fields().Get(j)
			if f.Kind() != protoreflect.MessageKind || toolName(f.Message()) != name {
				continue
			}
			one := call.ProtoReflect().Mutable(holder).Message()
			if err := protojson.Unmarshal([]byte(args), one.Mutable(f).Message().Interface()); err != nil {
				t.Fatalf("arguments of %s: %v", name, err)
			}
			return call
		}
	}
	t.Fatalf("no message is marked as the tool %s", name)
	return nil
}

func toolName(m protoreflect.MessageDescriptor) string {
	options, _ := proto.GetExtension(m.Options(), agentv1.E_Tool).(*agentv1.ToolOptions)
	return options.GetName()
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		write(t, file, got)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is stale; run with -update\ngot:\n%s", file, got)
	}
}
