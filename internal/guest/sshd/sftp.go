package sshd

import (
	"errors"
	"fmt"
	"io"

	"github.com/pkg/sftp"
)

// ServeSFTP speaks sftp on a connection until its client has gone. It is for a
// process of its own, whose rights and working directory are the client's. So
// a file that names a part of the serving process, such as /proc/self/mem, is
// of no use to whoever left it for a person to fetch.
func ServeSFTP(conn io.ReadWriteCloser) error {
	server, err := sftp.NewServer(conn)
	if err != nil {
		return fmt.Errorf("sftp: %w", err)
	}
	err = server.Serve()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, server.Close())
}
