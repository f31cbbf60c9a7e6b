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

// A Shot is a picture of a display.
type Shot struct {
	Path string // where it is kept
	Data []byte // WebP
}

// longShot is how long a picture may be, in bytes, before it is drawn with fewer
// colours: each of a conversation's is sent again with each turn. A window of text has a
// quarter of that; what is longer shows photographs.
const longShot = 400_000

// shoot takes a picture, and keeps it in a folder.
func (d *display) shoot(folder string) (Shot, error) {
	full, err := d.grab()
	if err != nil {
		return Shot{}, fmt.Errorf("take a picture of the display: %w", err)
	}
	data, err := encode(scale(full, d.scaler.Width, d.scaler.Height))
	if err != nil {
		return Shot{}, err
	}
	path, err := keep(folder, data)
	return Shot{Path: path, Data: data}, err
}

// encode is the picture in WebP: as it is, and else in fewer colours.
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

// keep writes a picture under a name of five hex digits that is free, and returns its path.
func keep(folder string, data []byte) (string, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("keep the screenshot: %w", err)
	}
	for range 100 {
		path := filepath.Join(folder, name()+".webp")
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // for other programs of the machine to look at, too
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("keep the screenshot: %w", err)
		}
		_, err = f.Write(data)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", fmt.Errorf("keep the screenshot: %w", err)
		}
		return path, nil
	}
	return "", fmt.Errorf("keep the screenshot: %s is full of them: remove some", folder)
}

// grab returns what the display shows, the pointer too.
func (d *display) grab() (*image.RGBA, error) {
	if d.screen.RootDepth < 24 || masks(d.screen) != "ff0000 ff00 ff" {
		return nil, fmt.Errorf("it has %d bits of colour; start it with 24", d.screen.RootDepth)
	}
	width, height := d.scaler.displayWidth, d.scaler.displayHeight
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	take := func(pixels []byte) error {
		if len(pixels) < len(m.Pix) {
			return fmt.Errorf("%d bytes came for %d×%d pixels", len(pixels), width, height)
		}
		for i := 0; i < len(m.Pix); i += 4 {
			p, q := pixels[i:i+4], m.Pix[i:i+4]
			q[0], q[1], q[2], q[3] = p[2], p[1], p[0], 0xff
		}
		return nil
	}
	if !d.grabShared(len(m.Pix), take) { // such as a display of another user
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

// grabShared has the server write the picture into memory that both see. It
// reports whether it has.
func (d *display) grabShared(size int, take func([]byte) error) bool {
	if shm.Init(d.conn) != nil {
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
	_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) // it goes when the last lets go of it, whoever dies
	if err != nil {
		return false
	}
	defer shm.Detach(d.conn, segment)
	_, err = shm.GetImage(d.conn, xproto.Drawable(d.screen.Root), 0, 0, uint16(d.scaler.displayWidth), uint16(d.scaler.displayHeight),
		^uint32(0), xproto.ImageFormatZPixmap, segment, 0).Reply()
	return err == nil && take(pixels) == nil
}

// masks are where in a pixel the root window has its colours.
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

// drawPointer draws the pointer where it is; a picture of a display is without.
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
			v := c.CursorImage[y*int(c.Width)+x] // its colours are multiplied by its alpha
			under := m.Pix[m.PixOffset(left+x, top+y):][:3]
			for i := range under {
				under[i] = byte(min(255, v>>(16-8*i)&0xff+uint32(under[i])*(255-v>>24)/255))
			}
		}
	}
}

// name is five hex digits.
func name() string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // it does not fail
	return hex.EncodeToString(b[:])[:5]
}
