package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"aloft/internal/atomicfile"
	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/control/backup"
	"aloft/internal/control/store/sqlite"
)

func newBackupCommand(a *app) *cobra.Command {
	var passphrase string
	var recipients []string
	data := command.DataDir(a.Getenv)
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Back up the server's data into an encrypted file",
		Long: `Back up the data folder of the server on this host into a new encrypted file, or to
standard output if FILE is "-". It requires root. The server may be running.

The backup contains agents and their journals, users, API keys, secrets and the keys
that decrypt them, settings, artifacts, kept snapshots, builds of environments, and
images that no registry has. It does not contain the disks of live machines: after a
restore, their agents continue from the saved disk or the pushed branch. It also leaves out
what the server can fetch or rebuild, such as mirrors of repositories, and what is outside the
data folder: the configuration, and artifacts in a bucket.

If the database is in PostgreSQL, backup refuses: use pg_dump for the database, and
copy the data folder while the server is stopped.

The file is encrypted with a passphrase, or for the public keys given with --recipient
(age1…, made by age-keygen), so that the host cannot read its own backups. Everyone who can
decrypt it has all secrets of the server.`,
		Example: `  sudo aloft backup /mnt/backup/aloft-2026-01-02.age
  sudo aloft backup --recipient age1… - | ssh backup.example.com 'cat > aloft.age'
  sudo aloft backup --passphrase-file /root/passphrase aloft.age`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := a.openBackup(args[0], data)
			if err != nil {
				return err
			}
			defer func() { _ = out.Close() }() // deletes the backup unless it was committed
			to, err := a.recipients(recipients, passphrase)
			if err != nil {
				return err
			}
			progress := a.newProgress()
			sum, err := backup.Create(cmd.Context(), out, backup.Options{
				Data: data, Version: a.Version, Database: sqlite.Copy, Recipients: to, Progress: progress.show, Logger: a.logger(),
			})
			progress.end()
			if err == nil {
				err = out.Commit()
			}
			if err != nil {
				return err
			}
			return a.reportBackup(sum, args[0])
		},
	}
	cmd.Flags().StringVar(&data, "data", data, "data `folder` of the server (ALOFT_DATA)")
	cmd.Flags().StringVar(&passphrase, "passphrase-file", "", "`file` with the passphrase, instead of asking for it")
	cmd.Flags().StringArrayVar(&recipients, "recipient", nil, "age public `key` of a recipient who can decrypt the backup; may be repeated")
	cmd.MarkFlagsMutuallyExclusive("passphrase-file", "recipient")
	return cmd
}

func newRestoreCommand(a *app) *cobra.Command {
	var passphrase, identity string
	data := command.DataDir(a.Getenv)
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore a backup into an empty data folder",
		Long: `Restore a backup of "aloft backup", from FILE or from standard input ("-"), into a data
folder that is empty or does not exist. It requires root. Then start the server with
that folder and its configuration. Stop the old server first and do not start it again: both
would work on the same agents.

Everything is first written to a folder beside the data folder and verified. If the
restore fails or is killed, the data folder stays as it was. Restore refuses a backup that
is truncated or modified, or whose format is newer than this version of Aloft.

A backup for a public key proves nothing about who made it: restore it only if it comes
from a place that you trust.`,
		Example: `  sudo aloft restore aloft-2026-01-02.age
  sudo aloft restore --data /srv/aloft --identity key.txt aloft.age
  ssh backup.example.com cat aloft.age | sudo aloft restore --passphrase-file /root/passphrase -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			from := a.Stdin
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return command.UsageError(err)
				}
				defer func() { _ = f.Close() }() // opened only for reading
				from = f
			}
			identities, err := a.identities(identity, passphrase, args[0] == "-")
			if err != nil {
				return err
			}
			progress := a.newProgress()
			sum, err := backup.Restore(cmd.Context(), from, backup.RestoreOptions{
				Data: data, Identities: identities, Progress: progress.show, Logger: a.logger(),
			})
			progress.end()
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(sum)
			}
			a.Out.Line("Restored %d files (%s) of %s into %s", sum.Files, mebibytes(sum.Bytes), sum.Created.Format(time.RFC3339), data)
			a.Out.Note("Start the server with: aloft serve --data %s", data)
			return nil
		},
	}
	cmd.Flags().StringVar(&data, "data", data, "data `folder` of the server (ALOFT_DATA)")
	cmd.Flags().StringVar(&passphrase, "passphrase-file", "", "`file` with the passphrase, instead of asking for it")
	cmd.Flags().StringVar(&identity, "identity", "", "`file` with an age private key")
	cmd.MarkFlagsMutuallyExclusive("passphrase-file", "identity")
	return cmd
}

func (a *app) logger() *slog.Logger { return slog.New(slog.NewTextHandler(a.Stderr, nil)) }

// backupFile is the destination of a backup. Without Commit, Close deletes it.
type backupFile interface {
	io.WriteCloser
	Commit() error
}

// openBackup opens a new file with the given name, or standard output.
func (a *app) openBackup(name, data string) (backupFile, error) {
	if name == "-" {
		if f, ok := a.Stdout.(*os.File); ok && cli.IsTerminal(f) {
			return nil, command.UsageError(errors.New("a backup cannot be written to a terminal: redirect it, or name a file"))
		}
		return stdout{a.Stdout}, nil
	}
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return nil, command.UsageError(fmt.Errorf("%s already exists: choose a new name", name))
	}
	file, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	folder, err := filepath.Abs(data)
	if err != nil {
		return nil, err
	}
	if rel, err := filepath.Rel(folder, file); err == nil && filepath.IsLocal(rel) {
		return nil, command.UsageError(fmt.Errorf("%s is in the data folder, and would be lost with it", name))
	}
	return atomicfile.Create(file, 0o600)
}

// stdout is standard output as a backup file. Written data cannot be removed
// again.
type stdout struct{ io.Writer }

func (stdout) Commit() error { return nil }
func (stdout) Close() error  { return nil }

func (a *app) reportBackup(sum backup.Summary, name string) error {
	for _, entry := range sum.Unknown {
		a.Out.Note("Not included, because this version does not know it: %s", entry)
	}
	for _, why := range sum.LeftOut {
		a.Out.Note("Not included: %s", why)
	}
	if sum.Machines > 0 {
		a.Out.Note("Not included: the live disks of machines (%d). After a restore, their agents continue from the saved disk or the pushed branch.", sum.Machines)
	}
	if name == "-" {
		a.Out.Note("Backed up %d files (%s)", sum.Files, mebibytes(sum.Bytes))
		return nil
	}
	if a.Out.JSON() {
		return a.Out.Value(sum)
	}
	a.Out.Line("Backed up %d files (%s) into %s", sum.Files, mebibytes(sum.Bytes), name)
	return nil
}

// recipients returns the recipients who can decrypt the backup.
func (a *app) recipients(keys []string, file string) ([]age.Recipient, error) {
	if len(keys) > 0 {
		to, err := age.ParseRecipients(strings.NewReader(strings.Join(keys, "\n")))
		if err != nil {
			return nil, command.UsageError(errors.New("--recipient: not an age public key, such as age1…"))
		}
		return to, nil
	}
	passphrase, err := a.passphrase(file, false)
	if err != nil {
		return nil, err
	}
	if file == "" {
		again, err := a.askPassphrase("Passphrase again: ")
		if err != nil {
			return nil, err
		}
		if again != passphrase {
			return nil, command.UsageError(errors.New("the passphrases differ"))
		}
	}
	r, err := age.NewScryptRecipient(passphrase)
	return []age.Recipient{r}, err
}

func (a *app) identities(identity, file string, stdin bool) ([]age.Identity, error) {
	if identity != "" {
		text, err := os.ReadFile(identity)
		if err != nil {
			return nil, command.UsageError(err)
		}
		keys, err := age.ParseIdentities(bytes.NewReader(text))
		if err != nil { // omit the error, which may quote the key
			return nil, command.UsageError(fmt.Errorf("%s: no age private key in it", identity))
		}
		return keys, nil
	}
	passphrase, err := a.passphrase(file, stdin)
	if err != nil {
		return nil, err
	}
	i, err := age.NewScryptIdentity(passphrase)
	return []age.Identity{i}, err
}

// maxPassphrase is the maximum length of a passphrase, in bytes.
const maxPassphrase = 4096

// passphrase returns the passphrase in the file, or asks for it.
func (a *app) passphrase(file string, stdinTaken bool) (string, error) {
	if file == "" {
		if stdinTaken {
			return "", command.UsageError(errors.New("standard input is the backup: give --passphrase-file or --identity"))
		}
		return a.askPassphrase("Passphrase: ")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", command.UsageError(err)
	}
	passphrase := strings.TrimRight(string(text), "\r\n")
	if passphrase == "" || len(passphrase) > maxPassphrase {
		return "", command.UsageError(fmt.Errorf("%s: a passphrase has 1 to %d bytes", file, maxPassphrase))
	}
	return passphrase, nil
}

func (a *app) askPassphrase(prompt string) (string, error) {
	f, ok := a.Stdin.(*os.File)
	if !ok || !cli.IsTerminal(f) {
		return "", command.UsageError(errors.New("missing passphrase: give --passphrase-file, or run this in a terminal"))
	}
	fmt.Fprint(a.Stderr, prompt)
	text, err := term.ReadPassword(int(f.Fd()))
	fmt.Fprintln(a.Stderr)
	if err == nil && len(text) == 0 {
		err = command.UsageError(errors.New("missing passphrase"))
	}
	return string(text), err
}

// progressEvery is how often the progress is shown, in place on a terminal, or
// else as a new line.
const progressEvery, progressLineEvery = 200 * time.Millisecond, 10 * time.Second

// A progress shows the progress of a backup on standard error.
type progress struct {
	out   io.Writer
	live  bool
	shown time.Time
}

func (a *app) newProgress() *progress {
	f, ok := a.Stderr.(*os.File)
	return &progress{out: a.Stderr, live: ok && cli.IsTerminal(f), shown: time.Now()}
}

func (p *progress) show(name string, n int64) {
	every := progressLineEvery
	if p.live {
		every = progressEvery
	}
	if time.Since(p.shown) < every {
		return
	}
	p.shown = time.Now()
	text := fmt.Sprintf("%s, %s", mebibytes(n), cli.Line(name, 60))
	if p.live {
		fmt.Fprintf(p.out, "\r\x1b[2K%s", text)
	} else {
		fmt.Fprintln(p.out, text)
	}
}

func (p *progress) end() {
	if p.live {
		fmt.Fprint(p.out, "\r\x1b[2K")
	}
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
