package video

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// capture is an ffmpeg that records. Its methods are safe for concurrent use.
type capture struct {
	cmd    *exec.Cmd
	most   bounds
	words  limited // what ffmpeg complains of
	shown  progress
	ended  chan struct{} // closed when it has ended
	failed error         // how it ended; not before ended is closed

	mu      sync.Mutex
	stopped bool // it was told to stop
}

// begin starts to record a display into a file, which it replaces. The video is in
// fragments, each of which can be had though nothing comes after it.
func begin(display, file string, most bounds) (*capture, error) {
	path, err := program("ffmpeg")
	if err != nil {
		return nil, err
	}
	c := &capture{most: most, ended: make(chan struct{}), shown: progress{first: make(chan struct{})}}
	//nolint:noctx // it outlives the call; stop ends it
	c.cmd = exec.Command(path, "-nostdin", "-hide_banner", "-loglevel", "error", "-progress", "pipe:1", "-stats_period", "0.2",
		"-f", "x11grab", "-framerate", strconv.Itoa(framerate), "-i", display,
		"-t", strconv.Itoa(int(most.length.Seconds())), "-fs", strconv.FormatInt(most.size, 10),
		"-vf", fmt.Sprintf(`scale=trunc(min(%d\,iw)/2)*2:-2`, maxWidth),
		"-c:v", "libx264", "-preset", "ultrafast", "-threads", "1", "-pix_fmt", "yuv420p", "-g", strconv.Itoa(keyframes),
		"-movflags", "+frag_keyframe+empty_moov+default_base_moof", "-flush_packets", "1", "-y", "-f", "mp4", "file:"+file)
	c.cmd.Env = append(environ(), "DISPLAY="+display)
	c.cmd.Stdout, c.cmd.Stderr = &c.shown, &c.words
	c.cmd.WaitDelay = time.Second
	// A recorder that is killed takes its ffmpeg along. The kernel holds that to the
	// thread that started it, which therefore waits for it and does nothing else.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGINT}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.failed = c.cmd.Wait()
			close(c.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("ffmpeg: %w", err)
	}
	return c, nil
}

// firstFrame waits until something is recorded.
func (c *capture) firstFrame(ctx context.Context) error {
	select {
	case <-c.shown.first:
		return nil
	case <-c.ended:
		return fmt.Errorf("the desktop cannot be recorded: %s", c.complaint())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *capture) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// stop has ffmpeg write what it holds, and waits for its end.
func (c *capture) stop() {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	_ = c.cmd.Process.Signal(os.Interrupt) // it may have ended
	select {
	case <-c.ended:
	case <-time.After(stopTime):
		c.kill()
	}
}

// kill ends ffmpeg at once.
func (c *capture) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.ended
}

// length is how long the recording is so far.
func (c *capture) length() time.Duration { return c.shown.length() }

// reason says why ffmpeg has ended by itself; "" where it was told to.
func (c *capture) reason() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.stopped:
		return ""
	case c.failed != nil:
		return "ffmpeg ended: " + c.complaint()
	case c.length() >= c.most.length-time.Second:
		return fmt.Sprintf("it was %s long, the most that one may be", c.most.length)
	}
	return fmt.Sprintf("it had %d MiB, the most that one may have", c.most.size>>20)
}

// complaint is what an ffmpeg that has ended said last.
func (c *capture) complaint() string { return complaintOf(c.failed, c.words.text()) }

func complaintOf(err error, words string) string {
	if strings.Contains(words, "annot open display") {
		return "there is no desktop that answers on the display; " + clean(words, 200)
	}
	if words == "" && err != nil {
		words = err.Error()
	}
	return clean(words, 300)
}

// program finds one of ffmpeg's programs.
func program(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", ErrNoFfmpeg
	}
	return path, nil
}

// environ is what ffmpeg is to know of this process's environment.
func environ() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "XAUTHORITY"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// progress reads what ffmpeg prints with -progress: lines of key=value.
type progress struct {
	first chan struct{} // closed at the first frame; nil if nobody asks

	mu     sync.Mutex
	rest   []byte // of a line that has not ended
	began  bool
	micros int64
}

func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rest = append(p.rest, b...)
	for {
		line, rest, found := bytes.Cut(p.rest, []byte("\n"))
		if !found {
			break
		}
		p.rest = rest
		key, value, _ := strings.Cut(string(line), "=")
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		switch {
		case err != nil || n <= 0:
		case key == "frame" && !p.began:
			p.began = true
			if p.first != nil {
				close(p.first)
			}
		case key == "out_time_us":
			p.micros = n
		}
	}
	if len(p.rest) > 4096 { // no line of ffmpeg's
		p.rest = nil
	}
	return len(b), nil
}

func (p *progress) length() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(p.micros) * time.Microsecond
}

// limited keeps the last bytes of what is written. It is safe for concurrent use.
type limited struct {
	mu   sync.Mutex
	kept []byte
}

func (l *limited) Write(p []byte) (int, error) {
	const most = 4096
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, p...)
	if over := len(l.kept) - most; over > 0 {
		l.kept = append([]byte(nil), l.kept[over:]...)
	}
	return len(p), nil
}

func (l *limited) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.kept)
}

// clean is a program's words on one line, of so many bytes at most.
func clean(words string, most int) string {
	words = strings.Join(strings.Fields(strings.ToValidUTF8(words, "\uFFFD")), " ")
	if len(words) > most {
		words = strings.ToValidUTF8(words[:most], "") + "…"
	}
	return words
}
