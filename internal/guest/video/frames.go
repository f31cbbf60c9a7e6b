package video

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of the frames of a video.
const (
	framesTime = 2 * time.Minute // timeout for extracting all frames of one call
	longSide   = 1280            // pixels of a frame
	maxPicture = 5 << 20         // bytes of one frame
	maxVideo   = 24 * time.Hour
)

// Frame is a frame of a video, as a JPEG.
type Frame struct {
	At   time.Duration // since the start of the video
	Data []byte
}

// Info describes a video.
type Info struct {
	Length        time.Duration // 0 if unknown
	Width, Height int           // pixels
}

// formats maps supported media types to ffmpeg's formats. The format is passed
// to ffmpeg explicitly, so that a file cannot make it read another format, such
// as a playlist.
var formats = map[string]string{
	"video/mp4": "mov", "video/quicktime": "mov", "video/webm": "matroska", "video/avi": "avi",
}

// Readable reports whether videos of that media type are supported.
func Readable(mediaType string) bool { return formats[mediaType] != "" }

// Look returns up to limit frames of a video: the first at from, the others evenly
// spaced up to to. If to is 0 or after the end of the video, it means the end. If ffmpeg
// is missing, the error is ErrNoFfmpeg.
func Look(ctx context.Context, file, mediaType string, from, to time.Duration, limit int) ([]Frame, Info, error) {
	ctx, stop := context.WithTimeoutCause(ctx, framesTime, fmt.Errorf("reading the video took longer than %s", framesTime))
	defer stop()
	input := []string{"-protocol_whitelist", "file", "-f", formats[mediaType], "-i", "file:" + file}
	info, err := probe(ctx, input)
	if err != nil {
		return nil, info, err
	}
	if to == 0 || to > info.Length {
		to = info.Length
	}
	if from > 0 && from >= info.Length {
		return nil, info, fmt.Errorf("offset %s is beyond the end: the video is %s long", seconds(from), seconds(info.Length))
	}
	var frames []Frame
	for _, at := range instants(from, to, limit) {
		data, err := frameAt(ctx, input, at)
		for _, back := range lastFrames { // the last frame may start long before the end
			if err == nil && len(data) == 0 && at-back > from && at+lastFrame >= to {
				at -= back
				data, err = frameAt(ctx, input, at)
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil, info, context.Cause(ctx)
		case err != nil && len(frames) == 0:
			return nil, info, err
		case err != nil || len(data) == 0 || len(data) > maxPicture: // the video is damaged there
			continue
		}
		if n := len(frames); n > 0 && bytes.Equal(frames[n-1].Data, data) {
			continue // the same frame as before
		}
		frames = append(frames, Frame{at, data})
	}
	if len(frames) == 0 {
		return nil, info, errors.New("the video has no frame there")
	}
	return frames, info, nil
}

// lastFrame is the distance from a video's end at which its last frame is
// expected. If there is no frame, the distances in lastFrames are tried next.
const lastFrame = 100 * time.Millisecond

var lastFrames = []time.Duration{400 * time.Millisecond, 2 * time.Second}

// instants returns the times of the frames.
func instants(from, to time.Duration, limit int) []time.Duration {
	to = max(from, to-lastFrame)
	var all []time.Duration
	for i := range limit {
		at := from
		if limit > 1 {
			at += (to - from) * time.Duration(i) / time.Duration(limit-1)
		}
		if at = at.Round(10 * time.Millisecond); !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	return all
}

// probe returns a description of a video. If the header does not contain the
// length, as in a recording that was cut off, it reads the whole file.
func probe(ctx context.Context, input []string) (Info, error) {
	out, err := output(ctx, "ffprobe", append([]string{"-v", "error", "-select_streams", "v:0", "-show_entries", "format=duration:stream=width,height", "-of", "json"}, input...)...)
	if err != nil {
		return Info{}, fmt.Errorf("cannot read the video: %w", err)
	}
	var said struct {
		Streams []struct{ Width, Height int }
		Format  struct{ Duration string }
	}
	if err := json.Unmarshal(out, &said); err != nil || len(said.Streams) == 0 {
		return Info{}, errors.New("the file contains no readable video")
	}
	info := Info{Width: said.Streams[0].Width, Height: said.Streams[0].Height}
	if n, err := strconv.ParseFloat(said.Format.Duration, 64); err == nil && n > 0 && n < maxVideo.Seconds() {
		info.Length = time.Duration(n * float64(time.Second))
		return info, nil
	}
	var shown progress
	out, err = output(ctx, "ffmpeg", slices.Concat([]string{"-nostdin", "-v", "error", "-progress", "pipe:1"}, input, []string{"-map", "0:v:0", "-c", "copy", "-f", "null", "-"})...)
	if err != nil {
		return info, fmt.Errorf("cannot read the video: %w", err)
	}
	_, _ = shown.Write(out) // never fails
	info.Length = shown.length()
	return info, nil
}

// frameAt returns the frame at a time; nil if there is none.
func frameAt(ctx context.Context, input []string, at time.Duration) ([]byte, error) {
	return output(ctx, "ffmpeg", slices.Concat([]string{"-nostdin", "-v", "error", "-ss", strconv.FormatFloat(at.Seconds(), 'f', 3, 64)}, input,
		[]string{"-map", "0:v:0", "-frames:v", "1", "-vf", fmt.Sprintf(`scale=min(%[1]d\,iw):min(%[1]d\,ih):force_original_aspect_ratio=decrease`, longSide),
			"-pix_fmt", "yuvj420p", "-q:v", "3", "-c:v", "mjpeg", "-f", "image2pipe", "pipe:1"})...)
}

// output runs one of ffmpeg's programs and returns its output, even if it fails
// after printing some.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	path, err := program(name)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	var words limited
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = environ()
	cmd.Stdout, cmd.Stderr = &capped{&out}, &words
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, errors.New(strings.TrimPrefix(complaintOf(err, words.text()), "file:"))
	}
	return out.Bytes(), nil
}

// capped accepts one byte more than a frame may have, which reveals a frame
// that is too large.
type capped struct{ to *bytes.Buffer }

func (c *capped) Write(p []byte) (int, error) {
	c.to.Write(p[:min(len(p), maxPicture+1-c.to.Len())])
	return len(p), nil
}

func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
}
