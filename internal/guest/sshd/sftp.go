package sshd

import (
	"errors"
	"fmt"
	"io"

	"github.com/pkg/sftp"
)

// ServeSFTP serves sftp on a connection until the client disconnects. It should
// run in a separate process with the client's rights and working directory.
// Then a link to the serving process itself, such as /proc/self/mem, reveals
// nothing.
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
