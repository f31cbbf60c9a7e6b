package build

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestLogOfAGigabyte checks that a gigabyte of output fills neither memory nor
// disk. The log keeps the beginning, the end, and the number of bytes between
// them, even if the output is a single line.
func TestLogOfAGigabyte(t *testing.T) {
	for name, piece := range map[string]string{"lines": strings.Repeat("y\n", 16<<10), "one line": strings.Repeat("y", 32<<10)} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "builds", "x.log")
			log, err := openLog(path)
			if err != nil {
				t.Fatal(err)
			}
			heard := 0
			log.news = func(string) { heard++ }
			log.line("# install")
			log.mark()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range (1 << 30) / len(piece) {
				_, _ = log.Write([]byte(piece))
			}
			_, _ = log.Write([]byte("\nthe last line\n"))
			runtime.GC()
			runtime.ReadMemStats(&after)
			if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 16<<20 {
				t.Errorf("the heap has grown by %d bytes", grown)
			}
			if end := log.end(); !strings.HasSuffix(end, "the last line") || len(end) > maxLogEnd {
				t.Errorf("its end has %d bytes: …%q", len(end), end[max(0, len(end)-40):])
			}
			if err := log.close(); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if len(data) > maxLogHead+maxLogTail+100 || !bytes.HasPrefix(data, []byte("# install\ny")) || !bytes.HasSuffix(data, []byte("\nthe last line\n")) || !bytes.Contains(data, []byte(" bytes are left out here")) {
				t.Errorf("the file has %d bytes", len(data))
			}
			if heard == 0 {
				t.Error("there was no news")
			}
		})
	}
}

// TestLogOnAFullDisk checks that a full disk truncates the log but does not end
// the build.
func TestLogOnAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	log := &buildLog{file: full}
	if _, err := log.Write([]byte("all\nof it\n")); err != nil {
		t.Error(err)
	}
	if got := log.end(); got != "all\nof it" {
		t.Errorf("its end is %q", got)
	}
	if err := log.close(); err == nil {
		t.Error("nobody is told")
	}
}
