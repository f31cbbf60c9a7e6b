package video

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"aloft/internal/need"
	"aloft/internal/vnctest"
)

// recorder returns a recorder on a desktop of its own.
func recorder(t *testing.T) *Recorder {
	t.Helper()
	need.Command(t, "ffmpeg")
	dir := t.TempDir()
	r := New(Config{Display: vnctest.Start(t, 320, 200).Display, Dir: filepath.Join(dir, "recording"), Artifacts: filepath.Join(dir, "artifacts")})
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func start(t *testing.T, r *Recorder) {
	t.Helper()
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func save(t *testing.T, r *Recorder, name string) Recording {
	t.Helper()
	rec, err := r.Save(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	plays(t, rec)
	return rec
}

// plays fails unless a browser can play a saved recording: it must be H.264,
// its index must precede its frames, and its length and size must equal the
// reported ones.
func plays(t *testing.T, rec Recording) {
	t.Helper()
	out, err := exec.Command("ffprobe", "-v", "error", "-count_frames", "-show_entries", "stream=codec_name,width,height,pix_fmt,nb_read_frames:format=duration", "-of", "json", rec.Path).Output()
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Streams []struct {
			Codec         string `json:"codec_name"`
			Pixels        string `json:"pix_fmt"`
			Frames        string `json:"nb_read_frames"`
			Width, Height int
		}
		Format struct{ Duration string }
	}
	if err := json.Unmarshal(out, &said); err != nil || len(said.Streams) != 1 {
		t.Fatalf("%s, %v", out, err)
	}
	s := said.Streams[0]
	frames, _ := strconv.Atoi(s.Frames)
	if s.Codec != "h264" || s.Pixels != "yuv420p" || s.Width != 320 || s.Height != 200 || frames == 0 {
		t.Errorf("%s is %s", rec.Path, out)
	}
	if length, err := strconv.ParseFloat(said.Format.Duration, 64); err != nil || length <= 0 || (rec.Length.Seconds()-length) > 0.2 || (length-rec.Length.Seconds()) > 0.2 {
		t.Errorf("%s is %q long, and said to be %s", rec.Path, said.Format.Duration, rec.Length)
	}
	data, err := os.ReadFile(rec.Path)
	if err != nil || int64(len(data)) != rec.Size {
		t.Errorf("%s has %d bytes, and is said to have %d; %v", rec.Path, len(data), rec.Size, err)
	}
	if index, frames := bytes.Index(data, []byte("moov")), bytes.Index(data, []byte("mdat")); index < 0 || index > frames || bytes.Contains(data, []byte("moof")) {
		t.Errorf("%s: its index is at %d, and its frames at %d", rec.Path, index, frames)
	}
}

// left returns the files in a folder.
func left(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestRecord(t *testing.T) {
	r := recorder(t)
	if _, err := r.Save(t.Context(), ""); !errors.Is(err, errNoRecording) {
		t.Errorf("nothing was saved: %v", err)
	}
	if _, err := r.Discard(); !errors.Is(err, errNoRecording) {
		t.Errorf("nothing was discarded: %v", err)
	}
	start(t, r)
	if err := r.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "is running") {
		t.Errorf("two at once: %v", err)
	}
	if rec := save(t, r, "demo.webm"); rec.Path != filepath.Join(r.Artifacts, "demo.mp4") || rec.Ended != "" {
		t.Errorf("%+v", rec)
	}
	first, err := os.ReadFile(filepath.Join(r.Artifacts, "demo.mp4"))
	if err != nil {
		t.Fatal(err)
	}
	start(t, r)
	if rec := save(t, r, "demo"); rec.Path != filepath.Join(r.Artifacts, "demo-2.mp4") {
		t.Errorf("the name is taken: %+v", rec)
	}
	if now, err := os.ReadFile(filepath.Join(r.Artifacts, "demo.mp4")); err != nil || !bytes.Equal(now, first) {
		t.Errorf("what was there is replaced: %v", err)
	}
	start(t, r)
	if rec, err := r.Discard(); err != nil || rec.Ended != "" {
		t.Errorf("%+v, %v", rec, err)
	}
	if names := left(t, r.Dir); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}
	if names := left(t, r.Artifacts); len(names) != 2 {
		t.Errorf("artifacts: %q", names)
	}
}

// TestWhatCannotBeSavedIsStillThere checks that an invalid name or a folder
// that cannot be created does not end the recording.
func TestWhatCannotBeSavedIsStillThere(t *testing.T) {
	r := recorder(t)
	start(t, r)
	if _, err := r.Save(t.Context(), "../../etc/passwd"); err == nil || r.now.hasEnded() {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(r.Artifacts, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Save(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "still there") {
		t.Errorf("%v", err)
	}
	if err := os.Remove(r.Artifacts); err != nil {
		t.Fatal(err)
	}
	save(t, r, "a")
}

// fragments waits until the given number of the recording's fragments are on
// disk.
func fragments(t *testing.T, r *Recorder, want int) {
	t.Helper()
	for {
		data, err := os.ReadFile(r.video())
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Count(data, []byte("moof")) >= want {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal("no fragment came")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestKilled checks that if ffmpeg is killed, the recording up to then can be
// saved, even by a later recorder.
func TestKilled(t *testing.T) {
	r := recorder(t)
	start(t, r)
	fragments(t, r, 1)
	r.now.kill()
	if err := r.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "neither saved nor discarded") || !strings.Contains(err.Error(), "killed") {
		t.Errorf("%v", err)
	}
	next := New(r.Config)
	if err := next.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "last seconds may be missing") {
		t.Errorf("%v", err)
	}
	if rec := save(t, next, "killed"); !strings.Contains(rec.Ended, "last seconds") {
		t.Errorf("%+v", rec)
	}
}

// TestKilledAtOnce checks that saving a recording without a complete fragment
// returns an error that says so, and that the recording can be discarded.
func TestKilledAtOnce(t *testing.T) {
	r := recorder(t)
	start(t, r)
	r.now.kill()
	if err := os.Truncate(r.video(), 100); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Save(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "DISCARD_RECORDING") {
		t.Errorf("%v", err)
	}
	if rec, err := r.Discard(); err != nil || !strings.Contains(rec.Ended, "killed") {
		t.Errorf("%+v, %v", rec, err)
	}
	start(t, r)
}

func TestEnd(t *testing.T) {
	r := recorder(t)
	if err := r.End("the run ended"); err != nil {
		t.Error(err)
	}
	start(t, r)
	if err := r.End("the run ended"); err != nil {
		t.Fatal(err)
	}
	if err := r.End("something else"); err != nil { // the process has ended
		t.Fatal(err)
	}
	if err := r.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "the run ended") {
		t.Errorf("%v", err)
	}
	if rec := save(t, New(r.Config), ""); rec.Ended != "the run ended" || !strings.HasPrefix(filepath.Base(rec.Path), "recording-2") {
		t.Errorf("%+v", rec)
	}
}

func TestBounds(t *testing.T) {
	for name, b := range map[string]bounds{"length": {time.Second, maxSize}, "MiB": {maxLength, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := recorder(t)
			r.bounds = b
			start(t, r)
			<-r.now.exited
			if err := r.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "the maximum") {
				t.Errorf("%v", err)
			}
			if rec := save(t, r, ""); !strings.Contains(rec.Ended, name) {
				t.Errorf("%+v", rec)
			}
		})
	}
}

func TestLacks(t *testing.T) {
	need.Command(t, "ffmpeg")
	dir := t.TempDir()
	if err := New(Config{Dir: dir}).Start(t.Context()); !errors.Is(err, ErrNoDesktop) {
		t.Errorf("%v", err)
	}
	r := New(Config{Display: ":98765", Dir: dir})
	if err := r.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "no desktop is running") {
		t.Errorf("%v", err)
	}
	if names := left(t, dir); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}
	t.Setenv("PATH", dir)
	if err := r.Lacks(); !errors.Is(err, ErrNoFfmpeg) {
		t.Errorf("%v", err)
	}
}

func TestFileName(t *testing.T) {
	now := time.Date(2026, 11, 22, 18, 5, 9, 0, time.UTC)
	for requested, want := range map[string]string{
		"": "recording-20261122-180509", "a": "a", "a.mp4": "a", "A b.MOV": "A b", "v1.2": "v1.2", "größe": "größe",
		"../a": "", "/etc/passwd": "", `a\b`: "", ".hidden": "", "..": "", ".mp4": "", "a\nb": "", "a\u202egpj": "", " a": "", "a\xff": "", strings.Repeat("a", 101): "",
	} {
		if got, err := fileName(requested, now); got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v; want %q", requested, got, err, want)
		}
	}
}

func FuzzFileName(f *testing.F) {
	for _, requested := range []string{"", "a.mp4", "../a", "a/b", "\x00", ".mp4.mp4"} {
		f.Add(requested)
	}
	f.Fuzz(func(t *testing.T, requested string) {
		name, err := fileName(requested, time.Now())
		if err != nil {
			return
		}
		if file := name + ".mp4"; filepath.Base(file) != file || !filepath.IsLocal(file) || strings.HasPrefix(file, ".") || strings.ContainsFunc(file, unicode.IsControl) || len(file) > 255 {
			t.Errorf("%q becomes %q", requested, file)
		}
	})
}

func FuzzProgress(f *testing.F) {
	f.Add([]byte("frame=3\nout_time_us=200000\nprogress=continue\n"), 7)
	f.Fuzz(func(t *testing.T, said []byte, at int) {
		whole, parts := progress{}, progress{first: make(chan struct{})}
		_, _ = whole.Write(said)
		at = max(0, min(at, len(said)))
		_, _ = parts.Write(said[:at])
		_, _ = parts.Write(said[at:])
		if whole.length() < 0 || len(said) < 4000 && whole.length() != parts.length() {
			t.Errorf("%s and %s", whole.length(), parts.length())
		}
	})
}
