package egress

import (
	"bytes"
	"errors"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A request is the part of an HTTP request header that determines where the
// next request starts.
type request struct {
	head    int   // bytes before the body
	length  int64 // bytes of the body
	chunked bool  // the body is chunked, and length is ignored
	connect bool  // method CONNECT
	upgrade bool  // the request asks to switch to a protocol other than HTTP, such as WebSocket
}

// errAmbiguous refuses requests whose length a server may compute differently
// (request smuggling).
var errAmbiguous = errors.New("an HTTP request whose length can be read in two ways")

// readRequest parses a request header that requestHost has accepted.
func readRequest(line, header string) (request, error) {
	r := request{connect: strings.HasPrefix(line, "CONNECT ")}
	var lengths, codings, upgrades []string
	for line := range strings.Lines(header) {
		name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		if !ok || !isName(strings.TrimRight(name, " \t")) {
			return r, errStray // some servers ignore such characters, and so read another header name
		}
		value = strings.Trim(value, " \t")
		switch plain := strings.ToLower(strings.TrimRight(name, " \t")); plain {
		case "content-length":
			lengths = append(lengths, value)
		case "transfer-encoding":
			codings = append(codings, value)
		case "upgrade":
			upgrades = append(upgrades, value)
			continue
		default:
			continue
		}
		if strings.TrimRight(name, " \t") != name {
			return r, errAmbiguous
		}
	}
	r.upgrade = len(upgrades) > 0 && !slices.ContainsFunc(upgrades, namesHTTP) // a server may choose any offered protocol
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

// namesHTTP reports whether an Upgrade header offers TLS or a version of HTTP.
// After such an upgrade, later requests could not be judged.
func namesHTTP(value string) bool {
	for protocol := range strings.SplitSeq(strings.ToLower(value), ",") {
		name, _, _ := strings.Cut(strings.Trim(protocol, " \t"), "/")
		if name == "h2c" || name == "h2" || name == "http" || name == "tls" {
			return true
		}
	}
	return false
}

// maxLine is the maximum length in bytes of a first line that may be HTTP.
const maxLine = 16 << 10

// readHTTP finds the host of an HTTP request. Input that does not start like a
// request is another protocol, which names no host.
func readHTTP(s *source) (_ clientHello, err error) {
	start := 0 // servers accept empty lines before a request
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
			return clientHello{}, nil
		}
		if len(line) > maxLine {
			return clientHello{}, errTooLong
		}
		if !s.fill(len(s.buf) + 1) {
			return clientHello{}, s.failure()
		}
	}
	line := strings.TrimRight(string(s.buf[start:end]), "\r")
	if !mayBeRequest([]byte(line)) || !strings.Contains(strings.ToUpper(line), "HTTP/") {
		return clientHello{}, nil
	}
	m := requestLine.FindStringSubmatch(line)
	if m == nil {
		return clientHello{}, errLine
	}
	target := m[1]
	g := clientHello{protocol: "HTTP"}
	if !strings.HasSuffix(line, "HTTP/1.1") && !strings.HasSuffix(line, "HTTP/1.0") {
		// This is the preface of HTTP/2, whose requests name hosts differently,
		// or an unknown version: the request's host is unknown.
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
				return clientHello{}, err
			}
			return clientHello{}, errors.New("mode list: an HTTP request header that is too long")
		}
	}
}

// requestLine matches the first line of an HTTP request: a method, a target and
// a version, with a space between them.
var requestLine = regexp.MustCompile(`^[!#$%&'*+.^_|~0-9A-Za-z` + "`" + `-]+ ([^\x00-\x20\x7f]+) HTTP/[0-9.]+$`)

// errLine refuses a line that a lenient server may accept as a request line
// although it is malformed: it has other blanks, or other characters in its
// method.
var errLine = errors.New("the first line of an HTTP request is malformed")

// mayBeRequest reports whether a lenient server may accept an incomplete line
// as the beginning of a request: a word followed by a blank. Such servers
// accept blanks before the word, and any word.
func mayBeRequest(line []byte) bool {
	word := false
	for _, c := range line {
		switch {
		case isBlank(c):
			if word {
				return true
			}
		case c < 0x20 || c == 0x7f:
			return false
		default:
			word = true
		}
	}
	return true
}

// isBlank reports whether any server treats c as a blank. Python's http.server
// decodes a request line as Latin-1 and splits it at all of these.
func isBlank(c byte) bool {
	return c == ' ' || c >= '\t' && c <= '\r' || c >= 0x1c && c <= 0x1f || c == 0x85 || c == 0xa0
}

// isName reports whether name is a valid header name.
func isName(name string) bool {
	for i := range len(name) {
		if !isToken(name[i]) {
			return false
		}
	}
	return name != ""
}

func isToken(c byte) bool {
	return c > 0x20 && c < 0x7f && !strings.ContainsRune(`()<>@,;:\"/[]?={}`, rune(c))
}

// headerEnd looks for the empty line that ends a header. The search starts at
// offset at, which must be the start of a line. It returns the offset of the
// header's end and true, or the offset at which to continue and false.
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

// errStray refuses control characters that some servers treat as the end of a
// line.
var errStray = errors.New("an HTTP request with a stray control character")

// requestHost returns the single host that a request names. If both a Host
// header and an absolute target exist, they must agree.
func requestHost(line, target, header string) (string, error) {
	host, seen := "", false
	for line := range strings.Lines(header) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if strings.ContainsAny(line, "\r\x00") {
			return "", errStray
		}
		if line != "" && (line[0] == ' ' || line[0] == '\t') {
			return "", errors.New("a folded HTTP header")
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

// errTarget refuses targets that no server should accept.
var errTarget = errors.New("an HTTP request whose target is neither a path nor a URL")

// hostOnly strips the port.
func hostOnly(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return hostport
}
