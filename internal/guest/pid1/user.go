package pid1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// LookupUser finds a user in the machine's /etc/passwd and /etc/group. The
// empty name means the user of this process.
func LookupUser(name string) (User, error) {
	var u *user.User
	var err error
	if name == "" {
		u, err = user.Current()
	} else {
		u, err = user.Lookup(name)
	}
	if err != nil {
		return User{}, fmt.Errorf("user %q: %w", name, err)
	}
	uid, err := id(u.Uid)
	if err != nil {
		return User{}, err
	}
	gid, err := id(u.Gid)
	if err != nil {
		return User{}, err
	}
	found := User{Name: u.Username, UID: uid, GID: gid, Home: u.HomeDir, Shell: shell(u.Username)}
	groups, err := u.GroupIds()
	if err != nil {
		return User{}, fmt.Errorf("groups of %s: %w", u.Username, err)
	}
	for _, g := range groups {
		n, err := id(g)
		if err != nil {
			return User{}, err
		}
		found.Groups = append(found.Groups, n)
	}
	return found, nil
}

func id(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err
}

// shell returns the login shell in /etc/passwd, which os/user does not provide.
func shell(name string) string {
	const usual = "/bin/bash"
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return usual
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) == 7 && fields[0] == name && fields[6] != "" {
			return fields[6]
		}
	}
	return usual
}

// attributes returns the attributes of a process that runs as the user; nil if
// this process already runs as the user.
func (u User) attributes() *syscall.SysProcAttr {
	if int(u.UID) == os.Geteuid() {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}}
}

// chown gives a file or folder to the user.
func (u User) chown(path string) error { return os.Lchown(path, int(u.UID), int(u.GID)) }

// chooseUser switches to the user that the boot request names, before any process runs
// as the previous user.
func (b *boot) chooseUser(context.Context, func(string)) (string, error) {
	if err := b.checkPrograms(); err != nil {
		return "", err
	}
	d, name := b.d, b.req.GetUser()
	now := d.user.Load()
	d.mu.Lock()
	begun := d.git != nil
	d.mu.Unlock()
	if name == "" || name == now.Name || begun {
		return now.Name, nil
	}
	u, err := LookupUser(name)
	if err != nil {
		return fmt.Sprintf("%s: the machine has no user %s", now.Name, name), nil //nolint:nilerr // the machine works as the default user
	}
	d.user.Store(&u)
	if d.cfg.APISocket != "" {
		if err := os.Lchown(d.cfg.APISocket, -1, int(u.GID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("give the metadata socket to %s: %w", name, err)
		}
	}
	return u.Name, nil
}
