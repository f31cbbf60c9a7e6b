package environment

import "time"

// Snapshot is the record of a machine's saved disk, which a person or an agent has set
// up. Its ID is also the id of the layer, which may no longer exist.
type Snapshot struct {
	ID        string    `json:"id"` // snapshot-YYYYMMDD-<uuid>
	UserID    int64     `json:"userId"`
	Repo      string    `json:"repo"` // repository whose machines may start from it, in the form of secret.Repo
	AgentID   string    `json:"agentId"`
	CreatedAt time.Time `json:"createdAt"`
	UsedAt    time.Time `json:"usedAt,omitzero"` // approximately when a machine last started from the snapshot
	// PublishedBy is the user ID of the admin who made the snapshot available to every
	// member; 0 means that only UserID can use it.
	PublishedBy int64 `json:"publishedBy,omitempty"`
}

// For reports whether machines of the user may start from the snapshot. Its
// author controls the programs in such a machine, which also has the user's
// secrets. So the snapshot must be the user's own, or published by an admin.
func (s Snapshot) For(userID int64) bool { return s.UserID == userID || s.PublishedBy != 0 }

// Disk is a snapshot with the state of its files.
type Disk struct {
	Snapshot
	Size      int64     // bytes on the disk, without the layers below; negative if counting timed out
	ExpiresAt time.Time // when the snapshot will be removed if it stays unused; zero means never
}
