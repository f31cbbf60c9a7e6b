package video

import (
	"bytes"
	"image/jpeg"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aloft/internal/need"
)

// film makes a video of ten seconds. Every second looks different.
func film(t *testing.T, name string, more ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	args := append([]string{"-v", "error", "-f", "lavfi", "-i", "testsrc=duration=10:size=320x180:rate=5"}, more...)
	if out, err := exec.Command(need.Command(t, "ffmpeg"), append(args, path)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

func TestLook(t *testing.T) {
	kinds := map[string][]string{
		"a.mp4":  {"video/mp4"},
		"b.mp4":  {"video/mp4", "-movflags", "frag_keyframe+empty_moov"}, // this format contains no duration
		"c.webm": {"video/webm", "-c:v", "libvpx", "-deadline", "realtime"},
		"d.mov":  {"video/quicktime"},
		"e.avi":  {"video/avi", "-c:v", "mjpeg"},
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			file := film(t, name, kind[1:]...)
			for n, c := range []struct {
				from, to, first, last time.Duration
				frames                int
			}{
				{0, 0, 0, 9500 * time.Millisecond, 5},
				{4 * time.Second, 6 * time.Second, 4 * time.Second, 5900 * time.Millisecond, 5},
				{9 * time.Second, time.Hour, 9 * time.Second, 9500 * time.Millisecond, 4},
			} {
				if n > 0 && name != "a.mp4" {
					break // the same for all formats
				}
				frames, info, err := Look(t.Context(), file, kind[0], c.from, c.to, 5)
				if err != nil {
					t.Fatal(err)
				}
				if info.Width != 320 || info.Height != 180 || info.Length.Round(time.Second) != 10*time.Second {
					t.Errorf("%+v", info)
				}
				if len(frames) < c.frames || frames[0].At != c.first || frames[len(frames)-1].At.Round(time.Second) != c.last.Round(time.Second) {
					t.Errorf("from %s to %s: %d pictures from %s to %s", c.from, c.to, len(frames), frames[0].At, frames[len(frames)-1].At)
				}
				for i, f := range frames {
					if conf, err := jpeg.DecodeConfig(bytes.NewReader(f.Data)); err != nil || conf.Width != 320 || conf.Height != 180 {
						t.Errorf("picture %d is %d×%d, %v", i, conf.Width, conf.Height, err)
					}
				}
			}
		})
	}
}

func TestLookAtWhatIsNone(t *testing.T) {
	whole := film(t, "a.mp4")
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	sound := filepath.Join(t.TempDir(), "sound.mp4")
	if out, err := exec.Command("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "sine=duration=1", sound).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, contents := range map[string][]byte{
		"half":     data[:len(data)/2],
		"list":     []byte("#EXTM3U\n#EXT-X-MEDIA-SEQUENCE:0\n#EXTINF:10.0,\nfile://" + secret + "\n#EXT-X-ENDLIST\n"),
		"concat":   []byte("ffconcat version 1.0\nfile " + whole + "\n"),
		"nonsense": bytes.Repeat([]byte{0, 0, 0, 24, 'f', 't', 'y', 'p'}, 1000),
		"empty":    {},
	} {
		file := filepath.Join(t.TempDir(), name+".mp4")
		if err := os.WriteFile(file, contents, 0o600); err != nil {
			t.Fatal(err)
		}
		if frames, _, err := Look(t.Context(), file, "video/mp4", 0, 0, 5); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %d pictures, %v", name, len(frames), err)
		}
	}
	if _, _, err := Look(t.Context(), sound, "video/mp4", 0, 0, 5); err == nil || !strings.Contains(err.Error(), "no readable video") {
		t.Errorf("sound: %v", err)
	}
	if _, _, err := Look(t.Context(), whole, "video/mp4", time.Minute, 0, 5); err == nil || !strings.Contains(err.Error(), "10.0 s long") {
		t.Errorf("beyond the end: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, _, err := Look(t.Context(), whole, "video/mp4", 0, 0, 5); err == nil || !strings.Contains(err.Error(), ErrNoFfmpeg.Error()) {
		t.Errorf("no ffmpeg: %v", err)
	}
}

func TestInstants(t *testing.T) {
	s := time.Second
	for _, c := range []struct {
		from, to time.Duration
		most     int
		want     []time.Duration
	}{
		{0, 0, 5, []time.Duration{0}},
		{0, 50 * time.Millisecond, 5, []time.Duration{0}},
		{0, s + lastFrame, 5, []time.Duration{0, s / 4, s / 2, 3 * s / 4, s}},
		{3 * s, s, 3, []time.Duration{3 * s}},
		{s, 9 * s, 1, []time.Duration{s}},
	} {
		if got := instants(c.from, c.to, c.most); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
