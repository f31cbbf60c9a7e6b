package screen

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"os"
	"path/filepath"

	"github.com/jezek/xgb/shm"
	"github.com/jezek/xgb/xfixes"
	"github.com/jezek/xgb/xproto"
	"golang.org/x/sys/unix"

	"aloft/internal/guest/webp"
)

// A Shot is a screenshot.
type Shot struct {
	Path string // file where it is saved
	Data []byte // WebP
}

// longShot is the size in bytes above which a screenshot is encoded with fewer colors,
// because each turn sends all screenshots of the conversation again. A window of text
// takes a quarter of longShot; larger screenshots show photographs.
const longShot = 400_000

// shoot takes a screenshot and saves it in a folder.
func (d *display) shoot(folder string) (Shot, error) {
	full, err := d.grab()
	if err != nil {
		return Shot{}, fmt.Errorf("take a screenshot: %w", err)
	}
	data, err := encode(scale(full, d.scaler.Width, d.scaler.Height))
	if err != nil {
		return Shot{}, err
	}
	path, err := keep(folder, data)
	return Shot{Path: path, Data: data}, err
}

// encode encodes an image as WebP, with fewer colors if it is too large.
func encode(m *image.RGBA) ([]byte, error) {
	data, err := webp.Encode(m)
	for lost := 2; err == nil && len(data) > longShot && lost <= 4; lost++ {
		for i, v := range m.Pix {
			v &= 0xff << lost
			m.Pix[i] = v | v>>(8-lost)
		}
		data, err = webp.Encode(m)
	}
	return data, err
}

// keep saves a screenshot under an unused name of five hex digits, and returns
// its path.
func keep(folder string, data []byte) (string, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("save the screenshot: %w", err)
	}
	for range 100 {
		path := filepath.Join(folder, name()+".webp")
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // other programs of the machine may read it
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("save the screenshot: %w", err)
		}
		_, err = f.Write(data)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", fmt.Errorf("save the screenshot: %w", err)
		}
		return path, nil
	}
	return "", fmt.Errorf("save the screenshot: %s is full of screenshots: remove some", folder)
}

// grab returns the display's pixels, including the pointer.
func (d *display) grab() (*image.RGBA, error) {
	if d.screen.RootDepth < 24 || masks(d.screen) != "ff0000 ff00 ff" {
		return nil, fmt.Errorf("it has a color depth of %d bits; start it with 24", d.screen.RootDepth)
	}
	width, height := d.scaler.displayWidth, d.scaler.displayHeight
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	take := func(pixels []byte) error {
		if len(pixels) < len(m.Pix) {
			return fmt.Errorf("received %d bytes for %d×%d pixels", len(pixels), width, height)
		}
		for i := 0; i < len(m.Pix); i += 4 {
			p, q := pixels[i:i+4], m.Pix[i:i+4]
			q[0], q[1], q[2], q[3] = p[2], p[1], p[0], 0xff
		}
		return nil
	}
	if !d.grabShared(len(m.Pix), take) { // shared memory does not work, for example, on another user's display
		image, err := xproto.GetImage(d.conn, xproto.ImageFormatZPixmap, xproto.Drawable(d.screen.Root), 0, 0, uint16(width), uint16(height), ^uint32(0)).Reply()
		if err != nil {
			return nil, err
		}
		if err := take(image.Data); err != nil {
			return nil, err
		}
	}
	d.drawPointer(m)
	return m, nil
}

// grabShared makes the server write the pixels into shared memory. It returns false if
// that failed.
func (d *display) grabShared(size int, take func([]byte) error) bool {
	if enable(d.conn, "MIT-SHM") != nil {
		return false
	}
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, size, unix.IPC_CREAT|0o600)
	if err != nil {
		return false
	}
	pixels, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		return false
	}
	defer func() { _ = unix.SysvShmDetach(pixels) }()
	segment, err := shm.NewSegId(d.conn)
	if err == nil {
		err = shm.AttachChecked(d.conn, segment, uint32(id), false).Check()
	}
	_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) // frees the memory once both sides have detached, even if a process dies
	if err != nil {
		return false
	}
	defer shm.Detach(d.conn, segment)
	_, err = shm.GetImage(d.conn, xproto.Drawable(d.screen.Root), 0, 0, uint16(d.scaler.displayWidth), uint16(d.scaler.displayHeight),
		^uint32(0), xproto.ImageFormatZPixmap, segment, 0).Reply()
	return err == nil && take(pixels) == nil
}

// masks returns the bit masks of red, green and blue in the root window's pixels.
func masks(s *xproto.ScreenInfo) string {
	for _, depth := range s.AllowedDepths {
		for _, v := range depth.Visuals {
			if v.VisualId == s.RootVisual {
				return fmt.Sprintf("%x %x %x", v.RedMask, v.GreenMask, v.BlueMask)
			}
		}
	}
	return ""
}

// drawPointer draws the pointer, which X leaves out of the pixels.
func (d *display) drawPointer(m *image.RGBA) {
	if !d.fixes {
		return
	}
	c, err := xfixes.GetCursorImage(d.conn).Reply()
	if err != nil || len(c.CursorImage) < int(c.Width)*int(c.Height) {
		return
	}
	left, top := int(c.X)-int(c.Xhot), int(c.Y)-int(c.Yhot)
	for y := range int(c.Height) {
		for x := range int(c.Width) {
			if !(image.Point{left + x, top + y}).In(m.Rect) {
				continue
			}
			v := c.CursorImage[y*int(c.Width)+x] // premultiplied by alpha
			under := m.Pix[m.PixOffset(left+x, top+y):][:3]
			for i := range under {
				under[i] = byte(min(255, v>>(16-8*i)&0xff+uint32(under[i])*(255-v>>24)/255))
			}
		}
	}
}

// name returns five random hex digits.
func name() string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])[:5]
}
