package sshd

import (
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// dialTime is the timeout for connecting to a forwarding destination.
const dialTime = 15 * time.Second

// directTCP forwards a channel to a TCP address that is reachable from the
// machine (ssh -L and -D).
func (c *client) directTCP(open ssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if ssh.Unmarshal(open.ExtraData(), &to) != nil || to.Port > 65535 {
		_ = open.Reject(ssh.ConnectionFailed, "malformed request")
		return
	}
	c.direct(open, "tcp", net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))))
}

// directUnix forwards a channel to a unix socket in the machine.
func (c *client) directUnix(open ssh.NewChannel) {
	var to struct {
		Path     string
		Reserved string
		Port     uint32
	}
	if ssh.Unmarshal(open.ExtraData(), &to) != nil {
		_ = open.Reject(ssh.ConnectionFailed, "malformed request")
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

// halfCloser is a connection that can close its write side only.
type halfCloser interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// join copies in both directions until both have ended. It forwards the end of
// each direction separately.
func join(ch ssh.Channel, conn net.Conn) {
	half, ok := conn.(halfCloser) // TCP and unix connections implement it
	if !ok {
		_, _ = ch.Close(), conn.Close()
		return
	}
	oneWay := func(dst, src halfCloser) {
		if _, err := io.Copy(dst, src); err != nil {
			// One direction failed, so data of the other has no receiver.
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
