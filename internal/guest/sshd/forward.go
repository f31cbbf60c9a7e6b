package sshd

import (
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// dialTime bounds connecting to what a client forwards to.
const dialTime = 15 * time.Second

// directTCP joins a channel to a TCP address that the machine reaches: -L and -D.
func (c *client) directTCP(open ssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if ssh.Unmarshal(open.ExtraData(), &to) != nil || to.Port > 65535 {
		_ = open.Reject(ssh.ConnectionFailed, "the request is broken")
		return
	}
	c.direct(open, "tcp", net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))))
}

// directUnix joins a channel to a unix socket of the machine.
func (c *client) directUnix(open ssh.NewChannel) {
	var to struct {
		Path     string
		Reserved string
		Port     uint32
	}
	if ssh.Unmarshal(open.ExtraData(), &to) != nil {
		_ = open.Reject(ssh.ConnectionFailed, "the request is broken")
		return
	}
	c.direct(open, "unix", to.Path)
}

func (c *client) direct(open ssh.NewChannel, network, addr string) {
	dialer := net.Dialer{Timeout: dialTime}
	conn, err := dialer.DialContext(c.ctx, network, addr)
	if err != nil {
		_ = open.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	ch, requests, err := open.Accept()
	if err != nil {
		_ = conn.Close()
		return
	}
	go ssh.DiscardRequests(requests)
	join(ch, conn)
}

// halfCloser is a connection whose writing can end before its reading.
type halfCloser interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// join copies both ways until both have ended. The end of one direction is
// passed on as such.
func join(ch ssh.Channel, conn net.Conn) {
	half, ok := conn.(halfCloser) // TCP and unix connections are
	if !ok {
		_, _ = ch.Close(), conn.Close()
		return
	}
	oneWay := func(dst, src halfCloser) {
		if _, err := io.Copy(dst, src); err != nil {
			// One side is broken: what the other still says reaches nobody.
			_, _ = dst.Close(), src.Close()
			return
		}
		_ = dst.CloseWrite()
	}
	var both sync.WaitGroup
	both.Go(func() { oneWay(ch, half) })
	both.Go(func() { oneWay(half, ch) })
	both.Wait()
	_, _ = ch.Close(), conn.Close()
}
