package mirror

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"aloft/internal/control/confine"
)

// git reads packs and refs that upstreams and machines have created. So every
// git command runs confined (package confine) if the host allows it and the
// server, or a process that it can ask, has root's rights. git then runs as a
// user who owns only the files of one mirror, and sees only that mirror and the
// objects of the current push.
//
// This user may be hostile, so the server's own files in a mirror (its
// configuration, HEAD, claims) belong to the server's user, and so do the
// folders in which the server renames and removes files (package owner). Those
// folders are sticky and writable for the group: git creates files in them, but
// cannot replace the server's files. The server follows no links in a mirror.

// userOf returns the user for a mirror with the given hash. Two mirrors may have
// the same user; their commands still do not see each other.
func userOf(hash []byte) int {
	return confine.FirstUser + int(binary.BigEndian.Uint32(hash)%(confine.Users-1))
}

// certificates are the environment variables that name files for git to read.
var certificates = []string{"SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "CURL_CA_BUNDLE"}

// confine makes git run confined from now on, if this host supports that.
func (s *Mirrors) confine() {
	if s.unconfined = s.host.Confined(); s.unconfined != nil {
		s.unconfine()
		return
	}
	s.confined = true
	for _, kv := range s.baseEnv {
		name, path, _ := strings.Cut(kv, "=")
		if !filepath.IsAbs(path) || !slices.Contains(certificates, name) {
			continue
		}
		if confine.Shows(path) {
			path, _ = filepath.EvalSymlinks(path) // a link in a visible folder may lead elsewhere
		}
		if _, err := os.Stat(path); err == nil && !confine.Shows(path) {
			s.visible = append(s.visible, path)
		}
	}
	if !confine.Shows(s.gitPath) {
		s.programs = append(s.programs, s.gitPath)
		cmd := s.command(s.ctx, invocation{args: []string{"--exec-path"}})
		out, _ := cmd.Output() // on failure, the version command below fails too
		if path := strings.TrimSpace(string(out)); filepath.IsAbs(path) && !confine.Shows(path) {
			s.programs = append(s.programs, path)
		}
	}
	if _, _, err := s.git(s.ctx, invocation{args: []string{"version"}}); err != nil {
		s.confined, s.unconfined = false, err
		s.unconfine()
	}
}

// unconfine makes git run as the server's user from now on.
func (s *Mirrors) unconfine() {
	s.log.Warn("git runs as the server's user, without confinement", "user", os.Geteuid(), "reason", s.unconfined)
	s.host = unconfinedHost{s.host}
}

// Unconfined returns nil if git runs confined, or why it does not.
func (s *Mirrors) Unconfined() error { return s.unconfined }

// jail returns the resources that the confined command may use.
func (s *Mirrors) jail(inv invocation) confine.Jail {
	j := confine.Jail{
		User: inv.user, Read: slices.Clone(s.visible), Write: slices.Clone(inv.write), Execute: s.programs, Network: inv.network,
		DataBytes: inv.dataLimit, FileBytes: inv.fileLimit,
	}
	if j.User == 0 {
		j.User = confine.Nobody // the command works on no mirror
	}
	if j.FileBytes == 0 {
		j.FileBytes = uint64(s.maxMirror)
	}
	for path, writes := range map[string]bool{inv.dir: inv.changes, inv.objects: inv.fills} {
		switch {
		case path == "":
		case writes:
			j.Write = append(j.Write, path)
		default:
			j.Read = append(j.Read, path)
		}
	}
	return j
}

// git runs a command on the mirror; see [Mirrors.git].
func (m *Mirror) git(ctx context.Context, inv invocation) (stdout []byte, stderr string, err error) {
	inv.dir, inv.user = m.dir, m.user
	return m.all.git(ctx, inv)
}

// openFile opens a file that git has written. It refuses links and everything
// else that is not a regular file.
func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file", path), err, f.Close())
	}
	return f, nil
}
