package environment

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// Record is one attempt to build an environment; the REST API calls it a build. Its ID
// is also the id of the resulting layer.
type Record struct {
	ID            string   `json:"id"` // bld-YYYYMMDD-<uuid>
	EnvironmentID string   `json:"environmentId"`
	Status        Status   `json:"status"`
	Trigger       Trigger  `json:"trigger"`
	FailureType   Failure  `json:"failureType,omitempty"`
	Message       string   `json:"message,omitempty"` // why the build failed or was skipped, for people
	ExitCode      *int     `json:"exitCode,omitempty"`
	Image         string   `json:"image,omitempty"` // name of the image, as used by machines
	Base          string   `json:"base,omitempty"`  // snapshot on top of the image from which the build started
	Commits       []Commit `json:"commits,omitempty"`
	Digest        string   `json:"digest,omitempty"` // [Environment.BuildDigest] of the build
	Inputs        string   `json:"inputs,omitempty"` // digest of the files that install may read
	MachineID     string   `json:"machineId,omitempty"`
	UserID        int64    `json:"userId,omitempty"` // user for whom the build was made
	// User and Env are those of the environment. They are used if a person visits the
	// machine of a failed build.
	User      string            `json:"user,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	CreatedAt time.Time         `json:"createdAt"`
	CheckedAt time.Time         `json:"checkedAt"`       // when the build was last found to be up to date
	UsedAt    time.Time         `json:"usedAt,omitzero"` // approximately when a machine last started from the build
	EndedAt   *time.Time        `json:"endedAt,omitempty"`
}

// Commit is the commit of a repository in a build.
type Commit struct {
	URL    string `json:"url"`
	Commit string `json:"commit"`
}

// Status is the state of a build.
type Status string

// The statuses. All but InProgress are final.
const (
	InProgress Status = "IN_PROGRESS"
	Succeeded  Status = "SUCCEEDED"
	Failed     Status = "FAILED"
	Cancelled  Status = "CANCELLED"
	Skipped    Status = "SKIPPED" // nothing had changed since the last build
)

// Trigger is the reason for a build.
type Trigger string

// The reasons for builds.
const (
	Recurring    Trigger = "RECURRING"
	ConfigChange Trigger = "CONFIG_CHANGE"
	Manual       Trigger = "MANUAL"
	AgentDraft   Trigger = "AGENT_DRAFT"
)

// Failure is the kind of failure of a build.
type Failure string

// The kinds of failures.
const (
	InstallFailed   Failure = "INSTALL_FAILED"   // install failed: the project must fix it
	TerminalFailure Failure = "TERMINAL_FAILURE" // there was no base, no machine or no checkout
)

// URLs returns the URLs of a build's repositories.
func (r Record) URLs() (urls []string) {
	for _, c := range r.Commits {
		urls = append(urls, c.URL)
	}
	return urls
}

// OfRepository returns the id under which builds of a repository's own environment file
// are recorded. For several URLs, the id identifies their combination.
func OfRepository(urls ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(urls, "\n")))
	return "env-" + hex.EncodeToString(sum[:16])
}
