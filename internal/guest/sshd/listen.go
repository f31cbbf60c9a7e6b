package sshd

import (
	"net"
	"strconv"

	"golang.org/x/crypto/ssh"
)

type tcpForward struct {
	Host string
	Port uint32
}

type unixForward struct{ Path string }

// listenTCP listens in the machine, on loopback unless the client asks
// otherwise, and forwards each connection to the client (ssh -R). If the client
// requested port 0, the reply contains the port.
func (c *client) listenTCP(payload []byte) (ok bool, answer []byte) {
	var at tcpForward
	if ssh.Unmarshal(payload, &at) != nil || at.Port > 65535 {
		return false, nil
	}
	host := at.Host
	switch host {
	case "localhost":
		host = "127.0.0.1"
	case "*":
		host = ""
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(int(at.Port)))) //nolint:noctx // it listens at once
	if err != nil {
		c.s.log.Info("ssh forward refused", "err", err)
		return false, nil
	}
	port := at.Port
	if tcp, is := l.Addr().(*net.TCPAddr); is && port == 0 {
		port = uint32(tcp.Port)
		answer = ssh.Marshal(struct{ Port uint32 }{port})
	}
	ok = c.listen("tcp "+net.JoinHostPort(at.Host, strconv.Itoa(int(port))), l, func(conn net.Conn) (string, []byte) {
		origin, _ := conn.RemoteAddr().(*net.TCPAddr)
		if origin == nil {
			origin = &net.TCPAddr{IP: net.IPv4zero}
		}
		return "forwarded-tcpip", ssh.Marshal(struct {
			Host       string
			Port       uint32
			OriginHost string
			OriginPort uint32
		}{at.Host, port, origin.IP.String(), uint32(origin.Port)})
	})
	return ok, answer
}

// listenUnix is like listenTCP, for a unix socket. It does not replace an
// existing file.
func (c *client) listenUnix(payload []byte) bool {
	var at unixForward
	if ssh.Unmarshal(payload, &at) != nil {
		return false
	}
	l, err := net.Listen("unix", at.Path) //nolint:noctx // it listens at once
	if err != nil {
		c.s.log.Info("ssh forward refused", "err", err)
		return false
	}
	return c.listen("unix "+at.Path, l, func(net.Conn) (string, []byte) {
		return "forwarded-streamlocal@openssh.com", ssh.Marshal(struct{ Path, Reserved string }{Path: at.Path})
	})
}

func (c *client) cancelTCP(payload []byte) bool {
	var at tcpForward
	return ssh.Unmarshal(payload, &at) == nil && c.cancel("tcp "+net.JoinHostPort(at.Host, strconv.Itoa(int(at.Port))))
}

func (c *client) cancelUnix(payload []byte) bool {
	var at unixForward
	return ssh.Unmarshal(payload, &at) == nil && c.cancel("unix "+at.Path)
}

// listen forwards the connections of l to the client, until l is closed by
// cancel or with the client's connection.
func (c *client) listen(name string, l net.Listener, channel func(net.Conn) (kind string, extra []byte)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listeners[name] != nil || len(c.listeners) >= maxForwards || c.ctx.Err() != nil {
		_ = l.Close()
		return false
	}
	c.listeners[name] = l
	c.work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.work.Go(func() {
				kind, extra := channel(conn)
				ch, requests, err := c.conn.OpenChannel(kind, extra)
				if err != nil {
					_ = conn.Close()
					return
				}
				go ssh.DiscardRequests(requests)
				join(ch, conn)
			})
		}
	})
	return true
}

func (c *client) cancel(name string) bool {
	c.mu.Lock()
	l := c.listeners[name]
	delete(c.listeners, name)
	c.mu.Unlock()
	return l != nil && l.Close() == nil
}

func (c *client) closeListeners() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.listeners {
		_ = l.Close() // also removes a unix socket
	}
}
