package environment

import "time"

// Snapshot is the saved disk of a machine that a person, or an agent, has set
// up. Its ID is that of the layer, which may be gone.
type Snapshot struct {
	ID        string    `json:"id"` // snapshot-YYYYMMDD-<uuid>
	UserID    int64     `json:"userId"`
	Repo      string    `json:"repo"` // whose machines may start from it, in the form of secret.Repo
	AgentID   string    `json:"agentId"`
	CreatedAt time.Time `json:"createdAt"`
	UsedAt    time.Time `json:"usedAt,omitzero"` // about when a machine last began with it
	// PublishedBy is the user ID of the admin who lets every member's machines start
	// from it; 0 leaves it to those of UserID.
	PublishedBy int64 `json:"publishedBy,omitempty"`
}

// For reports whether machines of the user may start from the snapshot. Whoever
// made it decides what runs in a machine that starts from it, and that machine
// has the user's secrets: so it is the user's own, or an admin has published it.
func (s Snapshot) For(userID int64) bool { return s.UserID == userID || s.PublishedBy != 0 }

// Disk is a snapshot with what is known of its files.
type Disk struct {
	Snapshot
	Size      int64     // bytes on the disk, without what it stands on; negative where they were not counted in time
	ExpiresAt time.Time // when it is removed unless a machine begins with it before; zero is never
}
