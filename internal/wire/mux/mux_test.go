package mux

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// pair returns both ends of a connection.
func pair(t *testing.T) (client, server *Conn) {
	t.Helper()
	a, b := net.Pipe()
	client, err := Client(a)
	if err != nil {
		t.Fatal(err)
	}
	server, err = Server(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(); _ = server.Close() })
	return client, server
}

func TestStreamsFromBothEnds(t *testing.T) {
	t.Parallel()
	client, server := pair(t)
	echo := func(name string, stream net.Conn) {
		_, _ = io.WriteString(stream, name+":") // the reader below reports the error
		_, _ = io.Copy(stream, stream)
		_ = stream.Close()
	}
	for _, end := range []*Conn{client, server} {
		go func() { _ = end.Serve(echo) }() // ends with the connection
	}
	for _, end := range []*Conn{client, server} {
		stream, err := end.Open(t.Context(), Git)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(stream, "hello"); err != nil {
			t.Fatal(err)
		}
		if err := stream.Close(); err != nil { // of our direction
			t.Fatal(err)
		}
		if got, err := io.ReadAll(stream); err != nil || string(got) != "git:hello" {
			t.Errorf("%q, %v", got, err)
		}
	}
	for _, name := range []string{"", strings.Repeat("x", 65)} {
		if _, err := client.Open(t.Context(), name); err == nil {
			t.Errorf("a stream named %q was opened", name)
		}
	}
	_ = server.Close()
	<-client.Done()
	if _, err := client.Open(t.Context(), Git); err == nil {
		t.Error("a stream was opened on a connection that has ended")
	}
}

func TestServeRefusesANameTooLong(t *testing.T) {
	t.Parallel()
	client, server := pair(t)
	go func() {
		_ = server.Serve(func(name string, stream net.Conn) {
			t.Errorf("stream %q was served", name)
			_ = stream.Close()
		})
	}()
	for _, header := range []string{"\x00", "\xff" + strings.Repeat("x", 255)} {
		stream, err := client.session.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(stream, header); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(stream); len(got) != 0 || err != nil {
			t.Errorf("%q, %v; want the end", got, err)
		}
	}
}

func TestJoin(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				all, _ := io.ReadAll(conn) // the received bytes are in the reply
				if string(all) != "cut" {
					_, _ = io.WriteString(conn, "got "+string(all))
				}
				_ = conn.Close()
			}()
		}
	}()
	client, server := pair(t)
	joined := make(chan struct{}, 2)
	go func() {
		_ = server.Serve(func(_ string, stream net.Conn) {
			up, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			Join(stream, up)
			joined <- struct{}{}
		})
	}()
	for _, tt := range []struct{ say, hear string }{{"all of it", "got all of it"}, {"cut", ""}} {
		stream, err := client.Open(t.Context(), Exec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(stream, tt.say); err != nil {
			t.Fatal(err)
		}
		_ = stream.Close()
		if got, err := io.ReadAll(stream); err != nil || string(got) != tt.hear {
			t.Errorf("said %q, heard %q, %v; want %q", tt.say, got, err, tt.hear)
		}
		select {
		case <-joined:
		case <-time.After(2 * time.Minute):
			t.Fatal("Join goes on after both have ended")
		}
	}
}

func TestListener(t *testing.T) {
	t.Parallel()
	l := NewListener()
	a, b := net.Pipe()
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	go l.Hand(a)
	if got, err := l.Accept(); err != nil || got != a {
		t.Errorf("accepted %v, %v", got, err)
	}
	_ = l.Close()
	_ = l.Close()
	if l.Hand(a) {
		t.Error("a closed listener took a stream")
	}
	if _, err := l.Accept(); err == nil {
		t.Error("a closed listener gave a stream")
	}
}

func TestPortOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]uint16{
		Port(1): 1, Port(3000): 3000, Port(65535): 65535,
		"port 0": 0, "port 65536": 0, "port 03000": 0, "port +1": 0, "port": 0, "port ": 0, "exec": 0, "port 1 ": 0,
	} {
		if n, ok := PortOf(name); ok != (want != 0) || ok && n != want {
			t.Errorf("%q is port %d, %v", name, n, ok)
		}
	}
}

// FuzzConn has a hostile peer send arbitrary bytes. The code must not panic, no
// name may be too long, and the connection must end when the peer closes it.
func FuzzConn(f *testing.F) {
	// A stream with the name "git", as yamux frames: version, type, flags, stream, length.
	f.Add([]byte("\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x04\x03git"))
	f.Add([]byte("\x00\x01\x00\x01\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x01\x00"))
	f.Add([]byte("\x00\x00\x00\x01\x00\x00\x00\x02\xff\xff\xff\xff\xffx"))
	f.Add([]byte("\x00\x02\x00\x01\x00\x00\x00\x00\x00\x00\x00\x07\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02"))
	f.Fuzz(func(t *testing.T, said []byte) {
		ours, theirs := net.Pipe()
		c, err := Client(ours)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = c.Serve(func(name string, stream net.Conn) { // Serve returns when the peer closes the connection
				if len(name) == 0 || len(name) > maxName {
					t.Errorf("a stream is named %q", name)
				}
				_ = stream.Close()
			})
		}()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		_, _ = theirs.Write(said) // the write fails if c has closed the connection
		_ = theirs.Close()
		<-served
		_ = c.Close()
	})
}

// writes counts the writes to a connection.
type writes struct {
	net.Conn
	n atomic.Int64
}

func (w *writes) Write(p []byte) (int, error) {
	w.n.Add(1)
	return w.Conn.Write(p)
}

func TestShortFrameIsOneWrite(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	counted := &writes{Conn: a}
	client, err := Client(counted)
	if err != nil {
		t.Fatal(err)
	}
	server, err := Server(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(); _ = server.Close() })
	streams := make(chan net.Conn, 1)
	go func() { _ = server.Serve(func(_ string, stream net.Conn) { streams <- stream }) }() // ends with the connection
	stream, err := client.Open(t.Context(), Exec)
	if err != nil {
		t.Fatal(err)
	}
	far := <-streams
	for _, c := range []struct{ size, most int64 }{{1, 1}, {100, 1}, {maxJoined, 1}, {maxJoined + 1, 2}, {200_000, 2}} {
		sent := bytes.Repeat([]byte{byte(c.size)}, int(c.size))
		before := counted.n.Load()
		if _, err := stream.Write(sent); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, c.size)
		if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("%d bytes do not arrive: %v", c.size, err)
		}
		if n := counted.n.Load() - before; n > c.most {
			t.Errorf("%d bytes took %d writes", c.size, n)
		}
	}
}
