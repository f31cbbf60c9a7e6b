// Package tunnel carries one TCP connection over one WebSocket: binary messages
// carry its bytes, and a text message marks the end of one direction. So each
// direction can be closed separately. Programs that send all their data and
// then wait for the response need this.
package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// Message sizes, and the times of pings.
const (
	chunk      = 64 << 10 // bytes of a message to send
	maxMessage = 1 << 20  // maximum bytes of a received message
	pingEvery  = 30 * time.Second
	pingWithin = 30 * time.Second
)

// end is the text message that marks the end of a direction.
const end = "end"

// Join copies between conn and ws until both directions have ended, ctx ends,
// or one of the two breaks. Then it closes both.
func Join(ctx context.Context, ws *websocket.Conn, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ws.SetReadLimit(maxMessage)
	// An error in one direction also ends the other.
	stop := context.AfterFunc(ctx, func() {
		_ = conn.Close()
		_ = ws.CloseNow()
	})
	defer stop()
	var all sync.WaitGroup
	beat, quiet := context.WithCancel(ctx)
	all.Go(func() {
		if keepAlive(beat, ws) != nil {
			cancel()
		}
	})
	var both sync.WaitGroup
	both.Go(func() {
		if send(ctx, ws, conn) != nil {
			cancel()
		}
	})
	both.Go(func() {
		if receive(ctx, ws, conn) != nil {
			cancel()
		}
	})
	both.Wait()
	quiet()
	all.Wait()
	_ = conn.Close()
	_ = ws.Close(websocket.StatusNormalClosure, "") // the peer may have closed the connection first
}

// keepAlive returns an error when the peer stops answering pings.
func keepAlive(ctx context.Context, ws *websocket.Conn) error {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		within, cancel := context.WithTimeout(ctx, pingWithin)
		err := ws.Ping(within)
		cancel()
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func send(ctx context.Context, ws *websocket.Conn, conn net.Conn) error {
	buf := make([]byte, chunk)
	for {
		n, err := conn.Read(buf)
		if n > 0 {
			if err := ws.Write(ctx, websocket.MessageBinary, buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return ws.Write(ctx, websocket.MessageText, []byte(end))
		}
		if err != nil {
			return err
		}
	}
}

func receive(ctx context.Context, ws *websocket.Conn, conn net.Conn) error {
	for {
		kind, r, err := ws.Reader(ctx)
		if err != nil {
			return err
		}
		if kind == websocket.MessageText {
			if _, err := io.Copy(io.Discard, r); err != nil {
				return err
			}
			ws.CloseRead(ctx) // replies to pings are processed only while reading
			if half, ok := conn.(interface{ CloseWrite() error }); ok {
				return half.CloseWrite()
			}
			return nil
		}
		if _, err := io.Copy(conn, r); err != nil {
			return err
		}
	}
}
