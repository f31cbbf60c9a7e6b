package probe

import (
	"errors"
	"os"

	"aloft/internal/control/image/unpack"
	"aloft/internal/control/machine/container"
)

// Unpack checks whether this host can confine the processes that unpack
// images.
func Unpack() (check container.Check, err error) {
	check = container.Check{Name: "unpacking, confined", Detail: "the layers of images are read by processes that see nothing else"}
	dir, err := os.MkdirTemp("", "aloft-doctor-")
	if err != nil {
		return check, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if why := unpack.New(dir).Unconfined(); why != nil {
		check.Detail = "the server itself unpacks images: " + why.Error()
		check.Fix = "run the server as root on Linux 5.12 or newer, and let it create mount and PID namespaces"
		return check, nil
	}
	check.OK = true
	return check, nil
}
