package proxy

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
)

// SOCKS5 replies (RFC 1928).
const (
	socksDone        = 0
	socksFailed      = 1
	socksDenied      = 2
	socksUnreachable = 4
	socksNoCommand   = 7
	socksNoAddress   = 8
)

var errSocks = errors.New("not a valid SOCKS5 request (RFC 1928)")

// readClientHello reads the authentication methods that a client offers, and
// reports whether "no authentication" is one of them.
func readClientHello(in io.Reader) (plain bool, err error) {
	var head [2]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return false, err
	}
	if head[0] != 5 {
		return false, errSocks
	}
	methods := make([]byte, head[1])
	if _, err := io.ReadFull(in, methods); err != nil {
		return false, err
	}
	for _, m := range methods {
		plain = plain || m == 0
	}
	return plain, nil
}

// readRequest reads the requested destination. If there is an error, code is
// the reply to send.
func readRequest(in io.Reader) (host string, port uint16, code byte, err error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return "", 0, socksFailed, err
	}
	if head[0] != 5 || head[2] != 0 {
		return "", 0, socksFailed, errSocks
	}
	var raw []byte
	switch head[3] {
	case 1:
		raw = make([]byte, 4)
	case 4:
		raw = make([]byte, 16)
	case 3:
		var n [1]byte
		if _, err := io.ReadFull(in, n[:]); err != nil {
			return "", 0, socksFailed, err
		}
		raw = make([]byte, n[0])
	default:
		return "", 0, socksNoAddress, errSocks
	}
	var rawPort [2]byte
	if _, err := io.ReadFull(in, raw); err != nil {
		return "", 0, socksFailed, err
	}
	if _, err := io.ReadFull(in, rawPort[:]); err != nil {
		return "", 0, socksFailed, err
	}
	if head[1] != 1 { // only CONNECT is supported, not BIND or UDP
		return "", 0, socksNoCommand, errSocks
	}
	host = string(raw)
	if head[3] != 3 {
		addr, _ := netip.AddrFromSlice(raw) // its length was checked
		host = addr.String()
	}
	return host, binary.BigEndian.Uint16(rawPort[:]), 0, nil
}

func (p *Proxy) socks(ctx context.Context, c net.Conn, in *bufio.Reader) {
	plain, err := readClientHello(in)
	if err != nil {
		return
	}
	if !plain {
		_, _ = c.Write([]byte{5, 0xff})
		return
	}
	if _, err := c.Write([]byte{5, 0}); err != nil {
		return
	}
	reply := func(code byte) error {
		_, err := c.Write([]byte{5, code, 0, 1, 0, 0, 0, 0, 0, 0})
		return err
	}
	host, port, code, err := readRequest(in)
	if err != nil {
		_ = reply(code)
		return
	}
	out, err := p.connect(ctx, host, port)
	if err != nil {
		code := byte(socksUnreachable)
		if _, denied := errors.AsType[errDenied](err); denied {
			code = socksDenied
		}
		_ = reply(code)
		return
	}
	defer func() { _ = out.Close() }()
	cut := context.AfterFunc(ctx, func() { _ = out.Close() })
	defer cut()
	if reply(socksDone) == nil {
		splice(c, in, out)
	}
}
