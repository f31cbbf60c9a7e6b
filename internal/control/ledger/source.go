package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

// owners returns the owners by agent id.
func owners(ctx context.Context, s store.Sizes) (map[string]store.Owner, error) {
	all, err := s.Owners(ctx)
	if err != nil {
		return nil, err
	}
	by := make(map[string]store.Owner, len(all))
	for _, o := range all {
		by[o.AgentID] = o
	}
	return by, nil
}

// item returns an item of an agent, or of the server if there is no such agent.
func item(id, agentID string, by map[string]store.Owner) Item {
	o := by[agentID]
	return Item{ID: id, AgentID: o.AgentID, UserID: o.UserID}
}

// Machines lists the machines of a runtime. The machines of builds belong to
// the server.
type Machines struct {
	Runtime machine.Runtime
	Store   store.Sizes
	AgentOf func(machineID string) (agentID string, ok bool)
}

// Kind implements [Source].
func (Machines) Kind() Kind { return Machine }

// Items implements [Source].
func (s Machines) Items(ctx context.Context) ([]Item, error) {
	ids, err := s.Runtime.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list machines: %w", err)
	}
	by, err := owners(ctx, s.Store)
	if err != nil {
		return nil, err
	}
	all := make([]Item, len(ids))
	for i, id := range ids {
		agentID, _ := s.AgentOf(id)
		all[i] = item(id, agentID, by)
		all[i].Measure = func(ctx context.Context, _ Measured) (Measured, error) { return s.measure(ctx, id) }
	}
	return all, nil
}

func (s Machines) measure(ctx context.Context, id string) (got Measured, err error) {
	m, err := s.Runtime.Open(ctx, id)
	if errors.Is(err, machine.ErrNotFound) {
		return got, nil
	}
	if err != nil {
		return got, fmt.Errorf("measure machine %s: %w", id, err)
	}
	switch m := m.(type) {
	case interface {
		DiskUsage(ctx context.Context) (bytes, inodes int64, err error)
	}:
		got.Bytes, got.Inodes, err = m.DiskUsage(ctx)
	case machine.Measured:
		got.Bytes, err = m.DiskBytes(ctx)
	}
	return got, err
}

// Layers lists saved disks. A layer belongs to the first of these owners that exists:
//
//   - the person who saved it as a snapshot;
//   - the server, if it is a build: the whole team starts from builds;
//   - the oldest agent whose machine is based on the layer, or that waits to
//     start from it. Such a layer contains an agent's files up to the last time
//     that its disk was saved;
//   - the owner of the oldest layer that is based on it.
//
// All other layers belong to the server.
type Layers struct {
	Store     LayerStore
	Agents    store.Sizes
	Snapshots store.Snapshots
	AgentOf   func(machineID string) (agentID string, ok bool)
}

// A LayerStore is the part of [layer.Store] that [Layers] uses.
type LayerStore interface {
	Needs() ([]layer.Need, error)
	DiskUsage(ctx context.Context, id string) (bytes, inodes int64, err error)
}

// Kind implements [Source].
func (Layers) Kind() Kind { return Layer }

// Items implements [Source].
func (s Layers) Items(ctx context.Context) ([]Item, error) {
	needs, err := s.Store.Needs()
	if err != nil {
		return nil, err
	}
	agents, err := s.Agents.Owners(ctx)
	if err != nil {
		return nil, err
	}
	saved, err := s.Snapshots.AllSnapshots(ctx)
	if err != nil {
		return nil, err
	}
	owned := s.attribute(needs, agents, saved)
	for i := range owned {
		id := owned[i].ID
		owned[i].Measure = func(ctx context.Context, _ Measured) (got Measured, err error) {
			got.Bytes, got.Inodes, err = s.Store.DiskUsage(ctx, id)
			if f, ok := errors.AsType[*fault.Error](err); ok && f.Kind == fault.KindNotFound {
				return Measured{}, nil // the layer was removed meanwhile
			}
			return got, err
		}
	}
	return owned, nil
}

// attribute returns the layers with their owners. agents are sorted by age,
// oldest first.
func (s Layers) attribute(needs []layer.Need, agents []store.Owner, saved []environment.Snapshot) []Item {
	savedBy := map[string]int64{}
	for _, n := range saved {
		savedBy[n.ID] = n.UserID
	}
	rank := map[string]int{} // agents' positions by age
	waiting := map[string][]string{}
	for i, o := range agents {
		rank[o.AgentID] = i
		if o.Layer != "" {
			waiting[o.Layer] = append(waiting[o.Layer], o.AgentID)
		}
	}
	byID := map[string]layer.Need{}
	above := map[string]string{} // for each layer, the oldest layer based on it
	for _, n := range needs {
		byID[n.ID] = n
		if old, ok := byID[above[n.Parent]]; n.Parent != "" && (!ok || n.Created.Before(old.Created)) {
			above[n.Parent] = n.ID
		}
	}
	owner := func(id string) Item {
		for at, steps := id, 0; at != "" && steps <= len(needs); at, steps = above[at], steps+1 {
			if userID, ok := savedBy[at]; ok {
				return Item{ID: id, UserID: userID}
			}
			if layer.IsBuild(at) {
				break
			}
			oldest := -1
			consider := func(agentID string) {
				if i, ok := rank[agentID]; ok && (oldest < 0 || i < oldest) {
					oldest = i
				}
			}
			for _, m := range byID[at].Machines {
				if agentID, ok := s.AgentOf(m); ok {
					consider(agentID)
				}
			}
			for _, agentID := range waiting[at] {
				consider(agentID)
			}
			if oldest >= 0 {
				return Item{ID: id, AgentID: agents[oldest].AgentID, UserID: agents[oldest].UserID}
			}
		}
		return Item{ID: id}
	}
	all := make([]Item, len(needs))
	for i, n := range needs {
		all[i] = owner(n.ID)
	}
	return all
}

// Journals lists the journals of agents. A measurement adds only the events
// since the last one. Inodes are 0, because the database is one file.
type Journals struct{ Store store.Sizes }

// Kind implements [Source].
func (Journals) Kind() Kind { return Journal }

// Items implements [Source].
func (s Journals) Items(ctx context.Context) ([]Item, error) {
	agents, err := s.Store.Owners(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Item, len(agents))
	for i, o := range agents {
		all[i] = Item{ID: o.AgentID, AgentID: o.AgentID, UserID: o.UserID, Version: strconv.FormatInt(o.Head, 10)}
		all[i].Measure = func(ctx context.Context, last Measured) (Measured, error) {
			after, _ := strconv.ParseInt(last.Version, 10, 64) // last.Version is "" the first time
			n, head, err := s.Store.JournalBytes(ctx, o.AgentID, after)
			if err != nil {
				return last, err
			}
			return Measured{Size: Size{Bytes: last.Bytes + n}, Version: strconv.FormatInt(max(head, after), 10)}, nil
		}
	}
	return all, nil
}

// Folders lists the files and folders in a folder. An entry belongs to the
// agent whose id is its name, or else to the server.
type Folders struct {
	Of    Kind
	In    Folder
	Store store.Sizes // nil if all entries belong to the server
}

// A Folder lists and measures the entries of a folder of the host. [Dir]
// implements it.
type Folder interface {
	// Entries returns the names of the entries.
	Entries(ctx context.Context) ([]string, error)
	// Usage returns the disk usage of an entry: bytes and the number of inodes.
	Usage(ctx context.Context, name string) (bytes, inodes int64, err error)
}

// Kind implements [Source].
func (s Folders) Kind() Kind { return s.Of }

// Items implements [Source].
func (s Folders) Items(ctx context.Context) ([]Item, error) {
	names, err := s.In.Entries(ctx)
	if err != nil {
		return nil, err
	}
	by := map[string]store.Owner{}
	if s.Store != nil {
		if by, err = owners(ctx, s.Store); err != nil {
			return nil, err
		}
	}
	all := make([]Item, len(names))
	for i, name := range names {
		all[i] = item(name, name, by)
		all[i].Measure = func(ctx context.Context, _ Measured) (got Measured, err error) {
			got.Bytes, got.Inodes, err = s.In.Usage(ctx, name)
			return got, err
		}
	}
	return all, nil
}

// Dir is the path of a [Folder] that this process can read. A missing folder is
// empty.
type Dir string

// Entries implements [Folder].
func (d Dir) Entries(context.Context) ([]string, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list %s: %w", string(d), err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// Usage implements [Folder].
func (d Dir) Usage(ctx context.Context, name string) (bytes, inodes int64, err error) {
	if filepath.Base(name) != name || !filepath.IsLocal(name) {
		return 0, 0, fmt.Errorf("measure %s: invalid name %q", string(d), name)
	}
	size, err := folderSize(ctx, filepath.Join(string(d), name))
	return size.Bytes, size.Inodes, err
}

// folderSize returns the disk usage below path, with hard links counted once. It
// ignores files that have disappeared and files on other file systems.
func folderSize(ctx context.Context, path string) (total Size, err error) {
	type inode struct{ dev, ino uint64 }
	linked := map[inode]bool{}
	var disk uint64
	err = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var info fs.FileInfo
		if err == nil {
			info, err = d.Info()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return nil
		}
		if at == path {
			disk = st.Dev
		}
		if st.Dev != disk {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if st.Nlink > 1 && !d.IsDir() {
			if linked[inode{st.Dev, st.Ino}] {
				return nil
			}
			linked[inode{st.Dev, st.Ino}] = true
		}
		total = total.Plus(Size{st.Blocks * blockSize, 1})
		return nil
	})
	if err != nil {
		return Size{}, fmt.Errorf("measure %s: %w", path, err)
	}
	return total, nil
}

// blockSize is the unit of st_blocks in bytes, on every file system.
const blockSize = 512
