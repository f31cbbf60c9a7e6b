package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"aloft/internal/need"
	"aloft/internal/vnctest"
)

// TestRecordingOutlivesTheDaemon checks that after a daemon was killed or
// stopped, the next daemon saves the interrupted recording once.
func TestRecordingOutlivesTheDaemon(t *testing.T) {
	need.Command(t, "ffmpeg")
	display := vnctest.Start(t, 320, 200).Display
	d := start(t, func(d *daemon) {
		d.more = []string{"--record-screen-enabled", "--artifacts-dir", filepath.Join(d.workspace, ".artifacts")}
		d.env = []string{"DISPLAY=" + display}
	})
	e := d.client()
	if lacking, err := e.Lacking(within(t)); err != nil || slices.Contains(lacking, "RecordScreen") {
		t.Errorf("lacking %q, %v", lacking, err)
	}
	for _, end := range []struct {
		signal syscall.Signal
		why    string
	}{{syscall.SIGKILL, "last seconds may be missing"}, {syscall.SIGTERM, "the machine stopped, or exec-daemon"}} {
		id := func(n string) string { return n + end.signal.String() }
		if res := call(t, e, id("start"), "RecordScreen", map[string]any{"mode": "START_RECORDING"}); res.Error {
			t.Fatalf("%+v", res)
		}
		limit := within(t)
		for fragment := false; !fragment; {
			data, err := os.ReadFile(filepath.Join(d.workspace, ".recording", "screen.mp4"))
			if err != nil {
				t.Fatal(err)
			}
			fragment = bytes.Contains(data, []byte("moof"))
			select {
			case <-limit.Done():
				t.Fatal("no fragment came")
			case <-time.After(20 * time.Millisecond):
			}
		}
		_ = d.signal(end.signal)
		d.start()
		if res := call(t, e, id("again"), "RecordScreen", map[string]any{"mode": "START_RECORDING"}); !res.Error || !strings.Contains(res.Text, end.why) {
			t.Errorf("%+v", res)
		}
		res := call(t, e, id("save"), "RecordScreen", map[string]any{"mode": "SAVE_RECORDING", "save_as_filename": "demo"})
		var out struct {
			Success struct {
				FilePath   string
				DurationMs float64
				SizeBytes  float64
				Ended      string
			}
		}
		if err := json.Unmarshal(res.Output, &out); err != nil || res.Error {
			t.Fatalf("%+v, %v", res, err)
		}
		info, err := os.Stat(out.Success.FilePath)
		if err != nil || float64(info.Size()) != out.Success.SizeBytes || out.Success.DurationMs <= 0 || !strings.Contains(out.Success.Ended, end.why) {
			t.Errorf("%+v, %v", out, err)
		}
		if res = call(t, e, id("twice"), "RecordScreen", map[string]any{"mode": "SAVE_RECORDING"}); !res.Error || !strings.Contains(res.Text, "no recording") {
			t.Errorf("%+v", res)
		}
	}
}

// TestRecordingIsLacking checks that a daemon without the flags or a desktop
// reports that it lacks the tools.
func TestRecordingIsLacking(t *testing.T) {
	for _, more := range [][]string{nil, {"--record-screen-enabled", "--computer-use-enabled"}} {
		d := start(t, func(d *daemon) { d.more, d.env = more, []string{"DISPLAY="} })
		if lacking, err := d.client().Lacking(within(t)); err != nil || !slices.Equal(lacking, []string{"GenerateImage", "RecordScreen", "ComputerUse"}) {
			t.Errorf("%q lacks %q, %v", more, lacking, err)
		}
	}
}
