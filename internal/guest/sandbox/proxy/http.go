package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// request is the part of an HTTP/1 request that a proxy needs.
type request struct {
	connect bool
	host    string
	port    uint16
	head    []byte // sent to the server: the request line in origin form, and the headers
	length  int64  // length of the body; -1 if it is chunked
}

var errRequest = errors.New("not an HTTP/1 proxy request")

// hopByHop are headers that concern only a client and its proxy.
var hopByHop = []string{"connection", "proxy-connection", "keep-alive", "te", "trailer", "upgrade", "proxy-authorization", "proxy-authenticate", "host"}

// readHTTP reads a request's line and headers. It is strict: it refuses
// anything that servers could interpret in different ways.
func readHTTP(in *bufio.Reader) (request, error) {
	var r request
	left := maxHead
	line, err := readLine(in, &left)
	if err != nil {
		return r, err
	}
	method, rest, ok1 := strings.Cut(line, " ")
	target, version, ok2 := strings.Cut(rest, " ")
	if !ok1 || !ok2 || version != "HTTP/1.1" && version != "HTTP/1.0" || !isToken(method) || strings.ContainsAny(target, " \t") {
		return r, errRequest
	}
	path := ""
	if method == "CONNECT" {
		r.connect = true
		if r.host, r.port, err = splitHost(target, 0); err != nil {
			return r, err
		}
	} else {
		authority, found := "", false
		if authority, found = cutPrefixFold(target, "http://"); !found {
			return r, errRequest // a request to this proxy itself, or with another scheme
		}
		if i := strings.IndexAny(authority, "/?#"); i >= 0 {
			authority, path = authority[:i], authority[i:]
		}
		if !strings.HasPrefix(path, "/") {
			path = "/" + path
		}
		path, _, _ = strings.Cut(path, "#")
		if r.host, r.port, err = splitHost(authority, 80); err != nil {
			return r, err
		}
	}
	var head bytes.Buffer
	host := r.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if r.port != 80 {
		host += ":" + strconv.Itoa(int(r.port))
	}
	// Send the host that was checked, even if the Host header differs.
	fmt.Fprintf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, host)
	lengths, chunked := 0, false
	for {
		line, err := readLine(in, &left)
		if err != nil {
			return r, err
		}
		if line == "" {
			break
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || !isToken(name) {
			return r, errRequest // this includes folded header lines
		}
		name, value = strings.ToLower(name), strings.Trim(value, " \t")
		switch name {
		case "content-length":
			n, err := strconv.ParseUint(value, 10, 63)
			if err != nil || lengths > 0 || value[0] == '+' {
				return r, errRequest
			}
			lengths, r.length = lengths+1, int64(n)
		case "transfer-encoding":
			if !strings.EqualFold(value, "chunked") || chunked {
				return r, errRequest
			}
			chunked, r.length = true, -1
		}
		if !isHopByHop(name) {
			head.WriteString(line + "\r\n")
		}
	}
	if chunked && lengths > 0 {
		return r, errRequest
	}
	head.WriteString("Connection: close\r\n\r\n")
	r.head = head.Bytes()
	return r, nil
}

func isHopByHop(name string) bool {
	for _, h := range hopByHop {
		if name == h {
			return true
		}
	}
	return false
}

// readLine reads a line that ends in \r\n or \n, and subtracts its length from
// left.
func readLine(in *bufio.Reader, left *int) (string, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if *left -= len(part); *left < 0 {
			return "", errRequest
		}
		line = append(line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return "", err
		}
	}
	line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	for _, c := range line {
		if c < ' ' && c != '\t' || c == 0x7f {
			return "", errRequest
		}
	}
	return string(line), nil
}

func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// splitHost splits host:port. A missing port means usual, unless that is 0.
func splitHost(authority string, usual uint16) (string, uint16, error) {
	if strings.Contains(authority, "@") {
		return "", 0, errRequest
	}
	host, port, err := net.SplitHostPort(authority)
	if err != nil {
		if usual == 0 {
			return "", 0, errRequest
		}
		host, port = strings.TrimSuffix(strings.TrimPrefix(authority, "["), "]"), strconv.Itoa(int(usual))
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || port[0] == '+' || strings.ContainsAny(host, "[]/?#%\\ ") {
		return "", 0, errRequest
	}
	return host, uint16(n), nil
}

func (p *Proxy) http(ctx context.Context, c net.Conn, in *bufio.Reader) {
	refuse := func(status string, err error) {
		text := err.Error() + "\n"
		_, _ = fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, len(text), text)
	}
	r, err := readHTTP(in)
	if err != nil {
		if errors.Is(err, errRequest) {
			refuse("400 Bad Request", err)
		}
		return
	}
	out, err := p.connect(ctx, r.host, r.port)
	if err != nil {
		status := "502 Bad Gateway"
		if _, denied := errors.AsType[errDenied](err); denied {
			status = "403 Forbidden"
		}
		refuse(status, err)
		return
	}
	defer func() { _ = out.Close() }()
	cut := context.AfterFunc(ctx, func() { _ = out.Close() })
	defer cut()
	if r.connect {
		if _, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err == nil {
			splice(c, in, out)
		}
		return
	}
	// Serve only one request per connection: the next could be for another
	// host.
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := out.Write(r.head); err == nil {
			_ = copyBody(out, in, r.length)
		}
	}()
	_, _ = io.Copy(c, out)
	_ = c.Close() // stops copying a body that the server did not wait for
	<-done
}

// copyBody copies exactly one request body.
func copyBody(to io.Writer, in *bufio.Reader, length int64) error {
	if length >= 0 {
		_, err := io.CopyN(to, in, length)
		return err
	}
	for {
		left := maxHead
		line, err := readLine(in, &left)
		if err != nil {
			return err
		}
		size, _, _ := strings.Cut(line, ";")
		n, err := strconv.ParseUint(strings.Trim(size, " \t"), 16, 62)
		if err != nil {
			return errRequest
		}
		if _, err := fmt.Fprintf(to, "%x\r\n", n); err != nil {
			return err
		}
		if n == 0 {
			break
		}
		if _, err := io.CopyN(to, in, int64(n)); err != nil {
			return err
		}
		if line, err := readLine(in, &left); err != nil || line != "" {
			return errors.Join(errRequest, err)
		}
		if _, err := io.WriteString(to, "\r\n"); err != nil {
			return err
		}
	}
	_, err := io.WriteString(to, "\r\n") // trailers are dropped
	return err
}
