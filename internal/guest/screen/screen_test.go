package screen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jezek/xgb"
	"github.com/jezek/xgb/shm"
	"github.com/jezek/xgb/xproto"
	"golang.org/x/image/webp"

	"aloft/internal/need"
	"aloft/internal/vnctest"
)

// window covers a display and records the events that it receives. Like some
// programs, it looks up the meaning of a key only when it receives the key.
type window struct {
	t    testing.TB
	conn *xgb.Conn
	id   xproto.Window
}

func newWindow(t testing.TB, name string) *window {
	t.Helper()
	conn, err := xgb.NewConnDisplay(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	screen := xproto.Setup(conn).DefaultScreen(conn)
	id, err := xproto.NewWindowId(conn)
	if err != nil {
		t.Fatal(err)
	}
	w := &window{t: t, conn: conn, id: id}
	mask := uint32(xproto.EventMaskKeyPress | xproto.EventMaskKeyRelease | xproto.EventMaskButtonPress | xproto.EventMaskButtonRelease |
		xproto.EventMaskPointerMotion | xproto.EventMaskExposure)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(xproto.CreateWindowChecked(conn, screen.RootDepth, id, screen.Root, 0, 0, screen.WidthInPixels, screen.HeightInPixels, 0,
		xproto.WindowClassInputOutput, screen.RootVisual, xproto.CwBackPixel|xproto.CwOverrideRedirect|xproto.CwEventMask, []uint32{0x336699, 1, mask}).Check())
	must(xproto.MapWindowChecked(conn, id).Check())
	must(xproto.SetInputFocusChecked(conn, xproto.InputFocusParent, id, 0).Check())
	w.got()
	return w
}

// got returns the events since the last call.
func (w *window) got() []string {
	w.t.Helper()
	if _, err := xproto.GetInputFocus(w.conn).Reply(); err != nil { // the reply ensures that earlier events have arrived
		w.t.Fatal(err)
	}
	var all []string
	for {
		event, err := w.conn.PollForEvent()
		if err != nil {
			w.t.Fatal(err)
		}
		switch e := event.(type) {
		case nil:
			return all
		case xproto.MotionNotifyEvent:
			all = append(all, fmt.Sprintf("move %d,%d", e.RootX, e.RootY))
		case xproto.ButtonPressEvent:
			all = append(all, fmt.Sprintf("press %d at %d,%d", e.Detail, e.RootX, e.RootY))
		case xproto.ButtonReleaseEvent:
			all = append(all, fmt.Sprintf("release %d at %d,%d", e.Detail, e.RootX, e.RootY))
		case xproto.KeyPressEvent:
			all = append(all, "down "+w.meaning(e.Detail, e.State))
		case xproto.KeyReleaseEvent:
			all = append(all, "up "+w.meaning(e.Detail, e.State))
		}
	}
}

// meaning returns the keysym of a key with modifiers, as defined by the X core
// protocol and ISO 9995.
func (w *window) meaning(code xproto.Keycode, state uint16) string {
	m, err := xproto.GetKeyboardMapping(w.conn, code, 1).Reply()
	if err != nil {
		w.t.Fatal(err)
	}
	column := 0
	if state>>13&3 == 1 {
		column = 2
	} else if state&xproto.KeyButMaskMod5 != 0 && len(m.Keysyms) > 4 && m.Keysyms[4] != 0 {
		column = 4
	}
	if state&xproto.KeyButMaskShift != 0 && m.Keysyms[column+1] != 0 {
		column++
	}
	return nameOf(Keysym(m.Keysyms[column]))
}

// typed returns the text that the keys have produced, without modifier keys.
func typed(events []string) string {
	var b strings.Builder
	for _, e := range events {
		name, down := strings.CutPrefix(e, "down ")
		sym, ok := lookup(name)
		switch {
		case !down || ok && sym.isModifier():
		case name == "Return":
			b.WriteByte('\n')
		case name == "Tab":
			b.WriteByte('\t')
		case name == "EuroSign":
			b.WriteRune('€')
		case ok && sym >= unicodeKeysyms:
			b.WriteRune(rune(sym - unicodeKeysyms))
		default:
			b.WriteRune(rune(sym))
		}
	}
	return b.String()
}

// swift returns a Hand that does not pause between actions.
func swift(t testing.TB, name string) *Hand {
	h := NewHand(name)
	h.Folder, h.ScreenshotDelay, h.TypingDelay = t.TempDir(), 0, 0
	return h
}

func at(x, y int) *Point { return &Point{x, y} }

// TestActions checks which events a program receives for each action.
func TestActions(t *testing.T) {
	name := vnctest.Start(t, 1920, 1200).Display
	w, h := newWindow(t, name), swift(t, name)
	drag := []string{"move 150,150", "press 1 at 150,150"}
	for n := 1; n <= 10; n++ {
		drag = append(drag, fmt.Sprintf("move %d,150", 150+30*n))
	}
	drag = append(drag, "release 1 at 450,150")
	clicks := func(button, n int, at string) (all []string) {
		for range n {
			all = append(all, fmt.Sprintf("press %d at %s", button, at), fmt.Sprintf("release %d at %s", button, at))
		}
		return all
	}
	for _, c := range []struct {
		name    string
		actions []Action
		want    []string
	}{
		{"Move", []Action{{Kind: MouseMove, At: at(11, 21)}}, []string{"move 17,32"}},
		{"LastPixel", []Action{{Kind: MouseMove, At: at(1279, 799)}}, []string{"move 1919,1199"}},
		{"Click", []Action{{Kind: Click, At: at(100, 200)}}, append([]string{"move 150,300"}, clicks(1, 1, "150,300")...)},
		{"ClickWhereItIs", []Action{{Kind: Click}}, clicks(1, 1, "150,300")},
		{"DoubleClick", []Action{{Kind: Click}, {Kind: Click}}, clicks(1, 2, "150,300")},
		{"Middle", []Action{{Kind: Click, Button: Middle}}, clicks(2, 1, "150,300")},
		{"Right", []Action{{Kind: Click, Button: Right}}, clicks(3, 1, "150,300")},
		{"Back", []Action{{Kind: Click, Button: Back}}, clicks(8, 1, "150,300")},
		{"Forward", []Action{{Kind: Click, Button: Forward}}, clicks(9, 1, "150,300")},
		{"DownMoveUp", []Action{{Kind: MouseDown, Button: Right}, {Kind: MouseMove, At: at(10, 10)}, {Kind: MouseUp, At: at(20, 10), Button: Right}},
			[]string{"press 3 at 150,300", "move 15,15", "move 30,15", "release 3 at 30,15"}},
		{"Drag", []Action{{Kind: Drag, At: at(100, 100), To: at(300, 100)}}, drag},
		{"ScrollDownByDefault", []Action{{Kind: Scroll, At: at(300, 100), Amount: 3}}, append([]string{"move 450,150"}, clicks(5, 3, "450,150")...)},
		{"ScrollUp", []Action{{Kind: Scroll, Direction: ScrollUp, Amount: 1}}, clicks(4, 1, "450,150")},
		{"ScrollDown", []Action{{Kind: Scroll, Direction: ScrollDown, Amount: 1}}, clicks(5, 1, "450,150")},
		{"ScrollLeft", []Action{{Kind: Scroll, Direction: ScrollLeft, Amount: 1}}, clicks(6, 1, "450,150")},
		{"ScrollRight", []Action{{Kind: Scroll, Direction: ScrollRight, Amount: 1}}, clicks(7, 1, "450,150")},
		{"Key", []Action{{Kind: Key, Text: "Return"}}, []string{"down Return", "up Return"}},
		{"Chord", []Action{{Kind: Key, Text: "ctrl+c"}}, []string{"down Control_L", "down c", "up c", "up Control_L"}},
		{"FourKeys", []Action{{Kind: Key, Text: "ctrl+alt+shift+F4"}},
			[]string{"down Control_L", "down Alt_L", "down Shift_L", "down F4", "up F4", "up Shift_L", "up Alt_L", "up Control_L"}},
		{"ShiftIsAdded", []Action{{Kind: Key, Text: "ctrl++"}}, []string{"down Control_L", "down Shift_L", "down plus", "up plus", "up Shift_L", "up Control_L"}},
		{"Wait", []Action{{Kind: Wait, Wait: time.Millisecond}}, nil},
		{"CursorPosition", []Action{{Kind: CursorPosition}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			done, err := h.Do(t.Context(), c.actions)
			if err != nil || done.Actions != len(c.actions) || done.Width != 1280 || done.Height != 800 {
				t.Fatalf("did %+v: %v", done, err)
			}
			if diff := cmp.Diff(c.want, w.got()); diff != "" {
				t.Error(diff)
			}
		})
	}
	done, err := h.Do(t.Context(), []Action{{Kind: MouseMove, At: at(640, 400)}, {Kind: CursorPosition}})
	if err != nil || done.Pointer != (Point{640, 400}) {
		t.Errorf("the pointer is at %v: %v", done.Pointer, err)
	}
}

// TestType checks that a program gets exactly the typed text, whatever the
// keyboard layout.
func TestType(t *testing.T) {
	name := vnctest.Start(t, 640, 400).Display
	w, h := newWindow(t, name), swift(t, name)
	const greek = "αβγδεζηθικλμνξοπρστυφχψω"
	for _, c := range []struct{ name, layout, text, want string }{
		{"Plain", "us", "Hello, World! ~`|\\{}[]<>?/@#$%^&*()_+-=\"';:", ""},
		{"Lines", "us", "one\ttwo\nthree\r\nfour", "one\ttwo\nthree\nfour"},
		{"Unicode", "us", "naïve façade – 日本語 → 😀 €", ""},
		{"LongerThanABatch", "us", strings.Repeat("0123456789abcdefXYZ", 7), ""},
		{"MoreThanSpareKeys", "us", greek + strings.ToUpper(strings.ReplaceAll(greek, "ς", "")) + "абвгдежзийклмнопрстуфхцчшщъыьэюя", ""},
		{"German", "de", "y z Y Z ß ü @ € { } [ ] \\ ~ | µ ^ é", ""},
		{"French", "fr", "azerty 1234 é à ç ; . /", ""},
		{"Russian", "ru", "да no нет 12", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if out, err := exec.Command(need.Command(t, "setxkbmap"), "-display", name, c.layout).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			w.got()
			if c.want == "" {
				c.want = c.text
			}
			var all []string
			h.pause = func(context.Context) error { all = append(all, w.got()...); return nil }
			if _, err := h.Do(t.Context(), []Action{{Kind: Type, Text: c.text}}); err != nil {
				t.Fatal(err)
			}
			got := typed(append(all, w.got()...))
			if got != c.want {
				t.Errorf("typed %q, want %q", got, c.want)
			}
		})
	}
}

// TestRefusals checks that invalid actions are refused before any of them runs.
func TestRefusals(t *testing.T) {
	name := vnctest.Start(t, 1920, 1200).Display
	w, h := newWindow(t, name), swift(t, name)
	move := Action{Kind: MouseMove, At: at(1, 1)}
	for want, actions := range map[string][]Action{
		"actions is empty": {},
		"there are 101 actions, and one call may have at most 100":                                                                       slices.Repeat([]Action{move}, 101),
		"there are 6 screenshots, and one call may have at most 5":                                                                       slices.Repeat([]Action{{Kind: Screenshot}}, 6),
		"action 2 of 2, click: the coordinate 1280,3 is outside the screen, which extends from 0,0 to 1279,799; no action was performed": {move, {Kind: Click, At: at(1280, 3)}},
		"action 2 of 2, drag: the coordinate 3,-1 is outside":                                                                            {move, {Kind: Drag, At: at(0, 0), To: at(3, -1)}},
		"action 2 of 2, drag: start and end are both needed":                                                                             {move, {Kind: Drag, At: at(0, 0)}},
		"mouse_move: coordinate is missing":                                                                                              {{Kind: MouseMove}},
		"scroll: amount is 0: give a number of wheel steps":                                                                              {move, {Kind: Scroll}},
		"scroll: unknown direction 9":                                                                                                    {move, {Kind: Scroll, Amount: 1, Direction: 9}},
		"click: unknown button 4":                                                                                                        {move, {Kind: Click, Button: 4}},
		"type: text is empty":                                                                                                            {move, {Kind: Type}},
		"type: text contains U+001B, which no key can type":                                                                              {move, {Kind: Type, Text: "a\x1bb"}},
		"type: text contains U+FFFD, which no key can type":                                                                              {move, {Kind: Type, Text: "a\xff"}},
		"type: text has 5001 characters":                                                                                                 {move, {Kind: Type, Text: strings.Repeat("ä", 5001)}},
		`key: there is no key "Enterr" in "ctrl+Enterr"`:                                                                                 {move, {Kind: Key, Text: "ctrl+Enterr"}},
		"wait: duration_ms is 30001: give 0 to 30000":                                                                                    {move, {Kind: Wait, Wait: 30001 * time.Millisecond}},
		"wait: duration_ms is -1":                                                                                                        {move, {Kind: Wait, Wait: -time.Millisecond}},
		"action 2 of 2, left_click: unknown action":                                                                                      {move, {Kind: "left_click"}},
	} {
		done, err := h.Do(t.Context(), actions)
		if err == nil || !strings.Contains(err.Error(), want) || done.Actions != 0 {
			t.Errorf("got %v, did %d; want %s", err, done.Actions, want)
		}
	}
	if got := w.got(); got != nil {
		t.Errorf("%q was done", got)
	}
	for name, want := range map[string]string{"": "no display: DISPLAY is not set", ":987": "cannot connect to the display :987"} {
		if _, err := NewHand(name).Do(t.Context(), []Action{move}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("on %q: %v", name, err)
		}
	}
}

// TestLetsGo checks that an aborted action releases the keys and buttons that
// it holds.
func TestLetsGo(t *testing.T) {
	name := vnctest.Start(t, 640, 400).Display
	w, h := newWindow(t, name), swift(t, name)
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	result := make(chan error)
	go func() {
		_, err := h.Do(ctx, []Action{{Kind: MouseDown, At: at(5, 5)}, {Kind: Wait, Wait: MaxWait}, {Kind: MouseUp}})
		result <- err
	}()
	var got []string
	for !slices.Contains(got, "press 1 at 5,5") {
		got = append(got, w.got()...)
	}
	queued := make(chan error)
	go func() {
		_, err := h.Do(ctx, []Action{{Kind: CursorPosition}})
		queued <- err
	}()
	cancel(enough)
	if err := <-result; !errors.Is(err, enough) || !strings.Contains(err.Error(), "action 2 of 3, wait") {
		t.Errorf("got %v", err)
	}
	if err := <-queued; !errors.Is(err, enough) {
		t.Errorf("who waited its turn got %v", err)
	}
	if got := w.got(); !slices.Equal(got, []string{"release 1 at 5,5"}) {
		t.Errorf("then %q", got)
	}
}

// TestNoSuchModifier checks that a modifier that the keyboard lacks is an
// error, and that modifiers pressed earlier are released.
func TestNoSuchModifier(t *testing.T) {
	name := vnctest.Start(t, 640, 400).Display
	w, h := newWindow(t, name), swift(t, name)
	_, err := h.Do(t.Context(), []Action{{Kind: Key, Text: "ctrl+Hyper_R+x"}})
	if err == nil || !strings.Contains(err.Error(), "the keyboard has no key for Hyper_R") {
		t.Errorf("got %v", err)
	}
	if got := w.got(); got != nil {
		t.Errorf("got %q", got)
	}
}

// TestScreenshot checks that a screenshot shows the display's contents and the
// pointer.
func TestScreenshot(t *testing.T) {
	for _, size := range []Point{{1920, 1200}, {1024, 768}, {1600, 1000}} {
		t.Run(fmt.Sprintf("%dx%d", size.X, size.Y), func(t *testing.T) {
			name := vnctest.Start(t, size.X, size.Y).Display
			w, h := newWindow(t, name), swift(t, name)
			paint(t, w, 0xff0000, size.X/2, size.Y/2)
			done, err := h.Do(t.Context(), []Action{{Kind: MouseMove, At: at(1, 1)}, {Kind: Screenshot}})
			if err != nil || len(done.Shots) != 1 {
				t.Fatalf("got %+v: %v", done, err)
			}
			shot := done.Shots[0]
			if base := filepath.Base(shot.Path); !regexp.MustCompile(`^[0-9a-f]{5}\.webp$`).MatchString(base) {
				t.Errorf("it is kept as %s", shot.Path)
			}
			kept, err := os.ReadFile(shot.Path)
			if err != nil || !bytes.Equal(kept, shot.Data) {
				t.Errorf("%d bytes are kept (%v), %d given", len(kept), err, len(shot.Data))
			}
			m, err := webp.Decode(bytes.NewReader(shot.Data))
			if err != nil {
				t.Fatal(err)
			}
			scaler := Fit(size.X, size.Y)
			if m.Bounds().Size() != (image.Point{scaler.Width, scaler.Height}) || done.Width != scaler.Width {
				t.Errorf("it has %v pixels, want %+v", m.Bounds(), scaler)
			}
			colour := func(x, y int) color.RGBA { return color.RGBAModel.Convert(m.At(x, y)).(color.RGBA) }
			for place, want := range map[Point]color.RGBA{
				{scaler.Width / 4, scaler.Height / 4}:     {0xff, 0, 0, 0xff},
				{scaler.Width/2 - 1, scaler.Height/2 - 1}: {0xff, 0, 0, 0xff},
				{scaler.Width / 2, scaler.Height / 2}:     {0x33, 0x66, 0x99, 0xff},
				{scaler.Width - 1, scaler.Height - 1}:     {0x33, 0x66, 0x99, 0xff},
				{scaler.Width / 4, scaler.Height - 1}:     {0x33, 0x66, 0x99, 0xff},
			} {
				if got := colour(place.X, place.Y); got != want {
					t.Errorf("at %v it is %v, want %v", place, got, want)
				}
			}
			if got := colour(1, 1); got == (color.RGBA{0xff, 0, 0, 0xff}) {
				t.Error("the pointer is not in it")
			}
		})
	}
}

// paint fills the upper left part of a window.
func paint(t testing.TB, w *window, pixel uint32, width, height int) {
	t.Helper()
	fill(t, w, pixel, []xproto.Rectangle{{Width: uint16(width), Height: uint16(height)}})
}

// fill fills any number of rectangles of a window.
func fill(t testing.TB, w *window, pixel uint32, areas []xproto.Rectangle) {
	t.Helper()
	gc, err := xproto.NewGcontextId(w.conn)
	if err != nil {
		t.Fatal(err)
	}
	xproto.CreateGC(w.conn, gc, xproto.Drawable(w.id), xproto.GcForeground, []uint32{pixel})
	for part := range slices.Chunk(areas, 1000) { // the length of a request is limited
		if err := xproto.PolyFillRectangleChecked(w.conn, xproto.Drawable(w.id), gc, part).Check(); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkScreenshot takes a screenshot of a display of 1920×1200 pixels that
// shows something like a page of text. The baseline is a screenshot by ffmpeg.
func BenchmarkScreenshot(b *testing.B) {
	name := vnctest.Start(b, 1920, 1200).Display
	write(b, newWindow(b, name), 1920, 1200)
	b.Run("Ours", func(b *testing.B) {
		h := swift(b, name)
		for b.Loop() {
			if _, err := h.Do(b.Context(), []Action{{Kind: Screenshot}}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("ffmpeg", func(b *testing.B) {
		ffmpeg, out := need.Command(b, "ffmpeg"), filepath.Join(b.TempDir(), "shot.webp")
		for b.Loop() {
			said, err := exec.CommandContext(b.Context(), ffmpeg, "-v", "error", "-y", "-f", "x11grab", "-video_size", "1920x1200", "-i", name,
				"-frames:v", "1", "-vf", "scale=1280:800", "-c:v", "libwebp", out).CombinedOutput()
			if err != nil {
				b.Fatalf("%v: %s", err, said)
			}
		}
	})
}

// write fills a window with strokes like those of small letters. The strokes
// are always the same.
func write(t testing.TB, w *window, width, height int) {
	t.Helper()
	paint(t, w, 0xffffff, width, height)
	random := rand.New(rand.NewPCG(1, 1))
	var strokes []xproto.Rectangle
	for y := 8; y < height-16; y += 18 {
		for x := 8; x < width*(4+random.IntN(6))/10; x += 9 {
			for range 3 * random.IntN(2) {
				stroke := xproto.Rectangle{X: int16(x + random.IntN(6)), Y: int16(y + random.IntN(8)), Width: 1, Height: uint16(4 + random.IntN(5))}
				if random.IntN(2) == 0 {
					stroke.Width, stroke.Height = 5, 1
				}
				strokes = append(strokes, stroke)
			}
		}
	}
	fill(t, w, 0x202030, strokes)
}

// TestExtensionError checks that the caller of an extension's request gets the
// request's error. Without an entry for the error's number, xgb would drop the
// error and the caller would wait forever.
func TestExtensionError(t *testing.T) {
	d, err := open(vnctest.Start(t, 640, 400).Display, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.conn.Close()
	if err := enable(d.conn, "MIT-SHM"); err != nil {
		t.Fatal(err)
	}
	if err := shm.AttachChecked(d.conn, 1, 1<<31-1, false).Check(); err == nil { // both are invalid
		t.Error("the X server accepted it")
	}
	if err := shm.DetachChecked(d.conn, 12345).Check(); err == nil || !strings.Contains(err.Error(), "extension error") {
		t.Errorf("got %v", err)
	}
	if err := enable(d.conn, "NO-SUCH"); err == nil {
		t.Error("there is no such extension")
	}
	if _, _, _, err := d.pointer(); err != nil {
		t.Error(err)
	}
}
