package environments

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/agents"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

// Disks stores the files of snapshots. Its methods are safe for concurrent use.
type Disks interface {
	// Disk describes a snapshot's files. It returns false if there are none.
	Disk(ctx context.Context, s environment.Snapshot) (environment.Disk, bool)
	// RemoveDisk removes the files, if any. Machines that started from them
	// keep running.
	RemoveDisk(id string) error
}

type savedSnapshotJSON struct {
	_         struct{}   `json:"-" additionalProperties:"true"`
	ID        string     `json:"id"`
	UserID    int64      `json:"userId" minimum:"0" doc:"user who saved it"`
	AgentID   string     `json:"agentId" doc:"agent whose machine it was"`
	Repo      string     `json:"repo" doc:"repository whose machines may start from it, such as github.com/o/r"`
	SizeBytes *int64     `json:"sizeBytes,omitempty" minimum:"0" doc:"size on disk without the layers below it; absent if it could not be measured in time"`
	CreatedAt time.Time  `json:"createdAt"`
	Published bool       `json:"published" doc:"machines of all members may start from it; otherwise only those of userId"`
	UsedAt    *time.Time `json:"usedAt,omitempty" doc:"about when a machine last started from it"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty" doc:"when it will be removed unless a machine starts from it first; absent is never"`
}

type updateSnapshotRequestJSON struct {
	_         struct{} `json:"-" additionalProperties:"true"`
	Published bool     `json:"published"`
}

type listSnapshotsResponseJSON struct {
	_          struct{}            `json:"-" additionalProperties:"true"`
	Items      []savedSnapshotJSON `json:"items" nullable:"false"`
	NextCursor string              `json:"nextCursor,omitempty" minLength:"1"`
}

func (s *API) snapshotRoutes() []rest.Route {
	return []rest.Route{
		{Method: "GET", Path: "/v1/snapshots", ID: "listSnapshots", Summary: "List snapshots of your machines (for admins, of all machines), newest first",
			Query: append(slices.Clone(rest.PageParams),
				rest.Param{Name: "environmentId", Kind: "string", Words: "only snapshots of this environment's repositories"},
				rest.Param{Name: "repo", Kind: "string", Words: "only snapshots of the repository with this URL"}),
			Status: 200, Out: listSnapshotsResponseJSON{}, Handle: s.listSnapshots},
		{Method: "PATCH", Path: "/v1/snapshots/{snapshotId}", ID: "updateSnapshot", Summary: "Publish a snapshot to all members, or unpublish it; admins only", Needs: account.Admin,
			In: updateSnapshotRequestJSON{}, Status: 200, Out: savedSnapshotJSON{}, Handle: s.updateSnapshot},
		{Method: "DELETE", Path: "/v1/snapshots/{snapshotId}", ID: "deleteSnapshot", Summary: "Delete a snapshot; machines that started from it are not affected",
			Status: 200, Out: rest.IDResponseJSON{}, Handle: s.deleteSnapshot},
	}
}

// countWithin limits how long one request may spend measuring snapshot files.
const countWithin = 5 * time.Second

func (s *API) listSnapshots(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	p, limit, err := rest.Page(r.URL.Query(), rest.SnapshotList)
	if err != nil {
		return err
	}
	of, err := s.snapshotFilter(r, who)
	if err != nil {
		return err
	}
	out := listSnapshotsResponseJSON{Items: []savedSnapshotJSON{}}
	all, err := s.Snapshots.AllSnapshots(r.Context())
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), countWithin)
	defer cancel()
	for _, n := range slices.Backward(all) {
		after := p.BeforeTime.IsZero() || n.CreatedAt.Before(p.BeforeTime) || n.CreatedAt.Equal(p.BeforeTime) && n.ID < p.BeforeID
		if !after || !who.MaySee(n.UserID) || !of(n.Repo) {
			continue
		}
		d := environment.Disk{Snapshot: n, Size: -1}
		if s.Disks != nil {
			var there bool
			if d, there = s.Disks.Disk(ctx, n); !there {
				continue // the files are not written yet, or writing them failed
			}
		}
		if len(out.Items) == limit {
			last := out.Items[limit-1]
			out.NextCursor = rest.Cursor(rest.SnapshotList, last.CreatedAt, last.ID)
			break
		}
		out.Items = append(out.Items, savedSnapshotOf(d))
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

func savedSnapshotOf(d environment.Disk) savedSnapshotJSON {
	out := savedSnapshotJSON{ID: d.ID, UserID: d.UserID, AgentID: d.AgentID, Repo: d.Repo, CreatedAt: rest.Stamp(d.CreatedAt), Published: d.PublishedBy != 0}
	if d.Size >= 0 {
		out.SizeBytes = &d.Size
	}
	for to, at := range map[**time.Time]time.Time{&out.UsedAt: d.UsedAt, &out.ExpiresAt: d.ExpiresAt} {
		if !at.IsZero() {
			at = rest.Stamp(at)
			*to = &at
		}
	}
	return out
}

// snapshotFilter returns a filter for the repositories that a request names and
// the caller may see.
func (s *API) snapshotFilter(r *http.Request, who account.APIKey) (func(repo string) bool, error) {
	q := r.URL.Query()
	var of []string
	if id := q.Get("environmentId"); id != "" {
		e, err := s.environment(r.Context(), who, id, false)
		if err != nil {
			return nil, err
		}
		of = e.Repos
	} else if raw := q.Get("repo"); raw != "" {
		url, err := agents.RepoURL(raw, s.AllowFile)
		if err != nil {
			return nil, fault.Of(err).At("repo")
		}
		of = []string{url}
	} else {
		return func(string) bool { return true }, nil
	}
	names := map[string]bool{}
	for _, url := range of {
		names[secret.Repo(url)] = true
	}
	return func(repo string) bool { return names[repo] }, nil
}

// updateSnapshot publishes or unpublishes a snapshot. Machines that started
// from it are not affected.
func (s *API) updateSnapshot(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	var in updateSnapshotRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	id := r.PathValue("snapshotId")
	missing := fault.NotFound("no snapshot %s", fault.Quoted(id))
	var by int64
	if in.Published {
		by = who.UserID
	}
	n, err := s.Snapshots.Snapshot(r.Context(), id)
	if err == nil {
		n.PublishedBy = by
		err = s.Snapshots.PublishSnapshot(r.Context(), id, by)
	}
	if errors.Is(err, store.ErrNotFound) {
		return missing
	}
	if err != nil {
		return err
	}
	d := environment.Disk{Snapshot: n, Size: -1}
	if s.Disks != nil {
		d, _ = s.Disks.Disk(r.Context(), n)
	}
	return rest.WriteJSON(w, http.StatusOK, savedSnapshotOf(d))
}

// deleteSnapshot deletes the files before the record. So if the server crashes
// in between, the snapshot can still be found and deleted again.
func (s *API) deleteSnapshot(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	id := r.PathValue("snapshotId")
	missing := fault.NotFound("no snapshot %s, or you may not delete it", fault.Quoted(id))
	n, err := s.Snapshots.Snapshot(r.Context(), id)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && n.UserID != who.UserID && !who.Role.Covers(account.Admin):
		return missing
	case err != nil:
		return err
	}
	if s.Disks != nil {
		if err := s.Disks.RemoveDisk(n.ID); err != nil {
			return err
		}
	}
	if err := s.Snapshots.DeleteSnapshot(r.Context(), n.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, rest.IDResponseJSON{ID: n.ID})
}
