package environment

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// Record is one attempt to make an environment ready: what the REST API calls a
// build. Its ID is that of the layer that it leaves.
type Record struct {
	ID            string   `json:"id"` // bld-YYYYMMDD-<uuid>
	EnvironmentID string   `json:"environmentId"`
	Status        Status   `json:"status"`
	Trigger       Trigger  `json:"trigger"`
	FailureType   Failure  `json:"failureType,omitempty"`
	Message       string   `json:"message,omitempty"` // why it failed or was skipped, for people
	ExitCode      *int     `json:"exitCode,omitempty"`
	Image         string   `json:"image,omitempty"` // as machines name it
	Base          string   `json:"base,omitempty"`  // the snapshot above it that the build began with
	Commits       []Commit `json:"commits,omitempty"`
	Digest        string   `json:"digest,omitempty"` // [Environment.BuildDigest] of what was made
	Inputs        string   `json:"inputs,omitempty"` // identifies the files that install may read
	MachineID     string   `json:"machineId,omitempty"`
	UserID        int64    `json:"userId,omitempty"` // for whom it was made
	// User and Env are the environment's, for whoever looks at the wreck.
	User      string            `json:"user,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	CreatedAt time.Time         `json:"createdAt"`
	CheckedAt time.Time         `json:"checkedAt"`       // when it was last found to be as a new one would be
	UsedAt    time.Time         `json:"usedAt,omitzero"` // about when a machine last began with it
	EndedAt   *time.Time        `json:"endedAt,omitempty"`
}

// Commit is what of a repository is in a build.
type Commit struct {
	URL    string `json:"url"`
	Commit string `json:"commit"`
}

// Status is how far a build is.
type Status string

// The statuses. All but InProgress are final.
const (
	InProgress Status = "IN_PROGRESS"
	Succeeded  Status = "SUCCEEDED"
	Failed     Status = "FAILED"
	Cancelled  Status = "CANCELLED"
	Skipped    Status = "SKIPPED" // nothing had changed
)

// Trigger is why there is a build.
type Trigger string

// The triggers.
const (
	Recurring    Trigger = "RECURRING"
	ConfigChange Trigger = "CONFIG_CHANGE"
	Manual       Trigger = "MANUAL"
	AgentDraft   Trigger = "AGENT_DRAFT"
)

// Failure is why a build failed.
type Failure string

// The failures.
const (
	InstallFailed   Failure = "INSTALL_FAILED"   // install ended badly: it is the project's to mend
	TerminalFailure Failure = "TERMINAL_FAILURE" // there was no base, no machine or no checkout
)

// URLs are those of the repositories of a build.
func (r Record) URLs() (urls []string) {
	for _, c := range r.Commits {
		urls = append(urls, c.URL)
	}
	return urls
}

// OfRepository is the id of the environment that a repository's own file says,
// as its builds have it; beside others, that of them all.
func OfRepository(urls ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(urls, "\n")))
	return "env-" + hex.EncodeToString(sum[:16])
}
