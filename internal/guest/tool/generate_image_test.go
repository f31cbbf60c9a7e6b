package tool_test

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/guest/file"
	"aloft/internal/guest/tool"
)

func TestGenerateImage(t *testing.T) {
	dir, artifacts := t.TempDir(), filepath.Join(t.TempDir(), "artifacts")
	ws := tool.Workspace{Dir: dir, Seen: file.NewSeen(), Free: []string{artifacts}}
	large := image.NewNRGBA(image.Rect(0, 0, 2000, 1000))
	var p, j bytes.Buffer
	if err := png.Encode(&p, large); err != nil {
		t.Fatal(err)
	}
	if err := jpeg.Encode(&j, large, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "old.png"), "old")
	for name, to := range map[string]string{"link.png": "kite.png", "hook.png": ".git/hook.png", "folder.png": "."} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name    string
		path    string
		data    []byte
		guarded bool
		saved   string // path of the file; "" if nothing is saved
		want    string
	}{
		{"New", "sub/kite.png", p.Bytes(), true, filepath.Join(dir, "sub/kite.png"), "image/png"},
		{"Replaced", "old.png", p.Bytes(), true, filepath.Join(dir, "old.png"), "shown with its longer side as 1568]"},
		{"ThroughALink", "link.png", p.Bytes(), true, filepath.Join(dir, "kite.png"), "saved as " + filepath.Join(dir, "kite.png")},
		{"OtherFormat", "b.PNG", j.Bytes(), true, filepath.Join(dir, "b.PNG"), "image/jpeg, "},
		{"WithoutAPath", "", j.Bytes(), true, filepath.Join(artifacts, "image-call_7.jpeg"), "image-call_7.jpeg"},
		{"Protected", "hook.png", p.Bytes(), true, "", "another path was approved"},
		{"OtherExtension", "run.sh", p.Bytes(), false, "", `file_path is "run.sh": it must end in .png, .jpg, .jpeg, .webp`},
		{"Folder", "folder.png", p.Bytes(), false, "", "not a file"},
		{"NoImage", "c.png", []byte("#!/bin/sh\n"), false, "", "the model sent text/plain; charset=utf-8 and not an image"},
		{"NoPayload", "c.png", nil, false, "", "the image did not arrive"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := use(t, tool.GenerateImage(ws, artifacts), map[string]any{
				"description": "x", "file_path": c.path, "tool_call_id": "call_7", "guarded": c.guarded, "payload": base64.StdEncoding.EncodeToString(c.data),
			})
			if out.Error != (c.saved == "") || !strings.Contains(out.Text, c.want) {
				t.Fatalf("error: %v, %q", out.Error, out.Text)
			}
			if c.saved == "" {
				if len(out.Pictures) > 0 || out.Call.GetGenerateImageToolCall().GetResult().GetError().GetMessage() != out.Text {
					t.Errorf("got %v", out.Call)
				}
				return
			}
			got, err := os.ReadFile(c.saved)
			if err != nil || !bytes.Equal(got, c.data) {
				t.Errorf("%d bytes were saved, %v", len(got), err)
			}
			if s := out.Call.GetGenerateImageToolCall().GetResult().GetSuccess(); s.GetFilePath() != c.saved || s.GetSizeBytes() != float64(len(c.data)) {
				t.Errorf("result %v", s)
			}
			shown, _, err := image.DecodeConfig(bytes.NewReader(out.Pictures[0].GetData()))
			if err != nil || shown.Width != 1568 {
				t.Errorf("the model is shown %+v, %v", shown, err)
			}
			if said := strings.Contains(out.Text, "another format"); said != (c.name == "OtherFormat") {
				t.Errorf("%q", out.Text)
			}
		})
	}
}
