// Package video records the desktop, and extracts frames from videos. Both need
// ffmpeg to be installed in the machine. It does not start the desktop.
package video

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Limits of a recording.
const (
	maxLength = 30 * time.Minute
	maxSize   = 1 << 30 // bytes
	framerate = 15      // frames per second
	maxWidth  = 1280    // pixels; a wider desktop is scaled down
	// keyframes is the number of frames in a fragment, two seconds. The last
	// fragment is lost if ffmpeg is killed.
	keyframes = 30
)

// Timeouts for ffmpeg.
const (
	startTime = time.Minute      // until the first frame; a desktop may have to start first
	stopTime  = 30 * time.Second // to finish the file, which normally takes 0.1 s
	saveTime  = 5 * time.Minute
)

// Errors for the model.
var (
	ErrNoFfmpeg    = errors.New("ffmpeg is not installed in this machine: install it (sudo apt-get install -y --no-install-recommends ffmpeg), or add it to the environment's image or install command")
	ErrNoDesktop   = errors.New("this machine has no desktop: DISPLAY is not set. To get one, install a VNC server in the image (tigervnc-standalone-server in Debian and Ubuntu)")
	errNoRecording = errors.New("no recording: start one with START_RECORDING")
)

// Config configures a Recorder.
type Config struct {
	Display   string // value of DISPLAY; "" means no desktop
	Dir       string // absolute; folder of a recording until it is saved
	Artifacts string // absolute; folder for saved recordings
}

// A Recorder makes one recording at a time. Recorded frames are on disk within
// two seconds, so that a recording can be saved even if this process or the
// machine has ended meanwhile. Its methods are safe for concurrent use.
type Recorder struct {
	Config
	bounds bounds
	mu     sync.Mutex
	now    *capture // nil if this Recorder has not started a recording
}

// bounds are the limits of a recording.
type bounds struct {
	length time.Duration
	size   int64 // bytes
}

// Recording describes a recording.
type Recording struct {
	Path   string // path of the video; "" unless it was saved
	Length time.Duration
	Size   int64  // bytes
	Ended  string // why it ended early; "" if it did not
}

// New returns a recorder, which takes over an unfinished recording of a previous
// recorder.
func New(c Config) *Recorder { return &Recorder{Config: c, bounds: bounds{maxLength, maxSize}} }

// Lacks returns an error that says what the machine needs for recording, or nil.
func (r *Recorder) Lacks() error {
	if r.Display == "" {
		return ErrNoDesktop
	}
	_, err := program("ffmpeg")
	return err
}

// The files of a recording in Dir: the video, which exists until it is saved or
// discarded, and the reason why it ended, if known.
func (r *Recorder) video() string      { return filepath.Join(r.Dir, "screen.mp4") }
func (r *Recorder) reasonFile() string { return filepath.Join(r.Dir, "ended") }

// Start starts a recording, and returns once the first frame is recorded.
func (r *Recorder) Start(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.Lacks(); err != nil {
		return err
	}
	switch ended, there := r.endReason(); {
	case there && ended == "":
		return fmt.Errorf("a recording is running, for %s so far: end it with SAVE_RECORDING or DISCARD_RECORDING", r.now.length().Round(time.Second))
	case there:
		return fmt.Errorf("an earlier recording was neither saved nor discarded; it ended because %s. Call SAVE_RECORDING or DISCARD_RECORDING first", ended)
	}
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	c, err := begin(r.Display, r.video(), r.bounds)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("no frame of the desktop %s was recorded within %s", r.Display, startTime))
	defer cancel()
	if err := c.firstFrame(ctx); err != nil {
		c.kill()
		return errors.Join(err, r.remove())
	}
	r.now = c
	return nil
}

// Save ends the recording and saves it in the artifacts folder under an unused name: the
// given one, with a number added if necessary, or the current time if name is "". If
// saving fails, the recording is kept.
func (r *Recorder) Save(ctx context.Context, name string) (Recording, error) {
	name, err := fileName(name, time.Now())
	if err != nil {
		return Recording{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	rec, err := r.end("")
	if err != nil {
		return rec, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, saveTime, fmt.Errorf("saving took longer than %s", saveTime))
	defer cancel()
	whole := filepath.Join(r.Dir, "whole.mp4")
	defer func() { _ = os.Remove(whole) }() // fails if the file was moved
	if rec.Length, err = rewrite(ctx, r.video(), whole); err != nil {
		return rec, fmt.Errorf("the recording was not saved: %w. It is still there: try again, or use DISCARD_RECORDING", err)
	}
	if rec.Path, rec.Size, err = moveInto(whole, r.Artifacts, name); err != nil {
		return rec, fmt.Errorf("the recording was not saved: %w. It is still there: try again, or use DISCARD_RECORDING", err)
	}
	return rec, r.remove()
}

// Discard ends the recording and deletes it.
func (r *Recorder) Discard() (Recording, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec, err := r.end("")
	if err != nil {
		return rec, err
	}
	return rec, r.remove()
}

// End ends a running recording. The reason is reported when the recording is
// saved or discarded.
func (r *Recorder) End(reason string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == nil || r.now.hasEnded() {
		return nil
	}
	_, err := r.end(reason)
	return err
}

// Close ends the recording when this process stops.
func (r *Recorder) Close() error {
	return r.End("the machine stopped, or exec-daemon was restarted")
}

// endReason reports whether there is a recording, and why it has ended; why is ""
// while it is running. r.mu must be held.
func (r *Recorder) endReason() (why string, there bool) {
	if _, err := os.Lstat(r.video()); err != nil {
		return "", false
	}
	if r.now != nil {
		if !r.now.hasEnded() {
			return "", true
		}
		if why := r.now.reason(); why != "" {
			return why, true
		}
	}
	if text, err := os.ReadFile(r.reasonFile()); err == nil && len(text) > 0 {
		return clean(string(text), 300), true
	}
	return "exec-daemon or the machine stopped during the recording, so its last seconds may be missing", true
}

// end stops the recording. r.mu must be held.
func (r *Recorder) end(reason string) (Recording, error) {
	why, there := r.endReason()
	if !there {
		if r.now != nil && !r.now.hasEnded() { // the recording's file was removed
			r.now.stop()
		}
		r.now = nil
		return Recording{}, errNoRecording
	}
	rec := Recording{Ended: why}
	if r.now != nil {
		if why == "" {
			r.now.stop()
		}
		rec.Length = r.now.length()
	}
	if info, err := os.Stat(r.video()); err == nil {
		rec.Size = info.Size()
	}
	if reason != "" {
		if err := os.WriteFile(r.reasonFile(), []byte(reason), 0o600); err != nil {
			return rec, fmt.Errorf("record: %w", err)
		}
		r.now = nil // the reason is in the file
	}
	return rec, nil
}

// remove forgets the recording. r.mu must be held.
func (r *Recorder) remove() error {
	r.now = nil
	var wrong []error
	for _, file := range []string{r.video(), r.reasonFile()} {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			wrong = append(wrong, err)
		}
	}
	return errors.Join(wrong...)
}
