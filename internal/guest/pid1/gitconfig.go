package pid1

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"aloft/internal/atomicfile"
	"aloft/internal/guest/checkout"
	"aloft/internal/wire/podv1"
)

// Files in RunDir.
func (d *Daemon) gitConfigFile() string  { return filepath.Join(d.cfg.RunDir, "gitconfig") }
func (d *Daemon) credentialFile() string { return filepath.Join(d.cfg.RunDir, "credential") }

// scratch is a folder for git's temporary files, owned by the user.
func (d *Daemon) scratch() string { return filepath.Join(d.cfg.RunDir, "scratch") }

func (d *Daemon) gateway() string { return "http://" + d.git.Addr().String() }

// configureGit makes all git commands in the machine use the git gateway.
func (d *Daemon) configureGit(b *podv1.BootRequest) error {
	for _, dir := range []string{d.cfg.RunDir, d.cfg.DataDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("git's configuration: %w", err)
		}
	}
	if err := d.ownFolder(d.scratch()); err != nil {
		return fmt.Errorf("git's configuration: %w", err)
	}
	var urls []string
	for _, c := range append([]*podv1.Checkout{b.GetCheckout()}, b.GetOthers()...) {
		urls = append(urls, c.GetRepoUrl())
	}
	text, err := checkout.Config{
		Gateway: d.gateway(), RepoURLs: urls, Hosts: b.GetHosts(), LFS: lookPath("git-lfs", d.environ()) != "",
		AuthorName: b.GetCheckout().GetAuthorName(), AuthorEmail: b.GetCheckout().GetAuthorEmail(),
		CredentialFile: d.credentialFile(),
	}.Text()
	if err != nil {
		return err
	}
	if err := replace(d.gitConfigFile(), text, 0o644, -1); err != nil {
		return err
	}
	if err := d.writeCredential(b.GetGitCredential()); err != nil {
		return err
	}
	// Keep the image's system configuration, and only include Aloft's in it.
	line := "[include]\n\tpath = " + d.gitConfigFile() + "\n"
	old, err := os.ReadFile(d.cfg.GitConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("git's configuration: %w", err)
	}
	if bytes.Contains(old, []byte(line)) {
		return nil
	}
	if len(old) > 0 && old[len(old)-1] != '\n' {
		old = append(old, '\n')
	}
	return replace(d.cfg.GitConfig, string(old)+line, 0o644, -1)
}

// writeCredential replaces the run's credential. The agent must be able to read
// it; it is valid only for this run's repositories and branch.
func (d *Daemon) writeCredential(credential string) error {
	text, err := checkout.Credential(d.gateway(), credential)
	if err != nil {
		return err
	}
	return replace(d.credentialFile(), text, 0o640, int(d.user.Load().GID))
}

// ownFolder creates a folder that only the user may enter.
func (d *Daemon) ownFolder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return d.user.Load().chown(path)
}

// replace writes a file atomically. A gid of -1 means the group of this
// process.
func replace(path, text string, mode os.FileMode, gid int) error {
	next, err := atomicfile.Create(path, mode)
	if err == nil {
		_, err = next.WriteString(text)
		// Set the mode last: changing the owner may clear mode bits.
		if err = errors.Join(err, next.Chown(-1, gid), next.Chmod(mode)); err == nil {
			err = next.Commit()
		}
		err = errors.Join(err, next.Close())
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// writeToken writes a port's credential to a file.
func (d *Daemon) writeToken(file, token string, mode os.FileMode, gid int) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return replace(file, token+"\n", mode, gid)
}
