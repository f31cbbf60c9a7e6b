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

// capture is a running ffmpeg that records. Its methods are safe for concurrent
// use.
type capture struct {
	cmd    *exec.Cmd
	most   bounds
	words  limited // ffmpeg's error output
	shown  progress
	exited chan struct{} // closed when ffmpeg has exited
	failed error         // ffmpeg's exit error; valid once exited is closed

	mu      sync.Mutex
	stopped bool // ffmpeg was told to stop
}

// begin starts recording a display to a file, which it replaces. The video is written in
// fragments. Each fragment is usable even if recording stops after it.
func begin(display, file string, most bounds) (*capture, error) {
	path, err := program("ffmpeg")
	if err != nil {
		return nil, err
	}
	c := &capture{most: most, exited: make(chan struct{}), shown: progress{first: make(chan struct{})}}
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
	// If this process is killed, ffmpeg gets SIGINT. The kernel sends the
	// signal when the thread that started ffmpeg exits, so that thread waits
	// here and does nothing else.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGINT}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.failed = c.cmd.Wait()
			close(c.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("ffmpeg: %w", err)
	}
	return c, nil
}

// firstFrame waits for the first recorded frame.
func (c *capture) firstFrame(ctx context.Context) error {
	select {
	case <-c.shown.first:
		return nil
	case <-c.exited:
		return fmt.Errorf("cannot record the desktop: %s", c.complaint())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *capture) hasEnded() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// stop makes ffmpeg finish the file, and waits for it to exit.
func (c *capture) stop() {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	_ = c.cmd.Process.Signal(os.Interrupt) // it may have exited already
	select {
	case <-c.exited:
	case <-time.After(stopTime):
		c.kill()
	}
}

// kill kills ffmpeg.
func (c *capture) kill() {
	_ = c.cmd.Process.Kill() // it may have exited already
	<-c.exited
}

// length returns the length of the recording so far.
func (c *capture) length() time.Duration { return c.shown.length() }

// reason returns why ffmpeg stopped by itself; "" if it was told to stop.
func (c *capture) reason() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.stopped:
		return ""
	case c.failed != nil:
		return "ffmpeg exited: " + c.complaint()
	case c.length() >= c.most.length-time.Second:
		return fmt.Sprintf("it reached the maximum length of %s", c.most.length)
	}
	return fmt.Sprintf("it reached the maximum size of %d MiB", c.most.size>>20)
}

// complaint returns the error output of an ffmpeg that has exited.
func (c *capture) complaint() string { return complaintOf(c.failed, c.words.text()) }

func complaintOf(err error, words string) string {
	if strings.Contains(words, "annot open display") {
		return "no desktop is running on the display; " + clean(words, 200)
	}
	if words == "" && err != nil {
		words = err.Error()
	}
	return clean(words, 300)
}

// program finds one of ffmpeg's programs in PATH.
func program(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", ErrNoFfmpeg
	}
	return path, nil
}

// environ returns the part of this process's environment that ffmpeg needs.
func environ() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "XAUTHORITY"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// progress parses ffmpeg's -progress output: lines of key=value.
type progress struct {
	first chan struct{} // closed at the first frame; nil if nobody waits

	mu     sync.Mutex
	rest   []byte // an incomplete line
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
	if len(p.rest) > 4096 { // not a line of ffmpeg's
		p.rest = nil
	}
	return len(b), nil
}

func (p *progress) length() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(p.micros) * time.Microsecond
}

// limited keeps the last bytes that are written. It is safe for concurrent use.
type limited struct {
	mu   sync.Mutex
	tail []byte
}

func (l *limited) Write(p []byte) (int, error) {
	const most = 4096
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = append(l.tail, p...)
	if over := len(l.tail) - most; over > 0 {
		l.tail = append([]byte(nil), l.tail[over:]...)
	}
	return len(p), nil
}

func (l *limited) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.tail)
}

// clean joins a program's output to one line of at most limit bytes.
func clean(words string, limit int) string {
	words = strings.Join(strings.Fields(strings.ToValidUTF8(words, "\uFFFD")), " ")
	if len(words) > limit {
		words = strings.ToValidUTF8(words[:limit], "") + "…"
	}
	return words
}
