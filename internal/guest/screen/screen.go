// Package screen controls an X display with mouse and keyboard, and takes screenshots.
// It implements the X protocol itself: it sends input through XTEST and reads pixels
// through shared memory (MIT-SHM), and runs no other program.
//
// A model sees screenshots of at most 1280×800 pixels, and gives coordinates in
// screenshot pixels. A [Scaler] converts between these coordinates and positions on the
// display.
package screen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xfixes"
	"github.com/jezek/xgb/xproto"
	"github.com/jezek/xgb/xtest"
)

// Default delays of a [Hand].
const (
	ScreenshotDelay = 2 * time.Second       // from the last input to a screenshot: programs take time to react
	TypingDelay     = 12 * time.Millisecond // between keys
	typingBatch     = 50                    // characters whose keys are looked up at once
)

// Limits on one call of [Hand.Do].
const (
	MaxActions = 100
	MaxShots   = 5 // the maximum number of images in a result
	MaxText    = 5000
	MaxScroll  = 100
	MaxWait    = 30 * time.Second
)

func init() { xgb.Logger = log.New(io.Discard, "", 0) } // errors are returned

// A Hand controls one display; [NewHand] makes it. It connects for each call, so the
// display may be restarted at any time. Its methods are safe for concurrent use; its
// fields may be changed only before the first call.
type Hand struct {
	Display         string // such as ":1"
	Folder          string // folder for screenshots
	ScreenshotDelay time.Duration
	TypingDelay     time.Duration

	turn  chan struct{}               // semaphore: holds one value while a call runs
	last  time.Time                   // time of the last input; protected by turn
	pause func(context.Context) error // called before a key gets another meaning
}

// NewHand returns a hand for a display, with default settings.
func NewHand(name string) *Hand {
	return &Hand{
		Display: name, Folder: "/tmp/computer-use", ScreenshotDelay: ScreenshotDelay, TypingDelay: TypingDelay,
		turn: make(chan struct{}, 1), pause: func(ctx context.Context) error { return sleep(ctx, forget) },
	}
}

// Done describes the actions that were done.
type Done struct {
	Actions int // number of actions done
	Pointer Point
	Width   int // size of the screenshots in pixels
	Height  int
	Shots   []Shot
}

// Do runs actions one after the other. It checks all of them before it runs the
// first. If one fails, or ctx ends, it releases the keys and buttons that it
// holds; the error says which action failed.
func (h *Hand) Do(ctx context.Context, actions []Action) (Done, error) {
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return Done{}, context.Cause(ctx)
	}
	if h.last.IsZero() {
		h.last = time.Now() // a desktop that was just started also needs time to appear
	}
	d, err := open(h.Display, h.pause)
	if err != nil {
		return Done{}, err
	}
	defer d.conn.Close()
	// Use a timeout, because a display that hangs must not block the call. Allow a working
	// display one second to release keys.
	defer context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, d.conn.Close) })()
	done := Done{Width: d.scaler.Width, Height: d.scaler.Height}
	if err := check(actions, d.scaler); err != nil {
		return done, err
	}
	for n, a := range actions {
		err := context.Cause(ctx)
		if err == nil {
			err = h.act(ctx, d, a, &done)
		}
		if err != nil {
			d.letGo()
			return done, fmt.Errorf("action %d of %d, %s: %w", n+1, len(actions), a.Kind, err)
		}
		done.Actions++
	}
	x, y, _, err := d.pointer()
	done.Pointer = d.scaler.ToPicture(Point{x, y})
	return done, err
}

func (h *Hand) act(ctx context.Context, d *display, a Action, done *Done) error {
	if a.Kind != Wait && a.Kind != Screenshot && a.Kind != CursorPosition {
		defer func() { h.last = time.Now() }()
	}
	if a.At != nil {
		d.move(d.scaler.ToDisplay(*a.At))
	}
	button := byte(max(a.Button, Left))
	switch a.Kind {
	case MouseDown:
		d.press(button)
	case MouseUp:
		d.release(button)
	case Click:
		d.press(button)
		d.release(button)
	case Drag:
		if err := d.drag(ctx, *a.At, *a.To, button); err != nil {
			return err
		}
	case Scroll:
		for range a.Amount {
			d.press(a.Direction.button())
			d.release(a.Direction.button())
		}
	case Type:
		return d.write(ctx, a.Text, h.TypingDelay)
	case Key:
		return d.chord(ctx, a.Text)
	case Wait:
		return sleep(ctx, a.Wait)
	case Screenshot:
		if err := sleep(ctx, h.ScreenshotDelay-time.Since(h.last)); err != nil {
			return err
		}
		shot, err := d.shoot(h.Folder)
		if err != nil {
			return err
		}
		done.Shots = append(done.Shots, shot)
	}
	return d.sync()
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A display is one connection to an X server.
type display struct {
	conn    *xgb.Conn
	screen  *xproto.ScreenInfo
	scaler  Scaler
	buttons map[byte]bool // held by this connection
	keys    []xproto.Keycode
	fixes   bool // the server can report the pointer's image
	pause   func(context.Context) error
}

func open(name string, pause func(context.Context) error) (*display, error) {
	if name == "" {
		return nil, errors.New("no display: DISPLAY is not set")
	}
	conn, err := xgb.NewConnDisplay(name)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to the display %s: %w", name, err)
	}
	d := &display{conn: conn, screen: xproto.Setup(conn).DefaultScreen(conn), buttons: map[byte]bool{}, pause: pause}
	if err := enable(conn, "XTEST"); err != nil {
		conn.Close()
		return nil, fmt.Errorf("the display %s does not accept input from programs (XTEST): %w", name, err)
	}
	if enable(conn, "XFIXES") == nil {
		_, err := xfixes.QueryVersion(conn, 4, 0).Reply()
		d.fixes = err == nil
	}
	size, err := xproto.GetGeometry(conn, xproto.Drawable(d.screen.Root)).Reply() // the display may have been resized
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("the display %s: %w", name, err)
	}
	d.scaler = Fit(int(size.Width), int(size.Height))
	return d, nil
}

// pointer returns the pointer's position on the display, and the active
// modifiers.
func (d *display) pointer() (x, y int, mask uint16, err error) {
	p, err := xproto.QueryPointer(d.conn, d.screen.Root).Reply()
	if err != nil {
		return 0, 0, 0, fmt.Errorf("the pointer: %w", err)
	}
	return int(p.RootX), int(p.RootY), p.Mask, nil
}

// sync waits until the server has processed all requests.
func (d *display) sync() error {
	if _, err := xproto.GetInputFocus(d.conn).Reply(); err != nil {
		return fmt.Errorf("lost the connection to the display: %w", err)
	}
	return nil
}

func (d *display) sendInput(kind, detail byte, x, y int) {
	xtest.FakeInput(d.conn, kind, detail, 0, d.screen.Root, int16(x), int16(y), 0)
}

// move moves the pointer.
func (d *display) move(p Point) { d.sendInput(xproto.MotionNotify, 0, p.X, p.Y) }

func (d *display) press(button byte) {
	d.buttons[button] = true
	d.sendInput(xproto.ButtonPress, button, 0, 0)
}

func (d *display) release(button byte) {
	delete(d.buttons, button)
	d.sendInput(xproto.ButtonRelease, button, 0, 0)
}

// letGo releases all pressed keys and buttons.
func (d *display) letGo() {
	for button := range d.buttons {
		d.release(button)
	}
	d.releaseKeys(0)
	_ = d.sync() // an earlier error is the one to report
}

// Steps and delays that make programs recognize a drag rather than a jump of
// the pointer.
const (
	dragSteps = 10
	dragPause = 10 * time.Millisecond
)

// drag moves the pointer from one point to another with the button pressed.
func (d *display) drag(ctx context.Context, from, to Point, button byte) error {
	a, b := d.scaler.ToDisplay(from), d.scaler.ToDisplay(to)
	d.press(button)
	for n := 1; n <= dragSteps; n++ {
		if err := sleep(ctx, dragPause); err != nil {
			return err
		}
		d.move(Point{a.X + (b.X-a.X)*n/dragSteps, a.Y + (b.Y-a.Y)*n/dragSteps})
	}
	d.release(button)
	return nil
}
