package backup

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// How says how a backup treats an entry of the data folder.
type How int

// The ways to treat an entry in a backup.
const (
	Copied  How = iota + 1 // copies the entry unchanged
	Saved                  // saves the entry in a special form, because it changes while a server runs
	Remade                 // leaves the entry out: a server creates it again
	LeftOut                // leaves the entry out, so it is lost
	Inside                 // a folder whose entries are treated individually
)

// An Entry is a file or folder of the data folder.
type Entry struct {
	Name string // path in the data folder, with slashes
	How  How
	Why  string
}

// Folder lists every entry of a data folder, in the order of a backup.
var Folder = []Entry{
	{database, Saved, "agents, journals, users, API keys, encrypted secrets, settings: a copy of one moment"},
	{artifacts, Saved, "files that agents left: each agent's files are those of one moment"},
	{"secrets.key", Copied, "decrypts the secrets in the database"},
	{"secret.key", Copied, "tokens and links derive from it"},
	{"identity.pem", Copied, "signs the tokens of machines"},
	{"admin.key", Copied, "the first API key"},
	{"connections", Copied, "log of machines' network connections"},
	{"builds", Inside, "logs of builds"},
	{"builds/*.log", Copied, "the log of a build"},
	{"builds/images", Copied, "the images of Dockerfiles, and the logs of their builds"},
	{"builds/context-*", Remade, "files of a Dockerfile build while it runs"},
	{"machines", Inside, "machines, and what they are made of"},
	{layersPath, Saved, "kept snapshots and builds of environments, and the disks below them"},
	{imagesPath, Saved, "images that were imported or built here; images of registries are pulled again"},
	{"machines/machines", LeftOut, "live disks and memory: agents continue from their saved disk or pushed branch"},
	{"machines/ids", Remade, "user ids of live machines"},
	{"machines/trash", Remade, "what is being deleted"},
	{"mirrors", Remade, "copies of repositories: fetched again from their git servers"},
	{"bin", Remade, "programs that are part of aloft"},
	{"build", Remade, "caches and work folders of image builds"},
	{"sign-in-link", Remade, "the first sign-in link"},
	{"server.url", Remade, "address of the running server"},
	{"reserve", Remade, "space that is released when the disk is full"},
	{database + ".lock", Remade, "lock of the running server"},
	{database + "-wal", Remade, "part of the database: its content is in the copy"},
	{database + "-shm", Remade, "part of the database: its content is in the copy"},
	{remoteFile, Remade, "only with a database in PostgreSQL, for which there is no backup of this kind"},
	{remoteFile + ".new", Remade, "the same"},
	{workFolder, Remade, "files of a backup while it is made"},
}

// find returns the entry of a path, with slashes, in the data folder.
func find(name string) (Entry, bool) {
	i := slices.IndexFunc(Folder, func(e Entry) bool {
		ok, _ := path.Match(e.Name, name)
		return ok
	})
	if i < 0 {
		return Entry{}, false
	}
	return Folder[i], true
}

// mayHold reports whether an archive may contain a file or folder at a path in
// the data folder.
func mayHold(name string, dir bool) bool {
	if !fs.ValidPath(name) {
		return false
	}
	if e, ok := find(name); ok && (e.How == Copied || e.Name == database && !dir || e.Name == artifacts || e.How == Inside && dir) {
		return true
	}
	for at := path.Dir(name); at != "."; at = path.Dir(at) {
		if e, ok := find(at); ok && (e.How == Copied || e.Name == artifacts) {
			return true
		}
	}
	return false
}

// Unknown returns the entries of a data folder that [Folder] does not list.
func Unknown(data string) ([]string, error) {
	var out []string
	for _, in := range append([]Entry{{Name: "."}}, Folder...) {
		if in.Name != "." && in.How != Inside {
			continue
		}
		entries, err := os.ReadDir(filepath.Join(data, in.Name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			name := path.Join(in.Name, e.Name())
			if _, ok := find(name); !ok && !strings.HasPrefix(e.Name(), ".") {
				out = append(out, name)
			}
		}
	}
	return out, nil
}
