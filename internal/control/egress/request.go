package egress

import (
	"bytes"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// A request is what of an HTTP request says where the next one begins.
type request struct {
	head    int   // bytes up to the body
	length  int64 // of the body
	chunked bool  // the body is in chunks, whatever length is
	connect bool  // asks for a tunnel
	upgrade bool  // asks for another protocol than HTTP, such as WebSocket
}

// errAmbiguous refuses what servers and we may take for requests of different
// lengths.
var errAmbiguous = errors.New("an HTTP request whose length can be read in two ways")

// readRequest reads a request's header, which requestHost has accepted.
func readRequest(line, header string) (request, error) {
	r := request{connect: strings.HasPrefix(line, "CONNECT ")}
	lengths, codings := []string{}, []string{}
	for line := range strings.Lines(header) {
		name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		if !ok {
			continue
		}
		value = strings.Trim(value, " \t")
		switch plain := strings.ToLower(strings.TrimRight(name, " \t")); plain {
		case "content-length":
			lengths = append(lengths, value)
		case "transfer-encoding":
			codings = append(codings, value)
		case "upgrade":
			r.upgrade = !namesHTTP(value)
			continue
		default:
			continue
		}
		if strings.TrimRight(name, " \t") != name {
			return r, errAmbiguous
		}
	}
	switch {
	case len(codings)+len(lengths) == 0:
		return r, nil
	case len(codings) > 0:
		if len(codings) > 1 || len(lengths) > 0 || !strings.EqualFold(codings[0], "chunked") || !strings.HasSuffix(line, "HTTP/1.1") {
			return r, errAmbiguous
		}
		r.chunked = true
		return r, nil
	}
	n, err := strconv.ParseUint(lengths[0], 10, 63)
	if err != nil || len(lengths) > 1 {
		return r, errAmbiguous
	}
	r.length = int64(n)
	return r, nil
}

// namesHTTP reports whether one of the protocols of an Upgrade header is a
// version of HTTP or TLS, in which the requests would name hosts unread.
func namesHTTP(value string) bool {
	for protocol := range strings.SplitSeq(strings.ToLower(value), ",") {
		name, _, _ := strings.Cut(strings.Trim(protocol, " \t"), "/")
		if name == "h2c" || name == "h2" || name == "http" || name == "tls" {
			return true
		}
	}
	return false
}

// maxLine bounds the first line, in bytes, of what may be HTTP.
const maxLine = 16 << 10

// readHTTP finds the host that a request names. What does not begin like a
// request is another protocol, which has no name to judge.
func readHTTP(s *source) (_ greeting, err error) {
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
	if strings.ContainsAny(line, "\r\x00") && strings.Contains(strings.ToUpper(line), "HTTP/") && mayBeRequest([]byte(line)) {
		return greeting{}, errStray // some servers end a line there
	}
	target, ok := requestTarget(line)
	if !ok {
		return greeting{}, nil
	}
	g := greeting{protocol: "HTTP"}
	if !strings.HasSuffix(line, "HTTP/1.1") && !strings.HasSuffix(line, "HTTP/1.0") {
		// The beginning of HTTP/2, whose requests name their hosts in another way, or
		// a version that there is not. No name is known of it.
		g.protocol = "HTTP/2"
		return g, nil
	}
	for at := end + 1; ; {
		var whole bool
		if at, whole = headerEnd(s.buf, at); whole {
			header := string(s.buf[end+1 : at])
			if g.host, err = requestHost(line, target, header); err != nil {
				return g, err
			}
			g.request, err = readRequest(line, header)
			g.request.head = at + bytes.IndexByte(s.buf[at:], '\n') + 1
			return g, err
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

// errStray refuses what some servers take for the end of a line.
var errStray = errors.New("an HTTP request with a stray control character")

// requestHost returns the one host that a request names. A target with a host
// of its own and the header have to name the same.
func requestHost(line, target, header string) (string, error) {
	host, seen := "", false
	for line := range strings.Lines(header) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if strings.ContainsAny(line, "\r\x00") {
			return "", errStray
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
	inTarget := ""
	switch scheme, _, _ := strings.Cut(strings.ToLower(target), ":"); {
	case strings.HasPrefix(line, "CONNECT "):
		inTarget = hostOnly(target)
	case strings.HasPrefix(target, "/"), target == "*":
		return host, nil
	case scheme == "http" || scheme == "https":
		u, err := url.Parse(target)
		if err != nil || u.Host == "" {
			return "", errTarget
		}
		inTarget = hostOnly(u.Host)
	default:
		return "", errTarget
	}
	if seen && !strings.EqualFold(inTarget, host) {
		return "", errors.New("an HTTP request with more than one host")
	}
	return inTarget, nil
}

// errTarget refuses what no server ought to take.
var errTarget = errors.New("an HTTP request for what is neither a path nor a URL")

// hostOnly takes the port off.
func hostOnly(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return hostport
}
