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

// clientHello describes a connection's destination according to the greeting:
// the first bytes from the client, such as a TLS client hello or an HTTP
// header.
type clientHello struct {
	protocol string // "TLS", "HTTP" (1.0 and 1.1), "HTTP/2", or "" for other protocols
	host     string // host as the client wrote it, or ""
	hidden   bool   // TLS hides the real server name (ECH)
	request  request
}

// judgeAt returns an error if the policy refuses a greeting on a connection to
// addr. names are the names that have resolved to addr.
func (g clientHello) judgeAt(m *policy.Matcher, addr netip.Addr, names []string) error {
	if m.Mode() == policy.List && m.ByAddress(addr) {
		return g.denied(m)
	}
	return g.judge(m, names)
}

// denied returns an error if a deny rule matches the host of the greeting.
func (g clientHello) denied(m *policy.Matcher) error {
	if g.host == "" {
		return nil
	}
	if v := m.Name(g.host); strings.HasPrefix(v.Rule, "deny ") {
		return fmt.Errorf("%s (%s names %s)", v.Rule, g.protocol, printable(g.host))
	}
	return nil
}

// judge compares the greeting with the policy and with the names that resolved
// to the address.
func (g clientHello) judge(m *policy.Matcher, names []string) error {
	if m.Mode() != policy.List {
		return g.denied(m)
	}
	switch {
	case g.protocol == "":
		return nil // the greeting names no host, but an allowed name resolved to the address
	case g.host == "":
		return fmt.Errorf("mode list: %s without a server name", g.protocol)
	}
	if g.hidden {
		// The visible server name may differ from the real one: if several
		// servers share an address, the encrypted name selects the server. A
		// random ECH extension (GREASE) cannot be distinguished from a real
		// one, so it is refused too.
		return errHidden
	}
	name, err := policy.CanonicalName(g.host)
	if err != nil {
		return fmt.Errorf("mode list: %s names %s, which is not a domain", g.protocol, printable(g.host))
	}
	if v := m.Name(name); !v.Allowed {
		return fmt.Errorf("%s: %s names %s", v.Rule, g.protocol, name)
	}
	if !slices.Contains(names, name) {
		return fmt.Errorf("mode list: %s names %s, which did not resolve to this address", g.protocol, name)
	}
	return nil
}

// errHidden refuses Encrypted Client Hello, including GREASE.
var errHidden = errors.New("mode list: TLS hides the server name (ECH); turn it off in the program, as the policy EncryptedClientHelloEnabled=false of Chromium does")

// printable limits and sanitizes text from a machine.
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

// errTooLong refuses a connection that sends too much without naming its host.
var errTooLong = errors.New("the client hello or request header is too long")

// readClientHello reads until the client hello or request header is complete.
// If the input ends earlier, it uses the bytes received so far.
func readClientHello(s *source) (clientHello, error) {
	if !s.fill(1) {
		return clientHello{}, s.failure()
	}
	if s.buf[0] == tlsHandshake {
		return readTLS(s)
	}
	return readHTTP(s)
}

// A source buffers bytes that were read but not yet forwarded.
type source struct {
	r       io.Reader
	started func() // called at the first byte read into an empty buffer; may be nil
	buf     []byte
	err     error
}

// drop removes the first n bytes, which have been forwarded.
func (s *source) drop(n int) { s.buf = append(s.buf[:0], s.buf[n:]...) }

// fill reads until the buffer has n bytes, and reports whether it has that
// many.
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

// failure returns why reading stopped, or nil at the end of input.
func (s *source) failure() error {
	switch {
	case s.err == nil || errors.Is(s.err, io.EOF):
		return nil
	case errors.Is(s.err, errTooLong):
		return s.err
	}
	if timeout, ok := errors.AsType[net.Error](s.err); ok && timeout.Timeout() {
		return errors.New("the client hello or request header is incomplete")
	}
	return errors.New("the connection ended before it was judged")
}

const (
	tlsHandshake = 22     // type of the first record of TLS
	extensionECH = 0xfe0d // encrypted_client_hello (RFC 9849)
)

// readTLS finds the server name with crypto/tls's parser, even if the name is
// split over several records. It refuses data that crypto/tls cannot parse.
func readTLS(s *source) (clientHello, error) {
	conn := &replay{s: s}
	var name string
	var heard, hidden bool
	errHeard := errors.New("heard")
	server := tls.Server(conn, &tls.Config{
		MinVersion: tls.VersionTLS10, // rejecting old versions is left to the server
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			name, heard = hello.ServerName, true
			hidden = slices.Contains(hello.Extensions, extensionECH)
			return nil, errHeard
		},
	})
	err := server.Handshake() //nolint:noctx // the connection has a deadline
	if heard {
		return clientHello{protocol: "TLS", host: name, hidden: hidden}, nil
	}
	if s.err != nil {
		if failed := s.failure(); failed != nil {
			return clientHello{}, failed
		}
	}
	return clientHello{}, fmt.Errorf("invalid TLS client hello: %s", printable(err.Error()))
}

// replay is the connection that the TLS parser sees: reads come from the
// source, and writes are discarded.
type replay struct {
	net.Conn // nil: no other methods are called
	s        *source
	offset   int
}

func (c *replay) Read(p []byte) (int, error) {
	if !c.s.fill(c.offset + 1) {
		if c.s.err != nil {
			return 0, c.s.err
		}
		return 0, io.EOF
	}
	n := copy(p, c.s.buf[c.offset:])
	c.offset += n
	return n, nil
}

func (c *replay) Write(p []byte) (int, error)      { return len(p), nil }
func (c *replay) Close() error                     { return nil }
func (c *replay) SetDeadline(time.Time) error      { return nil }
func (c *replay) SetReadDeadline(time.Time) error  { return nil }
func (c *replay) SetWriteDeadline(time.Time) error { return nil }
func (c *replay) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *replay) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
