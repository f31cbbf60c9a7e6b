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
}

// Disk is a snapshot with what is known of its files.
type Disk struct {
	Snapshot
	Size      int64     // bytes on the disk, without what it stands on; negative where they were not counted in time
	ExpiresAt time.Time // when it is removed unless a machine begins with it before; zero is never
}
