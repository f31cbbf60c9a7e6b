package screen

import (
	"encoding/binary"
	"fmt"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// The X protocol gives these numbers to the events and errors of extensions.
const (
	firstExtensionEvent, lastExtensionEvent = 64, 127
	firstExtensionError, lastExtensionError = 128, 255
)

// The generated Init functions of xgb's extensions write to global maps that the
// goroutines of open connections read without a lock. Therefore all extension numbers
// get an entry before the first connection is opened, and enable writes only to its
// connection.
func init() {
	for n := firstExtensionEvent; n <= lastExtensionEvent; n++ {
		xgb.NewEventFuncs[n] = func(b []byte) xgb.Event { return extensionEvent(b) }
	}
	for n := firstExtensionError; n <= lastExtensionError; n++ {
		xgb.NewErrorFuncs[n] = func(b []byte) xgb.Error { return extensionError(b) }
	}
}

// enable makes the requests of an extension usable on the connection.
func enable(c *xgb.Conn, name string) error {
	reply, err := xproto.QueryExtension(c, uint16(len(name)), name).Reply()
	if err != nil {
		return err
	}
	if !reply.Present {
		return fmt.Errorf("the X server has no extension %s", name)
	}
	c.ExtLock.Lock()
	defer c.ExtLock.Unlock()
	c.Extensions[name] = reply.MajorOpcode
	return nil
}

// extensionEvent is an event of an extension in its encoded form, 32 bytes.
type extensionEvent []byte

func (e extensionEvent) Bytes() []byte  { return e }
func (e extensionEvent) String() string { return fmt.Sprintf("extension event %d", e[0]&127) }

// extensionError is an error of an extension in its encoded form, 32 bytes.
type extensionError []byte

func (e extensionError) SequenceId() uint16 { return binary.LittleEndian.Uint16(e[2:]) }
func (e extensionError) BadId() uint32      { return binary.LittleEndian.Uint32(e[4:]) }
func (e extensionError) Error() string {
	return fmt.Sprintf("extension error %d for request %d.%d", e[1], e[10], binary.LittleEndian.Uint16(e[8:]))
}
