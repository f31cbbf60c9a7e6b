package egress

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"aloft/internal/policy"
)

// Bounds on what is read of a connection before it is judged.
const (
	maxFirst    = 64 << 10         // bytes
	firstWithin = 30 * time.Second // from the first byte to a whole greeting
)

// inspect reads what the machine says first, judges the name in it, and
// returns what it has read. The other direction flows meanwhile, so protocols
// in which the server speaks first are not held up. The error is the rule that
// refuses, in a user's words.
func (c *connection) inspect(m *policy.Matcher) ([]byte, error) {
	defer func() { _ = c.inside.SetReadDeadline(time.Time{}) }()
	first, greeting, err := readGreeting(c.inside, func() {
		_ = c.inside.SetReadDeadline(time.Now().Add(firstWithin))
	})
	if err != nil {
		return nil, err
	}
	if m.Mode() == policy.List && m.ByAddress(c.to.Addr()) {
		return first, greeting.denied(m)
	}
	return first, greeting.judge(m, c.names)
}

// A greeting is what a connection says of where it wants to go.
type greeting struct {
	protocol string // "TLS", "HTTP" or "", which is any other
	host     string // as it was said; "" where it was not
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

// readGreeting reads as much of r as it takes to know what is said. started is
// called at the first byte. An end of r is the end of the greeting.
func readGreeting(r io.Reader, started func()) (first []byte, g greeting, err error) {
	s := &source{r: r, started: started}
	if !s.fill(1) {
		return s.buf, greeting{}, s.failure()
	}
	if s.buf[0] == tlsHandshake {
		g, err = readTLS(s)
	} else {
		g, err = readHTTP(s)
	}
	return s.buf, g, err
}

// A source keeps what it has read.
type source struct {
	r       io.Reader
	started func()
	buf     []byte
	err     error
}

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

const tlsHandshake = 22 // the type of the record that begins TLS

// readTLS finds the server's name, with the parser that this program's own TLS
// servers use: what it cannot read is refused, and a name in several records is
// read as one.
func readTLS(s *source) (greeting, error) {
	conn := &replay{s: s}
	var name string
	var heard bool
	errHeard := errors.New("heard")
	server := tls.Server(conn, &tls.Config{
		MinVersion: tls.VersionTLS10, // what is too old is for the server to refuse
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			name, heard = hello.ServerName, true
			return nil, errHeard
		},
	})
	err := server.Handshake() //nolint:noctx // its end is that of the connection, which has a deadline
	if heard {
		return greeting{protocol: "TLS", host: name}, nil
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

// maxLine bounds the first line, in bytes, of what may be HTTP.
const maxLine = 16 << 10

// readHTTP finds the host that a request names. What does not begin like a
// request is another protocol, which has no name to judge.
func readHTTP(s *source) (greeting, error) {
	start := 0 // servers forgive empty lines before a request
	end := -1
	for {
		for start < len(s.buf) && (s.buf[start] == '\r' || s.buf[start] == '\n') {
			start++
		}
		line := s.buf[start:]
		if end = bytes.IndexByte(line, '\n'); end >= 0 {
			end += start
			break
		}
		if !mayBeRequest(line) {
			return greeting{}, nil
		}
		if len(line) > maxLine {
			return greeting{}, errTooLong
		}
		if !s.fill(len(s.buf) + 1) {
			return greeting{}, s.failure()
		}
	}
	line := strings.TrimRight(string(s.buf[start:end]), "\r")
	target, ok := requestTarget(line)
	if !ok {
		return greeting{}, nil
	}
	for at := end + 1; ; {
		var whole bool
		if at, whole = headerEnd(s.buf, at); whole {
			host, err := requestHost(target, string(s.buf[end+1:at]))
			return greeting{protocol: "HTTP", host: host}, err
		}
		if !s.fill(len(s.buf) + 1) {
			if err := s.failure(); err != nil {
				return greeting{}, err
			}
			return greeting{}, errors.New("mode list: an HTTP request that does not end")
		}
	}
}

// mayBeRequest reports whether a line that has not ended can become the first
// of an HTTP request.
func mayBeRequest(line []byte) bool {
	const longestMethod = 32
	for i, c := range line {
		if c == ' ' || c == '\t' {
			return i > 0
		}
		if i >= longestMethod || !isToken(c) {
			return false
		}
	}
	return true
}

func isToken(c byte) bool {
	return c > 0x20 && c < 0x7f && !strings.ContainsRune(`()<>@,;:\"/[]?={}`, rune(c))
}

// requestTarget returns what a request line asks for, if it is one.
func requestTarget(line string) (target string, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 2 || !mayBeRequest([]byte(line)) {
		return "", false
	}
	last := strings.ToUpper(fields[len(fields)-1])
	if !strings.HasPrefix(last, "HTTP/") {
		return "", false
	}
	return fields[1], true
}

// headerEnd returns where the empty line begins that ends a header, looking
// from at, the start of a line; or, where there is none yet, from where to look
// next.
func headerEnd(b []byte, at int) (next int, whole bool) {
	for {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return at, false
		}
		if len(bytes.TrimRight(b[at:at+i], "\r")) == 0 {
			return at, true
		}
		at += i + 1
	}
}

// requestHost returns the one host that a request names. A target with a host
// of its own and the header have to name the same.
func requestHost(target, header string) (string, error) {
	host, seen := "", false
	for line := range strings.Lines(header) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if strings.ContainsAny(line, "\r\x00") {
			return "", errors.New("an HTTP header with a stray control character") // some servers end a line there
		}
		if line != "" && (line[0] == ' ' || line[0] == '\t') {
			return "", errors.New("an HTTP header that is folded")
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || !strings.EqualFold(strings.TrimRight(name, " \t"), "host") {
			continue
		}
		if seen || name != strings.TrimRight(name, " \t") {
			return "", errors.New("an HTTP request with more than one host")
		}
		host, seen = hostOnly(strings.TrimSpace(value)), true
	}
	if u, err := url.Parse(target); err == nil && u.Host != "" {
		inTarget := hostOnly(u.Host)
		if seen && !strings.EqualFold(inTarget, host) {
			return "", errors.New("an HTTP request with more than one host")
		}
		host = inTarget
	} else if err != nil || !strings.HasPrefix(target, "/") && target != "*" {
		// The target of CONNECT, or nothing that a server ought to take.
		inTarget := hostOnly(target)
		if seen && !strings.EqualFold(inTarget, host) {
			return "", errors.New("an HTTP request with more than one host")
		}
		host = inTarget
	}
	return host, nil
}

// hostOnly takes the port off.
func hostOnly(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return hostport
}
