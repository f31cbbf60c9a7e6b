package egress

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"aloft/internal/policy"
)

// A greeting is what a connection says of where it wants to go.
type greeting struct {
	protocol string // "TLS", "HTTP" (1.0 and 1.1), "HTTP/2" or "", which is any other
	host     string // as it was said; "" where it was not
	hidden   bool   // TLS may name another server where nobody can read it
	request  request
}

// judgeAt is the policy's word on a greeting on a connection to an address that
// these names resolved to.
func (g greeting) judgeAt(m *policy.Matcher, addr netip.Addr, names []string) error {
	if m.Mode() == policy.List && m.ByAddress(addr) {
		return g.denied(m)
	}
	return g.judge(m, names)
}

// denied is an error where the policy denies the name that was said.
func (g greeting) denied(m *policy.Matcher) error {
	if g.host == "" {
		return nil
	}
	if v := m.Name(g.host); strings.HasPrefix(v.Rule, "deny ") {
		return fmt.Errorf("%s (%s names %s)", v.Rule, g.protocol, printable(g.host))
	}
	return nil
}

// judge compares what was said with the policy and with the names that the
// address was looked up for.
func (g greeting) judge(m *policy.Matcher, names []string) error {
	if m.Mode() != policy.List {
		return g.denied(m)
	}
	switch {
	case g.protocol == "":
		return nil // it names nothing; the address has a name that is allowed
	case g.host == "":
		return fmt.Errorf("mode list: %s without the name of a server", g.protocol)
	}
	if g.hidden {
		// The name outside is not the server's, or need not be: where several share
		// an address, the hidden one decides. That it may be noise cannot be told.
		return errHidden
	}
	name, err := policy.CanonicalName(g.host)
	if err != nil {
		return fmt.Errorf("mode list: %s names %s, which is no domain", g.protocol, printable(g.host))
	}
	if v := m.Name(name); !v.Allowed {
		return fmt.Errorf("%s: %s names %s", v.Rule, g.protocol, name)
	}
	if !slices.Contains(names, name) {
		return fmt.Errorf("mode list: %s names %s, which did not resolve to this address", g.protocol, name)
	}
	return nil
}

// errHidden refuses encrypted greetings, those that only pretend too.
var errHidden = errors.New("mode list: TLS hides a name (ECH); turn it off in the program, as the policy EncryptedClientHelloEnabled=false of Chromium does")

// printable bounds and cleans a machine's words.
func printable(s string) string {
	const most = 80
	if len(s) > most {
		s = s[:most]
	}
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return '?'
		}
		return r
	}, s)
}

// errTooLong refuses what goes on without saying its name.
var errTooLong = errors.New("the connection's greeting is too long")

// readGreeting reads as much as it takes to know what is said. An end is the
// end of the greeting.
func readGreeting(s *source) (greeting, error) {
	if !s.fill(1) {
		return greeting{}, s.failure()
	}
	if s.buf[0] == tlsHandshake {
		return readTLS(s)
	}
	return readHTTP(s)
}

// A source keeps what it has read and nobody has taken.
type source struct {
	r       io.Reader
	started func() // called at the first byte that is read into an empty buffer; may be nil
	buf     []byte
	err     error
}

// drop forgets the first n bytes, which have been passed on.
func (s *source) drop(n int) { s.buf = append(s.buf[:0], s.buf[n:]...) }

// fill reads until there are n bytes, and reports whether there are.
func (s *source) fill(n int) bool {
	for len(s.buf) < n && s.err == nil {
		if n > maxFirst {
			s.err = errTooLong
			break
		}
		chunk := make([]byte, 4<<10)
		var got int
		got, s.err = s.r.Read(chunk[:min(len(chunk), maxFirst-len(s.buf))])
		if len(s.buf) == 0 && got > 0 && s.started != nil {
			s.started()
		}
		s.buf = append(s.buf, chunk[:got]...)
	}
	return len(s.buf) >= n
}

// failure is why there is no more, if that is not the end.
func (s *source) failure() error {
	switch {
	case s.err == nil || errors.Is(s.err, io.EOF):
		return nil
	case errors.Is(s.err, errTooLong):
		return s.err
	}
	if timeout, ok := errors.AsType[net.Error](s.err); ok && timeout.Timeout() {
		return errors.New("the connection's greeting does not end")
	}
	return errors.New("the connection ended before it was judged")
}

const (
	tlsHandshake = 22     // the type of the record that begins TLS
	extensionECH = 0xfe0d // encrypted_client_hello (RFC 9849)
)

// readTLS finds the server's name, with the parser that this program's own TLS
// servers use: what it cannot read is refused, and a name in several records is
// read as one.
func readTLS(s *source) (greeting, error) {
	conn := &replay{s: s}
	var name string
	var heard, hidden bool
	errHeard := errors.New("heard")
	server := tls.Server(conn, &tls.Config{
		MinVersion: tls.VersionTLS10, // what is too old is for the server to refuse
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			name, heard = hello.ServerName, true
			hidden = slices.Contains(hello.Extensions, extensionECH)
			return nil, errHeard
		},
	})
	err := server.Handshake() //nolint:noctx // its end is that of the connection, which has a deadline
	if heard {
		return greeting{protocol: "TLS", host: name, hidden: hidden}, nil
	}
	if s.err != nil {
		if failed := s.failure(); failed != nil {
			return greeting{}, failed
		}
	}
	return greeting{}, fmt.Errorf("a greeting that is not TLS, though it begins so: %s", printable(err.Error()))
}

// replay is the connection that the TLS parser sees: it reads what the source
// has and gets, and says nothing.
type replay struct {
	net.Conn // nil: nothing else is called
	s        *source
	at       int
}

func (c *replay) Read(p []byte) (int, error) {
	if !c.s.fill(c.at + 1) {
		if c.s.err != nil {
			return 0, c.s.err
		}
		return 0, io.EOF
	}
	n := copy(p, c.s.buf[c.at:])
	c.at += n
	return n, nil
}

func (c *replay) Write(p []byte) (int, error)      { return len(p), nil }
func (c *replay) Close() error                     { return nil }
func (c *replay) SetDeadline(time.Time) error      { return nil }
func (c *replay) SetReadDeadline(time.Time) error  { return nil }
func (c *replay) SetWriteDeadline(time.Time) error { return nil }
func (c *replay) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *replay) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
